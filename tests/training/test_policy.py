"""Policies out of run folders: what they do is what the agent does, in JAX and in NumPy alone."""

import dataclasses
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import spjax
from spjax.agents.episodic import CMAES, SPRL
from spjax.agents.episodic.features import Polynomial, RadialBasis
from spjax.agents.step_based import PPO, SAC
from spjax.runs.schema import Lane
from spjax.training.policy import Policy, chosen_lane
from spjax.training.train import restore
from tests.docs.running import ROOT
from tests.training.conftest import tiny

LOADER = ROOT / "docs" / "numpy_policy.py"
LINEAR = SPRL(num_samples=4, buffer_size=2, policy_features=Polynomial(1))
BUMPS = dataclasses.replace(
    LINEAR, policy_features=RadialBasis((-5.0, 0.1), (5.0, 10.0), (4, 3), (9.0, 0.2))
)
OBSERVATIONS = np.random.default_rng(0).normal(size=(7, 6)).astype(np.float32)


def loaded(path):
    """Returns the exported policy, by the file that users copy."""
    scope = {}
    exec(LOADER.read_text(), scope)
    return scope["load"](path)


def untrained(task, agent, key, change=lambda state: state):
    """Returns a policy with the first state of an agent, and a change to it."""
    config = spjax.preset(task, *(["sprl"] if task.startswith("gate") else []))
    config = dataclasses.replace(config, agent=agent)
    lane = config.lanes()[0]
    experiment = config.experiment(lane)
    state = jax.jit(lambda: experiment.init(key).agent_state)()
    return Policy(experiment, change(state), lane, 0)


def test_a_policy_takes_the_actions_of_its_lane_single_and_batched_inside_the_bounds(
    finished,
):
    policy = spjax.load_policy(finished, seed=2)
    assert repr(policy) == "ppo on point-mass-2d, seed 2, iteration 6"

    config, program, states = restore(finished)
    agent, env = config.agent, config.task
    state = program.layout.one(states, 1).agent_state
    lower, upper = env.action_lower, env.action_upper
    means = agent.deterministic_action(state, env, jnp.asarray(OBSERVATIONS))
    actions = policy(OBSERVATIONS)
    assert isinstance(actions, np.ndarray)
    np.testing.assert_allclose(actions, np.clip(means, lower, upper), rtol=1e-6)
    np.testing.assert_allclose(policy(OBSERVATIONS[3].tolist()), actions[3], rtol=1e-5)
    assert policy(OBSERVATIONS[3]).shape == (2,)

    drawn = policy(OBSERVATIONS, deterministic=False, key=5)
    expected = agent.act(state, env, jax.random.key(5), jnp.asarray(OBSERVATIONS))
    np.testing.assert_allclose(drawn, np.clip(expected, lower, upper), rtol=1e-6)


def test_draws_repeat_with_a_key_and_go_on_without_one(finished):
    one, other = (spjax.load_policy(finished, seed=1) for _ in range(2))
    observation = OBSERVATIONS[0]
    first, second = (one(observation, deterministic=False) for _ in range(2))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(other(observation, deterministic=False), first)
    with_seed = one(observation, deterministic=False, key=7)
    with_key = one(observation, deterministic=False, key=jax.random.key(7))
    np.testing.assert_array_equal(with_seed, with_key)


def test_double_precision_elsewhere_changes_no_action(finished):
    policy = spjax.load_policy(finished, seed=1)
    single = policy(OBSERVATIONS)
    with jax.enable_x64(True):
        double = spjax.load_policy(finished, seed=1)(OBSERVATIONS)
    assert double.dtype == np.float32
    np.testing.assert_array_equal(single, double)


def at_a_bound(state):
    """Returns a step-based state whose actions vary, and reach a bound."""
    network = state.params["policy"]["params"]["MLP_0"]
    layer = network["Dense_1"]
    kernel = 2 * layer["kernel"] / jnp.abs(layer["kernel"]).max()
    bias = layer["bias"].at[0].set(9.5)
    network = {**network, "Dense_1": {"kernel": kernel, "bias": bias}}
    policy = {"params": {**state.params["policy"]["params"], "MLP_0": network}}
    return dataclasses.replace(state, params={**state.params, "policy": policy})


def having_seen(state):
    """Returns the same with statistics of observations."""
    rows = jnp.asarray(3 + 5 * np.random.default_rng(1).normal(size=(50, 6)), float)
    seen = at_a_bound(state)
    return dataclasses.replace(seen, normalizer=seen.normalizer.seeing(rows))


def moved(state):
    """Returns an episodic state whose mean depends on the context, and reaches a bound."""
    numbers = np.random.default_rng(2).normal(size=state.policy.gain.shape, scale=0.3)
    gain = jnp.asarray(numbers, float).at[0].set(12.0)
    policy = dataclasses.replace(state.policy, gain=gain)
    return dataclasses.replace(state, policy=policy)


def searched(state):
    """Returns the state of a search whose mean is beyond a bound in places."""
    numbers = np.random.default_rng(3).normal(size=state.search.mean.shape, scale=9)
    search = state.search.replace(mean=jnp.asarray(numbers, float))
    return dataclasses.replace(state, search=search)


