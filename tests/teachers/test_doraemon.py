"""DORAEMON: its start, its updates against SciPy's of the same problem, what it promises, what it refuses."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from scipy.optimize import minimize

import spjax
from spjax.contexts import Beta, ContextSpace, Gaussian
from spjax.envs.gate import Gate
from spjax.envs.point_mass import PointMass
from spjax.episodes import Episodes
from spjax.outside.teacher import NumpyTeacher
from spjax.runs.read import load_run
from spjax.self_paced import Mode
from spjax.solvers.augmented_lagrangian import Result
from spjax.teachers import DORAEMON
from spjax.teachers.doraemon import Promise
from tests.teachers.checks import check
from tests.training.conftest import TINY

TASK = PointMass(dimensions=2)
SPACE = TASK.context_space
EPISODES = 128
EPSILON, ALPHA = float(np.float32(0.05)), 0.5
TEACHER = DORAEMON(max_kl=EPSILON, success_rate=ALPHA).bound_to(TASK)
PROBLEMS = 12  # random ones; more lanes follow
START, STAYS, LEAVES = PROBLEMS, PROBLEMS + 1, PROBLEMS + 2
LOW, WIDTH = np.array(SPACE.lower), np.array(SPACE.upper) - np.array(SPACE.lower)


def old_distribution(rng, lane):
    """Concentrations from nearly uniform to narrow; the published start in the lanes after the random ones."""
    if lane >= PROBLEMS:
        return np.full((2, 2), 100.0)
    mean, total = rng.uniform(0.3, 0.7, 2), 10 ** rng.uniform(0.8, 2.2, 2)
    return np.maximum([mean * total, (1 - mean) * total], 1.0)


def successes(share, lane):
    """A third of the random lanes succeeds often enough, a third just not, a third hardly ever; then all, and few."""
    if lane >= PROBLEMS:
        return np.full(len(share), lane == START) | (share[:, 0] > 0.55)
    quantile = (0.3, 0.53, 0.85)[lane % 3]
    slope = share[:, 0] - 0.4 * share[:, 1]
    return slope > np.quantile(slope, quantile)


@pytest.fixture(scope="module")
def lanes():
    """Problems and what the teacher makes of them, all in one program."""
    rng = np.random.default_rng(7)
    concentrations, shares, solved = [], [], []
    for lane in range(PROBLEMS + 3):
        a, b = old_distribution(rng, lane)
        share = rng.beta(a, b, (EPISODES, 2))
        concentrations.append((a, b))
        shares.append(share)
        solved.append(successes(share, lane))
    old = np.asarray(concentrations, np.float32)
    contexts = np.asarray(LOW + WIDTH * np.asarray(shares), np.float32)
    solved = np.asarray(solved)

    def update(concentration, context, success, reached):
        state = TEACHER.init(jax.random.key(0), SPACE)
        a, b = concentration
        state = state.replace(
            distribution=state.distribution.replace(a=a, b=b),
            reached=reached,
            memory=Promise.none().replace(made=reached),
        )
        rows = Episodes(
            mask=jnp.ones(EPISODES, bool),
            context=context,
            first_observation=jnp.zeros((EPISODES, TASK.observation_size)),
            episode_return=jnp.zeros(EPISODES),
            discounted_return=jnp.zeros(EPISODES),
            length=jnp.ones(EPISODES, jnp.int32),
            success=success,
            ticket=(),
        )
        return TEACHER.update(state, jax.random.key(1), rows, lambda rows: rows[:, 0])

    reached = np.arange(PROBLEMS + 3) != STAYS
    state, metrics = jax.jit(jax.vmap(update))(old, contexts, solved, reached)
    return old, contexts, solved, jax.tree.map(np.asarray, (state, metrics))


class Reference:
    """One problem in NumPy and SciPy; x holds the logarithms of a and b, which are at least 1."""

    def __init__(self, old, contexts, solved):
        self.a, self.b = np.asarray(old, float)
        self.share, self.solved = (np.asarray(contexts, float) - LOW) / WIDTH, solved
        self.start = np.log(np.concatenate([self.a, self.b]))

    def entropy(self, x):
        a, b = np.exp(x).reshape(2, 2)
        return float((stats.beta.entropy(a, b) + np.log(WIDTH)).sum())

    def kl(self, x):
        a, b = np.exp(x).reshape(2, 2)
        change = special.betaln(a, b) - special.betaln(self.a, self.b)
        change += (self.a - a) * special.digamma(self.a)
        change += (self.b - b) * special.digamma(self.b)
        both = a - self.a + b - self.b
        return float((change + both * special.digamma(self.a + self.b)).sum())

    def rate(self, x):
        a, b = np.exp(x).reshape(2, 2)
        ratios = stats.beta.logpdf(self.share, a, b).sum(axis=1)
        ratios -= stats.beta.logpdf(self.share, self.a, self.b).sum(axis=1)
        return float((np.exp(ratios) * self.solved).mean())

    def maximised(self, worth, start, rate=None):
        """SLSQP's best point, the start where it found none."""
        kept = [lambda x: 1 - self.kl(x) / EPSILON]
        if rate is not None:
            kept.append(lambda x: self.rate(x) - rate)
        x = minimize(
            lambda x: -worth(x),
            start,
            method="SLSQP",
            bounds=[(0.0, None)] * 4,
            constraints=[{"type": "ineq", "fun": fun} for fun in kept],
            options={"ftol": 1e-12, "maxiter": 200},
        ).x
        fine = min(fun(x) for fun in kept) > -1e-8 and worth(x) >= worth(start)
        return x if fine else start


