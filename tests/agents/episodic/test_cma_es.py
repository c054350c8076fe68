"""CMA-ES and its bounds against pycma, and where rewards say nothing."""

import dataclasses
import functools
import re
import subprocess
import sys

import cma
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from spjax import settings
from spjax.agents.base import Rollouts
from spjax.agents.episodic import CMAES
from spjax.agents.episodic.bounds import into_bounds
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.gate import Gate
from spjax.episodes import Outcome
from spjax.teachers import TargetMean
from tests.agents.episodic.tasks import ToyTask

INF = float("inf")
SEEDS = 5
OTHER_SIDE = {
    "far": 1e30,
    "nan": float("nan"),
    "inf": INF,
    "-inf": -INF,
}  # costs of the sphere where theta_0 < 0
KINDS = ("sphere", "ellipsoid", "rosenbrock", "box", "plateau", *OTHER_SIDE)


def costs(theta, where=np.where):
    """Returns the cost in each landscape; each but the plateau has its minimum, 0, away from the start."""
    scale = np.linspace(0, 1, len(theta))
    beyond = (
        np.arange(len(theta)) < 4
    )  # these four end at the bound 10, and four more near it
    goal = np.where(beyond, 12.0, np.where(np.arange(len(theta)) < 8, 9.9, -3.0))
    sphere = ((theta - 1.5) ** 2).sum()
    return [
        sphere,
        (1e6**scale * (theta - 1.5) ** 2).sum(),
        (100 * (theta[1:] - theta[:-1] ** 2) ** 2 + (1 - theta[:-1]) ** 2).sum(),
        (100**scale * ((theta - goal) ** 2 - 4.0 * beyond)).sum(),
        0 * sphere,
        *(where(theta[0] < 0, cost, sphere) for cost in OTHER_SIDE.values()),
    ]


@struct.dataclass
class Landscape(ToyTask):
    """The context says which of the costs is to be paid."""

    size: int = struct.field(pytree_node=False, default=10)
    bound: float = struct.field(pytree_node=False, default=INF)

    horizon = 3
    context_space = ContextSpace(("landscape",), ("",), (0.0,), (8.0,))

    @property
    def initial(self):
        return Gaussian.from_std((0.0,), (1.0,))

    @property
    def target(self):
        return Gaussian.from_std((1.0,), (0.1,))

    @property
    def parameter_lower(self):
        return (-self.bound,) * self.size

    @property
    def parameter_upper(self):
        return (self.bound,) * self.size

    @property
    def parameter_std(self):
        return (0.5,) * (self.size - 1) + (2.0,)

    def rollout(self, key, theta, context):
        cost = jnp.stack(costs(theta, jnp.where))[context[0].astype(int)]
        return Outcome(
            reward=-cost, success=theta[0] > 0, length=jnp.asarray(3, jnp.int32)
        )


BOX = Landscape(size=16, bound=10.0)


@functools.partial(jax.jit, static_argnums=(0, 1))
def train(task, generations, kinds, stds, keys):
    """Returns the last states, all metrics and all episodes of one lane per landscape, initial step size and key."""

    def run(kind, std, key):
        key_init, key_run = jax.random.split(key)
        learner = CMAES(initial_std=std)
        world = Rollouts(
            task, lambda key, count: (jnp.full((count, 1), kind, float), ())
        )

        def generation(state, t):
            state, _, episodes, metrics = learner.iterate(
                state, world, jax.random.fold_in(key_run, t)
            )
            return state, (metrics, episodes)

        state, (metrics, episodes) = jax.lax.scan(
            generation, start(learner, task, key_init), jnp.arange(generations)
        )
        return state, metrics, episodes

    return jax.vmap(run)(kinds, stds, keys)


def start(learner, task, key):
    """Returns the state before the first generation."""
    return learner.init(key, task, task.initial, task.target)


def train_all(task, generations, stds):
    """Returns last states, metrics and episodes of a run by landscape, with an axis of seeds, the same for each."""
    kinds = jnp.repeat(jnp.asarray([KINDS.index(kind) for kind in stds]), SEEDS)
    keys = jax.random.split(jax.random.key(1), SEEDS)
    seeds = jnp.tile(jnp.arange(SEEDS), len(stds))
    results = train(
        task,
        generations,
        kinds,
        jnp.repeat(jnp.asarray([*stds.values()]), SEEDS),
        keys[seeds],
    )
    return {
        kind: jax.tree.map(lambda leaf, i=i: leaf[i * SEEDS :][:SEEDS], results)
        for i, kind in enumerate(stds)
    }


@pytest.fixture(scope="module")
def unbounded():
    stds = {
        kind: 0.5 if kind == "rosenbrock" else 2.0 for kind in KINDS if kind != "box"
    }
    return train_all(Landscape(), 600, stds)


