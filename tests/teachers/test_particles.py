"""Self-paced particles: weights are those of the discrete family, moves find a tempered Gaussian, both keep the trust region."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import ContextSpace, Discrete, Gaussian, Mixture
from spjax.contexts.particles import Particles
from spjax.self_paced import update_context
from spjax.self_paced.cautious import Rollback
from spjax.self_paced.schedules import Bound, Proportion
from spjax.teachers import SelfPacedParticles
from spjax.teachers.competence import expected_values
from spjax.teachers.particles import langevin_ways, respread
from tests.teachers.checks import check
from tests.teachers.test_buffer import episodes

SPACE = ContextSpace(("position", "width"), ("m", "m"), (-5.0, 0.0), (5.0, 2.0))
TEACHER = SelfPacedParticles(
    initial=Gaussian.from_std((0.0, 1.0), (1.5, 0.3)),
    target=Mixture.made(means=((-3, 0.5), (3, 0.5)), stds=((0.3, 0.1),) * 2),
    schedule=Proportion(zeta=1.0, offset=0),
    value_source="return",
    num_particles=40,
    buffer_size=32,
    max_kl=0.1,
    warmup=0,
)


@pytest.fixture(scope="module")
def update():
    """One update from 24 episodes whose returns grow with the position; in one program for all settings."""

    def run(teacher, state, key):
        contexts = teacher.sample_many(state, key, SPACE, 24)
        returns = 2 + 0.2 * contexts[:, 0]
        rows = episodes(returns, jnp.ones(24, bool)).replace(
            context=contexts, first_observation=jnp.zeros((24, 0))
        )
        return teacher.update(state, jax.random.fold_in(key, 1), rows, lambda x: x)

    return jax.jit(run)


def bound(new, old):
    """KL(new || old) of weights, places and widths, in double precision."""
    p, q = (np.asarray(jax.nn.log_softmax(np.asarray(one.points.logits, float))) for one in (new, old))  # fmt: skip
    c, o, h, g = (np.asarray(x, float) for x in (new.points.table, old.points.table, new.spread, old.spread))  # fmt: skip
    each = np.log(g / h) + (h**2 + (c - o) ** 2) / (2 * g**2) - 0.5
    return float(np.exp(p) @ (p - q + each.sum(axis=1)))


@pytest.mark.slow
def test_without_moves_the_weights_are_those_of_the_discrete_family(update):
    teacher = TEACHER.replace(move_share=0.0, resample_below=0.0)
    state = teacher.init(jax.random.key(0), SPACE)
    after, metrics = update(teacher, state, jax.random.key(1))
    old, new = state.distribution, after.distribution
    np.testing.assert_array_equal(new.points.table, old.points.table)

    width = jnp.array([10.0, 2.0])
    contexts = teacher.sample_many(state, jax.random.key(1), SPACE, 24)
    values = expected_values(
        old.points.table / width[None],
        contexts / width[None],
        2 + 0.2 * contexts[:, 0],
        jnp.ones(24, bool),
        0.1,
    )
    expected, record = update_context(
        old.points,
        old.on_points(teacher.target),
        old.points.table,
        values,  # each of forty rows once, of equal weights
        jnp.ones(40, bool),
        max_kl=0.1,
        alpha=float(metrics.alpha),
        kl_direction="new-old",
    )
    np.testing.assert_allclose(new.points.probs, expected.probs, rtol=1e-3, atol=1e-6)
    assert float(metrics.step_kl) == pytest.approx(float(record.kl), rel=1e-4)


def test_weights_and_moves_together_keep_the_trust_region(update):
    teacher = TEACHER.replace(resample_below=0.0)
    state, moved = teacher.init(jax.random.key(0), SPACE), 0
    for number in range(12):
        after, metrics = update(teacher, state, jax.random.key(number))
        kl = bound(after.distribution, state.distribution)
        assert kl <= 0.1 * (1 + 1e-5)
        assert float(metrics.step_kl) == pytest.approx(kl, abs=1e-4)
        moved += kl > 0.02
        state = after
    assert moved > 6
    places = np.asarray(state.distribution.points.table)
    assert (places >= SPACE.lower).all()
    assert (places <= SPACE.upper).all()
    assert len(np.unique(places, axis=0)) == 40


def test_moves_go_on_where_the_bound_costs_nothing(update):
    teacher = TEACHER.replace(schedule=Bound(0.5), resample_below=0.0)
    state = teacher.init(jax.random.key(0), SPACE)
    after, metrics = update(teacher, state, jax.random.key(1))
    assert float(metrics.bound_price) == 0
    assert float(metrics.step_kl) > 0.05  # the weights have 0.01 of the 0.1
    log_prob = jax.vmap(teacher.target.log_prob)
    old, new = (log_prob(one.distribution.points.table) for one in (state, after))
    assert float(new.mean()) > float(old.mean())


def test_few_heavy_particles_are_drawn_anew(update):
    state = TEACHER.init(jax.random.key(0), SPACE)
    after, metrics = update(TEACHER.replace(resample_below=1.0), state, jax.random.key(1))  # fmt: skip
    weights = np.asarray(after.distribution.points.probs)
    np.testing.assert_allclose(weights, 1 / 40, rtol=1e-5)
    assert 1 < float(metrics.effective_sample_size) < 40


def test_langevin_steps_find_a_tempered_gaussian():
    """N(1, 0.5) exp(2 c - 2 c^2): precision 4 + 4, so the mean is (4 + 2) / 8 and the std 1 / sqrt(8)."""
    space = ContextSpace(("c",), ("1",), (-5.0,), (5.0,))
    start = Discrete(jnp.linspace(-4.0, 4.0, 1_000)[:, None], jnp.zeros(1_000))
    crowd = Particles(start, jnp.full((1_000, 1), 0.35), space)

    def score(context):
        return -(context - 1.0) / 0.25 + 2.0 - 4.0 * context

    ways = langevin_ways(
        jax.random.key(0),
        crowd,
        score,
        rate=0.02,
        num_steps=400,
        furthest=jnp.asarray(1e3),
    )
    places = np.asarray(start.table + crowd.spread * ways)
    assert places.mean() == pytest.approx(0.75, abs=0.04)
    assert places.std() == pytest.approx(8**-0.5, rel=0.08)


def test_widths_change_no_further_than_their_divergence_allows():
    crowd = Particles.around(TEACHER.target.sample_many(jax.random.key(0), SPACE, 40), SPACE)  # fmt: skip
    for factor in (0.2, 5.0):
        wrong = crowd.replace(spread=factor * crowd.spread)
        new = respread(wrong, jnp.asarray(0.04))
        each = np.asarray(jnp.log(new.spread / wrong.spread), float)
        kl = (0.5 * np.expm1(2 * each) - each).sum(axis=1)
        assert (kl <= 0.04).all()
        assert (np.sign(each) == np.sign(1 - factor)).mean() > 0.9


@pytest.mark.slow
def test_contexts_reach_both_targets_where_returns_are_alike():
    """The scan of sixty updates, of particles that start between the two."""
    teacher = TEACHER.replace(max_kl=0.3)

    def one(state, key):
        contexts = teacher.sample_many(state, key, SPACE, 24)
        rows = episodes(jnp.ones(24), jnp.ones(24, bool)).replace(
            context=contexts, first_observation=jnp.zeros((24, 0))
        )
        return teacher.update(state, jax.random.fold_in(key, 1), rows, lambda x: x)

    keys = jax.random.split(jax.random.key(2), 60)
    state = teacher.init(jax.random.key(0), SPACE)
    state, metrics = jax.jit(lambda s: jax.lax.scan(one, s, keys))(state)
    contexts = np.asarray(teacher.sample_many(state, jax.random.key(3), SPACE, 400))
    shares = [(np.abs(contexts[:, 0] - end) < 1).mean() for end in (-3, 3)]
    assert min(shares) > 0.1
    assert sum(shares) > 0.95
    assert contexts[:, 1].mean() == pytest.approx(0.5, abs=0.1)
    assert float(metrics.step_kl.max()) <= 0.3 * (1 + 1e-5)


def test_families_may_differ_and_a_target_without_a_density_is_refused():
    check(TEACHER, SPACE)
    table = Discrete.uniform([[0.0, 1.0], [1.0, 1.0]])
    check(TEACHER.replace(initial=table), SPACE)
    with pytest.raises(ValueError, match=r"^teacher.target must have a density .* got Discrete$"):  # fmt: skip
        check(TEACHER.replace(target=table), SPACE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_particles": 3}, "teacher.num_particles must be at least 4, got 3"),
        ({"bandwidth": 0.0}, "teacher.bandwidth must be positive and finite"),
        ({"move_share": 1.5}, "teacher.move_share must "),
        ({"schedule": Rollback()}, "teacher.schedule must leave the target as it is"),
    ],
)
def test_wrong_settings_are_named(change, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        check(TEACHER.replace(**change), SPACE)
    check(TEACHER.replace(schedule=Bound(1.0)), SPACE)
    with pytest.raises(ValueError, match=r"^teacher.move_share must be less than 1 "):
        check(TEACHER.replace(schedule=Bound(1.0), move_share=1.0), SPACE)
    check(TEACHER.replace(move_share=1.0), SPACE)