def test_contexts_start_at_beta_100_100_in_the_middle_and_aim_at_the_uniform_distribution():
    low, high = np.array(SPACE.lower), np.array(SPACE.upper)
    start, target = TEACHER.starts_at, TEACHER.aims_at
    for name in ("a", "b"):
        np.testing.assert_array_equal(getattr(start, name), [100.0, 100.0])
        np.testing.assert_array_equal(getattr(target, name), [1.0, 1.0])
    np.testing.assert_allclose(start.summary().mean, (low + high) / 2)
    assert (target.lower, target.upper) == (SPACE.lower, SPACE.upper)
    wide = DORAEMON(concentration=20.0).bound_to(TASK).starts_at
    np.testing.assert_array_equal(wide.a, [20.0, 20.0])


@pytest.mark.slow
def test_an_update_is_never_worse_than_scipy_s_of_the_same_problem(lanes):
    old, contexts, solved, (state, metrics) = lanes
    modes = []
    for lane in range(PROBLEMS):
        problem = Reference(old[lane], contexts[lane], solved[lane])
        new = np.stack([state.distribution.a[lane], state.distribution.b[lane]])
        x = np.log(new.astype(float)).reshape(-1)
        best = problem.start
        if problem.rate(best) < ALPHA:
            best = problem.maximised(problem.rate, best)
        feasible = problem.rate(best) >= ALPHA
        assert metrics.mode[lane] == (
            (Mode.TARGET if best is problem.start else Mode.RESTORED)
            if feasible
            else Mode.REWARD
        )
        modes.append(int(metrics.mode[lane]))
        assert metrics.solver_result[lane] == Result.CONVERGED
        assert problem.kl(x) <= EPSILON * (1 + 1e-12)
        assert np.all(new >= 1)
        if feasible:
            best = problem.maximised(problem.entropy, best, ALPHA)
            assert problem.rate(x) >= ALPHA - 1e-9
            assert problem.entropy(x) >= problem.entropy(best) - 1e-4
        else:
            assert problem.rate(x) >= problem.rate(best) - 1e-4
    assert {Mode.TARGET, Mode.RESTORED, Mode.REWARD} == set(modes)


@pytest.mark.slow
def test_nothing_moves_before_the_success_rate_is_reached_and_later_the_backup_does(
    lanes,
):
    state, metrics = lanes[-1]
    np.testing.assert_array_equal(state.distribution.a[STAYS], [100.0, 100.0])
    assert metrics.solver_result[STAYS] == Result.NO_DATA
    assert not state.reached[STAYS]
    assert state.distribution.a[LEAVES, 0] > state.distribution.b[LEAVES, 0]
    assert np.all(state.distribution.a[START] < 100.0)