@pytest.mark.parametrize(
    ("task", "agent", "change"),
    [
        ("point-mass-2d", PPO(hidden=(8,)), at_a_bound),
        ("point-mass-2d", PPO(hidden=(8,), normalize_observations=True), having_seen),
        ("point-mass-2d", SAC(hidden=(8,), replay_size=10), at_a_bound),
        ("gate-precision", LINEAR, moved),
        ("gate-precision", BUMPS, moved),
        ("gate-precision", CMAES(), searched),
    ],
)
def test_an_exported_policy_acts_in_numpy_as_the_agent_does(
    task, agent, change, key, tmp_path
):
    policy = untrained(task, agent, key, change=change)
    space = policy.experiment.task.context_space
    rng = np.random.default_rng(4)
    asked = {
        "observation": 3 + 5 * rng.normal(size=(20, 6)),
        "context": rng.uniform(space.lower, space.upper, size=(20, space.size)),
    }[policy.experiment.collector.asked[0]]
    expected = policy(asked)
    varied = len(np.unique(expected, axis=0)) > 1
    assert varied != isinstance(agent, CMAES)  # which knows no contexts

    task = policy.experiment.task
    upper = getattr(task, "action_upper", None) or task.parameter_upper
    assert isinstance(agent, SAC | CMAES) or (expected == np.asarray(upper)).any()
    acting = loaded(policy.export(tmp_path / "policy.npz"))
    close = {"rtol": 1e-6, "atol": 1e-6 * upper[0]}  # of the way to a bound
    np.testing.assert_allclose(acting(asked), expected, **close)
    np.testing.assert_allclose(acting(asked[0]), expected[0], **close)


def test_the_reader_needs_numpy_alone(finished, tmp_path):
    assert len([line for line in LOADER.read_text().splitlines() if line]) <= 20
    policy = spjax.load_policy(finished, seed=1)
    policy.export(tmp_path / "policy.npz")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import numpy, numpy_policy;"
        "act = numpy_policy.load(sys.argv[2]); print(*act([1, 2, 3, 4, 5, 6]));"
        "sys.exit('jax' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, LOADER.parent, tmp_path / "policy.npz"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(
        [float(word) for word in done.stdout.split()],
        policy([1, 2, 3, 4, 5, 6]),
        atol=1e-5,
    )


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ([1, 2, 3], r"observation needs shape \[6\] or \[batch, 6\], got \[3\]$"),
        (np.zeros((2, 2, 6)), r"or \[batch, 6\], got \[2, 2, 6\]$"),
        ([[1, 2], [3]], r"of numbers, got \[\[1, 2\], \[3\]\]$"),
        ("left", r"of numbers, got 'left'$"),
        ([0, 0, np.nan, 0, 0, 0], "observation needs finite numbers, got"),
    ],
)
def test_an_observation_of_another_shape_is_one_sentence(finished, asked, sentence):
    with pytest.raises(ValueError, match=sentence):
        spjax.load_policy(finished, seed=1)(asked)


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("x", "key needs a JAX key or a seed, got 'x'$"),
        (-1, r"a seed lies in \[0, 2\^32\), got -1$"),
    ],
)
def test_a_key_that_is_none_is_one_sentence(finished, key, sentence):
    with pytest.raises(ValueError, match=sentence):
        spjax.load_policy(finished, seed=1)(OBSERVATIONS, deterministic=False, key=key)


def test_a_context_outside_its_bounds_is_one_sentence(key):
    policy = untrained("gate-precision", LINEAR, key)
    with pytest.raises(ValueError, match=r"context: .* = 100 lies outside its bounds"):
        policy([100.0, 1.0])


OVER = {"teacher.schedule.zeta": (0.4, 1.6), "agent.discount": (0.9,)}


@pytest.mark.parametrize(
    ("seed", "setting", "sentence"),
    [
        (9, {}, "^seed 9 is not in the run; its seeds are 1, 2$"),
        (None, {}, r"^the run has the seeds 1, 2; say which one, such as seed=1$"),
        (1, {}, "^the run has teacher.schedule.zeta = 0.4, 1.6; say which one"),
        (1, {"zeta": 0.4}, "^unknown setting 'zeta'; the run sweeps over teacher"),
        (
            1,
            {"teacher.schedule.zeta": 0.5},
            "^teacher.schedule.zeta = 0.5 is not in the run; its values are 0.4, 1.6$",
        ),
    ],
)
def test_a_lane_that_the_run_has_not_is_one_sentence(seed, setting, sentence):
    with pytest.raises(ValueError, match=sentence):
        chosen_lane(tiny(seeds=(1, 2), over=OVER), seed, setting)


def test_settings_with_one_value_and_a_single_seed_need_not_be_said():
    config = tiny(seeds=(4,), over=OVER)
    number = chosen_lane(config, None, {"teacher.schedule.zeta": np.float64(1.6)})
    expected = {"teacher.schedule.zeta": 1.6, "agent.discount": 0.9}
    assert config.lanes()[number] == Lane(4, expected)


def test_a_run_without_a_checkpoint_and_a_folder_without_a_run_are_one_sentence(
    finished, tmp_path
):
    copy = shutil.copytree(finished, tmp_path / "copy")
    shutil.rmtree(copy / "checkpoints")
    with pytest.raises(ValueError, match="is finished but has no checkpoints"):
        spjax.load_policy(copy, seed=1)
    (copy / "summary.json").unlink()
    with pytest.raises(ValueError, match=r"has no checkpoint yet; resume it first$"):
        spjax.load_policy(copy, seed=1)
    with pytest.raises(ValueError, match="there is no run folder"):
        spjax.load_policy(tmp_path / "nowhere")


def test_a_policy_that_cannot_be_exported_is_one_sentence(finished, tmp_path):
    policy = spjax.load_policy(finished, seed=1)
    with pytest.raises(ValueError, match=r"is exported to an \.npz file, got .*\.txt$"):
        policy.export(tmp_path / "policy.txt")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        policy.export(tmp_path / "file" / "policy.npz")