def evaluations_of_pycma(kind, task, std, target, seed):
    """Returns how many evaluations pycma needs, with the rules of its version 2.7.0 for bounds; 8000 if it gives up."""
    options = {
        "bounds": [-task.bound, task.bound],
        "maxstd_boundrange": INF,
        "seed": seed + 1,
        "verbose": -9,
    }
    search = cma.CMAEvolutionStrategy(task.size * [0.0], std, options)
    while search.countevals < 8000:
        thetas = search.ask()
        found = [costs(np.asarray(theta))[KINDS.index(kind)] for theta in thetas]
        search.tell(thetas, found)
        if min(found) < target:
            break
    return search.countevals


def compare(kind, task, metrics, std, target):
    """Asserts that all seeds reach the target, and that in the median they need as long as pycma, within 25 %."""
    reached = -np.asarray(metrics.best_reward) < target
    assert reached.any(axis=1).all()
    ours = (reached.argmax(axis=1) + 1) * CMAES().num_rollouts(task)
    theirs = [
        evaluations_of_pycma(kind, task, std, target, seed) for seed in range(SEEDS)
    ]
    assert np.median(ours) == pytest.approx(np.median(theirs), rel=0.25)


@pytest.fixture
def published_margins(monkeypatch):
    """Lets pycma take the margins of its version 2.7.0, which it still has."""
    monkeypatch.setattr(
        cma.transformations, "linquad_margin_width", cma.transformations.margin_width1
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "std", "target"),
    [("sphere", 2.0, 1e-6), ("ellipsoid", 2.0, 1e-3), ("rosenbrock", 0.5, 1e-3)],
)
def test_it_needs_as_many_evaluations_as_pycma(unbounded, kind, std, target):
    states, metrics, _ = unbounded[kind]
    compare(kind, Landscape(), metrics, std, target)
    optimum = 1.0 if kind == "rosenbrock" else 1.5
    np.testing.assert_allclose(states.search.mean, optimum, atol=1e-3)


@pytest.mark.slow
def test_it_needs_as_many_evaluations_as_pycma_inside_bounds(published_margins):
    states, metrics, _ = train_all(BOX, 350, {"box": 10.0})["box"]
    compare("box", BOX, metrics, 10.0, 1e-2)
    best = into_bounds(states.search.mean, BOX.parameter_lower, BOX.parameter_upper)
    np.testing.assert_allclose(
        best, np.tile(np.repeat([10.0, 9.9, -3.0, -3.0], 4), (SEEDS, 1)), atol=1e-2
    )


@pytest.mark.parametrize(
    "bounds",
    [
        (-10.0, 10.0),
        (0.0, 1.0),
        (3.0, 3.001),
        (-500.0, 2.0),
        (-2.0, INF),
        (-INF, 7.0),
        (-INF, INF),
    ],
)
def test_the_bounds_are_those_of_pycma_also_far_outside(bounds, published_margins):
    low, high = bounds
    near = [
        end + step
        for end in bounds
        if np.isfinite(end)
        for step in np.linspace(-3, 3, 401)
    ]
    points = np.array([*near, *np.linspace(-30, 30, 301), -1e6, -1234.5, 777.7, 1e5])
    transform = cma.BoundTransform([low, high])
    mapped = jax.jit(lambda points: into_bounds(points, (low,), (high,)))
    with jax.enable_x64(True):
        found = np.asarray(mapped(jnp.asarray(points)[:, None]))[:, 0]
    expected = [float(transform.transform([point])[0]) for point in points]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9)
    single = np.asarray(mapped(jnp.asarray(points, jnp.float32)[:, None]))
    assert ((single >= np.float32(low)) & (single <= np.float32(high))).all()


def test_on_a_plateau_the_step_size_stays_in_the_order_of_the_first(unbounded):
    _, metrics, _ = unbounded["plateau"]
    stds = np.asarray(metrics.std)[:, :200]
    assert np.exp(np.log(stds).mean()) == pytest.approx(2.0, rel=1.0)
    assert stds.min() > 0.1
    assert stds.max() < 40


@pytest.mark.parametrize("kind", ["nan", "inf", "-inf"])
def test_a_reward_that_is_not_finite_is_the_worst(unbounded, kind):
    (states, metrics, episodes), (expected, finite, others) = (
        unbounded[kind],
        unbounded["far"],
    )
    np.testing.assert_array_equal(states.search.mean, expected.search.mean)
    np.testing.assert_array_equal(metrics.best_reward, finite.best_reward)
    np.testing.assert_array_equal(episodes.success, others.success)
    np.testing.assert_allclose(states.search.mean, 1.5, atol=1e-3)


