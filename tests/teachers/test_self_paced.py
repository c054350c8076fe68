"""The self-paced teacher: when it updates, which alpha it uses, when it freezes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from spjax.agents.base import Slots
from spjax.agents.episodic import CREPS
from spjax.agents.step_based import SAC
from spjax.agents.step_based.rollout import init_slots
from spjax.contexts import ContextSpace, Gaussian, Mixture, kl_divergence
from spjax.envs.gate import Gate
from spjax.self_paced.cautious import Rollback
from spjax.self_paced.context_update import ContextUpdate, Mode
from spjax.self_paced.schedules import Aim, Bound, Proportion, Schedule
from spjax.teachers import Random, SelfPaced, Target
from spjax.teachers.moving import Step
from spjax.training.config import RunConfig
from tests.agents.episodic import tasks
from tests.agents.episodic.training import experiment, train
from tests.probe import ConstantReward
from tests.teachers.test_buffer import episodes

SPACE = ContextSpace(
    ("gate position", "gate width"), ("m", "m"), (-4.0, 0.5), (4.0, 8.0)
)
TEACHER = SelfPaced(
    initial=Gaussian.from_std((0.0, 4.25), (2.0, 1.875)), target=Gaussian.from_std((2.5, 0.5), (0.1, 0.1)),
    schedule=Proportion(offset=2), buffer_size=32, warmup=0, observation_size=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def update():
    """One compiled update for the whole module; the value of every context is given."""

    def run(teacher, state, key, contexts, returns, value, mask):
        rows = episodes(returns, mask).replace(
            context=contexts, first_observation=contexts
        )
        return teacher.update(
            state, key, rows, lambda observation: value + 0.1 * observation[:, 0]
        )

    return jax.jit(run)


def contexts_of(state, key, count=24):
    return jax.vmap(lambda k: TEACHER.sample(state, k, SPACE))(
        jax.random.split(key, count)
    )


def play(update, teacher, key, values, returns=None, mask=None):
    """Runs one update for each value; returns the states and metrics."""
    state = teacher.init(jax.random.fold_in(key, 0), SPACE)
    states, metrics = [state], []
    for number, value in enumerate(values):
        contexts = contexts_of(state, jax.random.fold_in(key, 1 + number))
        reward = jnp.full(24, value if returns is None else returns)
        present = jnp.ones(24, bool) if mask is None else mask[number]
        state, metric = update(
            teacher,
            state,
            jax.random.fold_in(key, 100 + number),
            contexts,
            reward,
            value,
            present,
        )
        states.append(state)
        metrics.append(metric)
    return states, metrics


class Waiting(SelfPaced):
    """Moves nothing, so that nothing has to be solved."""

    def move(self, state, evidence):
        zero = jnp.zeros(())
        names = [field.name for field in dataclasses.fields(ContextUpdate)]
        record = ContextUpdate(**dict.fromkeys(names, zero))
        return Step(state.distribution, record)


def test_the_metrics_have_the_components_of_a_mixture_and_none_of_a_gaussian(key):
    def recorded(start):
        def one_update(contexts):
            teacher = Waiting(initial=start, target=start, observation_size=2)
            rows = episodes(jnp.ones(4), jnp.ones(4, bool)).replace(
                context=contexts, first_observation=contexts
            )
            state = teacher.init(key, SPACE)
            return teacher.update(state, key, rows, lambda seen: seen[:, 0])[1]

        return jax.eval_shape(one_update, jnp.ones((4, 2))).components

    two = Mixture.of([TEACHER.initial, TEACHER.target], [0.25, 0.75])
    shapes = jax.tree.map(lambda leaf: leaf.shape, recorded(two))
    assert jax.tree.leaves(shapes, is_leaf=lambda one: isinstance(one, tuple)) == [
        (2,),
        (2, 2),
        (2, 2, 2),
    ]
    assert recorded(TEACHER.initial) is None


@pytest.mark.slow
def test_alpha_is_zero_in_k_alpha_updates_and_then_follows_the_rule(update, key):
    states, metrics = play(update, TEACHER, key, [5.0] * 5)
    alphas = [float(m.alpha) for m in metrics]
    assert alphas[:2] == [0.0, 0.0]
    for number in range(2, 5):
        kl = float(kl_divergence(states[number].distribution, TEACHER.target))
        assert alphas[number] == pytest.approx(1.6 * 5.0 / kl, rel=1e-5)


@pytest.mark.slow
def test_alpha_follows_the_newest_returns_and_those_kept_where_there_are_none(
    update, key
):
    teacher = TEACHER.replace(
        sliding_window=True,
        buffer_size=48,
        schedule=Proportion(zeta=0.1, offset=0, max_alpha=1e9),
    )
    masks = [jnp.ones(24, bool), jnp.ones(24, bool), jnp.zeros(24, bool)]
    states, metrics = play(update, teacher, key, [1.0, 5.0, 9.0], mask=masks)
    for state, metric, mean_return in zip(
        states, metrics, (1.0, 5.0, 3.0), strict=False
    ):
        kl = float(kl_divergence(state.distribution, teacher.target))
        assert float(metric.alpha) == pytest.approx(0.1 * mean_return / kl, rel=1e-3)


def test_no_update_happens_during_the_warm_up_and_its_episodes_are_kept(update, key):
    states, metrics = play(update, TEACHER.replace(warmup=2), key, [5.0] * 3)
    for state in states[1:3]:
        np.testing.assert_array_equal(
            state.distribution.mean, states[0].distribution.mean
        )
    assert [int(s.buffer.count) for s in states] == [0, 24, 48, 0]
    assert int(metrics[2].dropped_episodes) == 72 - 32
    assert (states[3].distribution.mean != states[0].distribution.mean).any()
    assert [int(s.updates) for s in states] == [0, 0, 0, 1]


def test_a_sliding_window_keeps_the_newest_episodes_through_updates(update, key):
    states, metrics = play(update, TEACHER.replace(sliding_window=True), key, [5.0] * 3)
    assert [int(s.buffer.count) for s in states] == [0, 24, 48, 72]
    assert [int(m.dropped_episodes) for m in metrics] == [0, 0, 0]
    assert [int(s.updates) for s in states] == [0, 1, 2, 3]
    forgetful, _ = play(update, TEACHER, key, [5.0] * 3)
    np.testing.assert_array_equal(
        states[1].distribution.mean, forgetful[1].distribution.mean
    )
    assert (
        states[2].distribution.mean != forgetful[2].distribution.mean
    ).any()  # the update saw 32 episodes, not 24


def test_an_iteration_without_episodes_changes_nothing_and_is_no_update(update, key):
    nobody = jnp.zeros(24, bool)
    states, metrics = play(
        update, TEACHER, key, [5.0, 5.0], mask=[nobody, jnp.ones(24, bool)]
    )
    np.testing.assert_array_equal(
        states[1].distribution.chol, states[0].distribution.chol
    )
    assert [int(s.updates) for s in states] == [0, 0, 1]
    assert float(metrics[0].step_kl) == 0.0


def test_negative_returns_never_push_away_from_the_target(update, key):
    _, metrics = play(update, TEACHER, key, [-3.0] * 4)
    assert [float(m.alpha) for m in metrics] == [0.0] * 4


@pytest.mark.slow
def test_the_bound_rule_rewards_then_approaches_then_freezes_then_approaches(key):
    teacher = TEACHER.replace(schedule=Bound(3.5))
    step = jax.jit(
        lambda t, s, k, c, v: t.update(s, k, episodes(jnp.zeros(24), jnp.ones(24, bool)).replace(
            context=c, first_observation=c), lambda o: v + 0.1 * o[:, 0])
    )  # fmt: skip
    state, states, modes = teacher.init(jax.random.fold_in(key, 0), SPACE), [], []
    for number, value in enumerate((1.0, 4.5, 2.0, 4.5)):
        states.append(state)
        contexts = contexts_of(state, jax.random.fold_in(key, number + 1))
        state, metrics = step(
            teacher, state, jax.random.fold_in(key, 9 + number), contexts, value
        )
        modes.append(int(metrics.mode))
    assert modes == [Mode.REWARD, Mode.TARGET, Mode.FROZEN, Mode.TARGET]
    assert [bool(s.reached) for s in [*states, state]] == [
        False,
        False,
        True,
        True,
        True,
    ]
    np.testing.assert_array_equal(
        states[3].distribution.mean, states[2].distribution.mean
    )
    np.testing.assert_array_equal(
        states[3].distribution.chol, states[2].distribution.chol
    )
    kl = [
        float(kl_divergence(s.distribution, teacher.target)) for s in [*states, state]
    ]
    assert kl[2] < kl[1]
    assert kl[4] < kl[3]
    assert step._cache_size() == 1


@pytest.mark.slow
def test_the_floor_holds_only_while_the_target_is_far(update, key):
    far = TEACHER.replace(
        std_floor=(1.9, 1.8), floor_kl=0.0, schedule=Proportion(offset=0)
    )
    states, _ = play(update, far, key, [5.0] * 6)
    assert (
        jnp.diagonal(states[-1].distribution.chol) >= jnp.array([1.9, 1.8]) * (1 - 1e-6)
    ).all()
    near = far.replace(floor_kl=1e9)
    states, _ = play(update, near, key, [5.0] * 6)
    assert (jnp.diagonal(states[-1].distribution.chol) < jnp.array([1.9, 1.8])).any()


def test_a_step_never_exceeds_epsilon_in_the_published_direction(update, key):
    states, metrics = play(update, TEACHER, key, [5.0] * 4)
    for old, new, metric in zip(states[:-1], states[1:], metrics, strict=True):
        used = float(kl_divergence(old.distribution, new.distribution))
        assert used <= 0.05 * (1 + 1e-4)
        assert float(metric.step_kl) == pytest.approx(used, rel=1e-3)
        assert used > 0.04  # far from the target the whole step is used
        assert float(metric.kl_price) > 0
        assert metric.bound_price is None


def test_sampled_contexts_stay_inside_the_bounds(key):
    far = Gaussian.from_std([4.0, 0.5], [3.0, 3.0])
    state = TEACHER.init(key, SPACE).replace(distribution=far)
    contexts = contexts_of(state, jax.random.fold_in(key, 1), 500)
    lower, upper = np.float32(SPACE.lower), np.float32(SPACE.upper)
    contexts = np.asarray(contexts)
    assert (contexts >= lower).all()
    assert (contexts <= upper).all()
    assert (contexts == upper).any()


def test_default_draws_from_the_target_and_random_over_the_bounds(key):
    keys = jax.random.split(jax.random.fold_in(key, 0), 2000)
    target = jax.vmap(
        lambda k: Target(target=Gaussian.from_std((2.5, 4.0), (0.1, 0.2))).sample(
            None, k, SPACE
        )
    )(keys)
    np.testing.assert_allclose(target.mean(0), [2.5, 4.0], atol=0.02)
    np.testing.assert_allclose(target.std(0), [0.1, 0.2], rtol=0.06)
    uniform = jax.vmap(lambda k: Random().sample(None, k, SPACE))(
        jax.random.split(jax.random.fold_in(key, 1), 2000)
    )
    np.testing.assert_allclose(uniform.mean(0), [0.0, 4.25], atol=0.15)
    np.testing.assert_allclose(
        uniform.std(0), np.array([8.0, 7.5]) / 12**0.5, rtol=0.05
    )


@pytest.mark.slow
def test_with_sac_the_bound_is_compared_with_returns_and_not_with_the_soft_value(key):
    """Every episode earns 1 and the policy keeps its entropy, so the soft value is above a bound that the return is not."""
    env = ConstantReward()
    agent = SAC(
        num_envs=4, num_steps=128, hidden=(16,), batch_size=32, replay_size=2000, learning_starts=50,
        learning_rate=3e-3, target_entropy=0.69,
    )  # fmt: skip
    teacher = SelfPaced(
        initial=Gaussian.from_std((0.0,), (0.5,)), target=Gaussian.from_std((0.5,), (0.05,)), schedule=Bound(1.1),
        warmup=0, buffer_size=64,
    ).bound_to(env)  # fmt: skip
    space = env.context_space

    def assign(key, last):
        return space.sample_uniform(key), ()

    def train():
        state = agent.init(jax.random.fold_in(key, 0), env)
        slots = init_slots(env, jax.random.fold_in(key, 1), 4, assign, ())
        for number in range(6):
            world = Slots(env, slots, assign)
            state, world, episodes, _ = agent.iterate(
                state, world, jax.random.fold_in(key, 2 + number)
            )
            slots = world.slots
        return state, episodes

    state, episodes = jax.jit(train)()
    modes, keys = {}, jax.random.split(jax.random.fold_in(key, 9), 4)
    for source, (key_init, key_update) in zip(
        ("critic", "return"), keys.reshape(2, 2), strict=True
    ):
        chosen = teacher.replace(value_source=source)
        start = chosen.init(key_init, space)
        _, metrics = chosen.update(
            start,
            key_update,
            episodes,
            lambda observation: agent.value(state, observation),
        )
        modes[source] = Mode(int(metrics.mode))
    np.testing.assert_array_equal(episodes.discounted_return[episodes.mask], 1.0)
    assert modes == {"critic": Mode.TARGET, "return": Mode.REWARD}


def test_one_floor_for_all_dimensions_is_the_same_floor_for_each(update, key):
    far = TEACHER.replace(floor_kl=0.0, schedule=Proportion(offset=0))
    one, each = (
        play(update, far.replace(std_floor=floor), key, [5.0] * 6)[0][-1]
        for floor in (1.8, (1.8, 1.8))
    )
    assert (jnp.diagonal(one.distribution.chol) >= 1.8 * (1 - 1e-6)).all()
    jax.tree.map(np.testing.assert_array_equal, one.distribution, each.distribution)


@struct.dataclass
class Nothing(Schedule):
    """Says nothing, ever."""

    def aim(self, evidence):
        return Aim()


def test_a_schedule_that_says_neither_alpha_nor_a_bound_keeps_the_distribution_bit_for_bit(
    update, key
):
    states, metrics = play(update, TEACHER.replace(schedule=Nothing()), key, [5.0] * 3)
    for state in states[1:]:
        jax.tree.map(
            np.testing.assert_array_equal, state.distribution, states[0].distribution
        )
    assert [float(metric.step_kl) for metric in metrics] == [0.0] * 3


@struct.dataclass
class Slope(Schedule):
    """Raises alpha with every update."""

    slope: float = 0.1

    def aim(self, evidence):
        return Aim(alpha=self.slope * evidence.update.astype(float))


def test_a_schedule_of_ones_own_sees_the_number_of_the_update_from_one_on(update, key):
    nobody, everyone = jnp.zeros(24, bool), jnp.ones(24, bool)
    teacher = TEACHER.replace(schedule=Slope())
    _, metrics = play(
        update, teacher, key, [5.0] * 3, mask=[everyone, nobody, everyone]
    )
    np.testing.assert_allclose(
        [float(metrics[n].alpha) for n in (0, 2)], [0.1, 0.2], rtol=1e-6
    )


@pytest.mark.slow
def test_with_creps_the_curriculum_follows_the_returns_to_the_target(key):
    """A pair of a step-free learner and the curriculum of step-based ones; the contexts' values are their rewards."""
    teacher = SelfPaced(
        value_source="return",
        warmup=0,
        max_kl=0.3,
        buffer_size=30,
        schedule=Proportion(0.5, 5),
    )
    setup = experiment(
        tasks.Aim(),
        CREPS(max_kl=0.3, num_samples=30, buffer_size=4, mean_features_of="buffer"),
        teacher,
    )
    _, states, metrics = train(setup, key, 40)
    contexts = jax.tree.map(lambda leaf: leaf[-1], states.teacher_state.distribution)
    np.testing.assert_allclose(contexts.mean, [2.0], atol=0.1)
    np.testing.assert_allclose(contexts.std, [0.1], rtol=0.3)
    np.testing.assert_array_equal(metrics.teacher.alpha[:5], 0.0)
    assert (metrics.teacher.alpha[5:] > 0).all()
    assert (
        float(metrics.teacher.kl_to_target[0])
        > 100
        > 1
        > float(metrics.teacher.kl_to_target[-1])
    )
    assert (metrics.teacher.step_kl <= 0.3 * (1 + 1e-3)).all()
    assert float(metrics.discounted_return.value[-5:].mean()) > 8