@pytest.mark.slow
def test_what_was_promised_is_held_against_the_next_episodes(lanes):
    _, _, solved, (state, metrics) = lanes
    rates = solved.mean(axis=1)
    np.testing.assert_allclose(metrics.observed_success.value, rates, rtol=1e-6)
    due = np.arange(PROBLEMS + 3) != STAYS  # the lanes whose last update had promised
    np.testing.assert_array_equal(metrics.constraint_kept.present, due)
    np.testing.assert_array_equal(
        metrics.constraint_kept.value[due], (rates >= ALPHA)[due]
    )
    kept = np.isin(metrics.mode, (Mode.TARGET, Mode.RESTORED))
    kept &= metrics.solver_result == Result.CONVERGED
    np.testing.assert_array_equal(state.memory.made, kept)
    assert np.all(metrics.expected_success.value[kept] >= ALPHA - 1e-3)


def test_a_return_can_make_an_episode_a_success_and_an_update_waits_for_enough():
    teacher = DORAEMON(success_return=3.0, min_episodes=5, buffer_size=8)
    teacher = teacher.bound_to(TASK)
    rows = Episodes(
        mask=jnp.array([True, True, True, False]),
        context=jnp.ones((4, 2)),
        first_observation=jnp.zeros((4, TASK.observation_size)),
        episode_return=jnp.array([2.9, 3.0, 4.0, 5.0]),
        discounted_return=jnp.zeros(4),
        length=jnp.ones(4, jnp.int32),
        success=jnp.zeros(4, bool),
        ticket=(),
    )
    assert list(teacher._succeeded(rows)) == [False, True, True, True]
    assert teacher.fewest_episodes == 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"success_rate": 0.0}, "teacher.success_rate must be"),
        ({"success_rate": 1.5}, "teacher.success_rate must be at most 1, got 1.5"),
        ({"max_kl": 0.0}, "teacher.max_kl must be positive and finite, got 0.0"),
        ({"concentration": 0.5}, "teacher.concentration must be at least 1, got 0.5"),
        (
            {"min_episodes": 300},
            "teacher.min_episodes must be at most buffer_size = 256, got 300",
        ),
        (
            {"target": Gaussian.from_std((0.0, 1.0), (1.0, 1.0))},
            "doraemon moves Beta distributions, got Gaussian for teacher.target",
        ),
        (
            {"task_has_success": False},
            "doraemon goes by success, which the task does not have; "
            "set teacher.success_return to the return that makes an episode a success",
        ),
    ],
)
def test_wrong_settings_are_named(change, message):
    check(TEACHER, SPACE)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check(TEACHER.replace(**change), SPACE)


def test_a_task_says_that_it_has_no_success_and_a_return_serves_instead():
    class Endless(PointMass):
        has_success = False

    teacher = DORAEMON().bound_to(Endless(dimensions=2))
    with pytest.raises(ValueError, match=r"^doraemon goes by success, which the task"):
        check(teacher, SPACE)
    check(teacher.replace(success_return=5.0), SPACE)


def test_a_distribution_below_its_least_is_refused():
    below = Beta.made(
        a=(0.5, 2.0), b=(2.0, 2.0), lower=SPACE.lower, upper=SPACE.upper, least=1.0
    )
    sentence = "teacher.initial.a must be at least 1, its least, got 0.5"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        check(TEACHER.replace(initial=below), SPACE)


def test_it_teaches_elsewhere_and_whole_rollouts():
    space = ContextSpace(("gravity",), ("m/s^2",), (1.0,), (20.0,))
    contexts = NumpyTeacher(DORAEMON(), space).sample(4)
    assert np.all(np.abs(contexts - 10.5) < 4.0)
    gate = Gate()
    check(DORAEMON().bound_to(gate), gate.context_space)


@pytest.mark.slow
def test_a_tiny_training_runs_and_records_whether_the_constraint_was_kept(tmp_path):
    config = spjax.preset("point-mass-2d", "ppo", "doraemon")
    assert config.resolved.teacher.aims_at.summary().mean[0] == 0.0
    teacher = config.teacher.replace(
        min_episodes=4, success_return=0.1, success_rate=0.3
    )
    config = config.__class__(
        config.task,
        TINY,
        teacher,
        seeds=(1,),
        num_iterations=4,
        evaluate_every=2,
        evaluation_episodes=2,
    )
    run = load_run(spjax.train(config, tmp_path / "run", progress=False))
    (group,) = run.groups()
    steps = run.metric_curves("teacher.step_kl", group).values
    assert 0.04 < steps.max() <= 0.05
    kept = run.metric_curves("teacher.constraint_kept", group).values
    assert set(kept[np.isfinite(kept)]) <= {0.0, 1.0}
    assert np.isfinite(kept).any()