def test_metrics_describe_the_population_of_their_generation(unbounded):
    _, metrics, episodes = unbounded["ellipsoid"]
    np.testing.assert_array_equal(metrics.std[:, 0], 2.0)
    np.testing.assert_allclose(
        metrics.entropy[:, 0], 10 * np.log(2) + 5 * np.log(2 * np.pi * np.e), rtol=1e-5
    )
    np.testing.assert_array_equal(episodes.length.sum(axis=-1), 3 * 10)
    np.testing.assert_array_equal(
        metrics.best_reward, episodes.episode_return.max(axis=-1)
    )
    assert episodes.mask.all()
    assert episodes.success[:, -1].all()


def test_a_lane_of_many_is_the_run_alone(unbounded):
    task, key = Landscape(), jax.random.split(jax.random.key(1), SEEDS)[2]
    _, _, alone = train(task, 20, jnp.asarray([2]), jnp.asarray([0.5]), key[None])
    _, _, lanes = unbounded["rosenbrock"]
    one, others = alone.episode_return.mean(axis=-1), lanes.episode_return.mean(axis=-1)
    np.testing.assert_allclose(one[0], others[2, :20], rtol=1e-3)
    assert not np.allclose(others[1, :20], others[2, :20], rtol=1e-3)


def test_what_is_not_set_is_as_published(key):
    for size, population in ((16, 12), (40, 15), (15, 12)):
        assert CMAES().num_rollouts(Landscape(size)) == population
    assert CMAES(population_size=50).num_rollouts(Landscape()) == 50
    state = start(CMAES(), Landscape(), key)
    assert float(state.search.std) == 2.0
    np.testing.assert_array_equal(state.search.mean, 0.0)
    assert int(CMAES().environment_steps_before(state)) == 0


def test_its_one_task_is_the_mean_of_the_target(key):
    teacher, space = TargetMean().bound_to(Landscape()), Landscape().context_space
    np.testing.assert_array_equal(teacher.sample(None, key, space), [1.0])
    for contexts in (
        teacher.batch(None, key, space, 3)[0],
        teacher.test_contexts(key, space, 3),
    ):
        np.testing.assert_array_equal(contexts, [[1.0]] * 3)


@pytest.mark.slow
def test_parameters_are_drawn_from_the_search_distribution_inside_the_bounds(key):
    draw = jax.jit(CMAES().sample_parameters, static_argnums=1)
    key_init, key_wide, key_narrow, key_single = jax.random.split(key, 4)
    state = start(CMAES(), BOX, key_init)
    contexts = jnp.zeros((4000, 1))
    wide = np.asarray(
        draw(_with(state, std=jnp.asarray(30.0)), BOX, key_wide, contexts)
    )
    assert (np.abs(wide) <= 10).all()
    assert (np.abs(wide).max(axis=0) > 9.9).all()
    factor, mean = jnp.eye(16).at[1, 0].set(2.0), jnp.arange(16) / 4 - 2
    narrow = _with(state, std=jnp.asarray(0.5), mean=mean, C=factor @ factor.T)
    draws = np.asarray(draw(narrow, BOX, key_narrow, contexts))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.06)
    np.testing.assert_allclose(np.cov(draws.T), 0.25 * factor @ factor.T, atol=0.1)
    assert draw(state, BOX, key_single, contexts[:1]).shape == (1, 16)


def _with(state, **changes):
    return dataclasses.replace(state, search=state.search.replace(**changes))


def test_a_generation_returns_a_state_of_the_same_types_and_runs_on_the_gate(key):
    learner, task = CMAES(), Gate(case="precision")
    teacher = TargetMean().bound_to(task)
    first = start(learner, task, key)

    def generation(state, key):
        world = Rollouts(
            task, lambda key, count: teacher.batch(None, key, task.context_space, count)
        )
        after, _, episodes, _ = learner.iterate(state, world, key)
        return after, episodes

    second, episodes = jax.eval_shape(generation, first, key)
    assert jax.tree.map(jax.typeof, first) == jax.tree.map(
        lambda leaf: jax.typeof(jnp.zeros(leaf.shape, leaf.dtype)), second
    )
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(second))
    assert (episodes.length.dtype, episodes.context.shape) == (jnp.int32, (12, 2))
    assert float(first.search.std) == 10.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"initial_std": -1.0}, "agent.initial_std must be at least 0, got -1.0"),
        ({"initial_std": INF}, "agent.initial_std must be finite, got inf"),
        (
            {"population_size": 2},
            "agent.population_size must be 0 or at least 3, got 2",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_in_words(change, message):
    def check(agent):
        settings.check("agent", agent)
        agent.check()

    check(CMAES())
    check(CMAES(population_size=3))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check(CMAES(**change))


def test_without_evosax_only_cma_es_is_missing():
    program = """
import sys
sys.modules["evosax"] = None
from spjax.agents.episodic import CMAES
try:
    CMAES().check()
except ValueError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "CMA-ES needs evosax: pip install 'spjax[evosax]'"