def test_with_creps_a_critic_is_not_to_be_had():
    message = (
        "^the agent 'c-reps' has no state value; set teacher.value_source to return$"
    )
    with pytest.raises(ValueError, match=message):
        RunConfig(Gate(), CREPS(), SelfPaced()).check()
    RunConfig(Gate(), CREPS(), SelfPaced(value_source="return")).check()


@pytest.mark.slow
def test_rollback_goes_back_to_the_distribution_that_kept_the_bound(key):
    teacher = TEACHER.replace(schedule=Rollback(3.5))
    step = jax.jit(
        lambda t, s, k, c, v: t.update(s, k, episodes(jnp.zeros(24), jnp.ones(24, bool)).replace(
            context=c, first_observation=c), lambda o: v + 0.1 * o[:, 0])
    )  # fmt: skip
    states = [teacher.init(key, SPACE)]
    for number, value in enumerate((4.5, 4.5, 2.0, 2.0)):
        contexts = contexts_of(states[-1], jax.random.fold_in(key, number + 1))
        states.append(step(teacher, states[-1], key, contexts, value)[0])
    first, good, ahead, back, there = (state.distribution for state in states)
    assert float(kl_divergence(ahead, teacher.target)) < float(
        kl_divergence(good, teacher.target)
    )
    assert float(kl_divergence(good, back)) < 0.05 * float(kl_divergence(good, ahead))
    np.testing.assert_allclose(there.mean, good.mean, atol=2e-3)
    assert (first.mean != good.mean).any()
    np.testing.assert_array_equal(states[-1].memory.distribution.mean, good.mean)
