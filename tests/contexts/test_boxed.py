"""Families on a box against SciPy's distributions and numerical integrals; their chart against textbook formulas."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from spjax import catalogue, settings
from spjax.contexts import Beta, ContextSpace, TruncatedGaussian
from spjax.contexts.chart import Chart, Coefficients
from spjax.self_paced import update_context
from spjax.solvers.gamma import (
    digamma,
    digamma_gap,
    log_beta_gap,
    log_gamma,
    log_less_digamma,
    tetragamma,
    trigamma,
)
from tests.contexts.chart_checks import (
    assert_chart_speaks_of_its_distributions,
    assert_gradients_are_central_differences,
)

SPACE = ContextSpace(("mass", "length"), ("kg", "m"), (-4.0, 0.5), (8.0, 9.0))
BOX = {"lower": (-4.0, 0.5), "upper": (8.0, 9.0)}
PAIRS = {
    "beta": (
        lambda: Beta(a=(3.0, 0.6), b=(1.5, 2.0), **BOX),
        lambda: Beta(a=(30.0, 2.0), b=(50.0, 7.0), **BOX),
    ),
    "truncated": (
        lambda: TruncatedGaussian(mean=(-3.0, 0.5), std=(2.0, 12.0), **BOX),
        lambda: TruncatedGaussian(mean=(1.0, 4.0), std=(1.5, 0.7), **BOX),
    ),
}
FAMILIES = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)


@pytest.fixture(autouse=True)
def in_double_precision():
    with jax.enable_x64(True):
        yield


def frozen(p):
    """Returns SciPy's distribution of each dimension."""
    low, high = np.array(p.lower), np.array(p.upper)
    if isinstance(p, Beta):
        return [
            stats.beta(a, b, low[i], high[i] - low[i])
            for i, (a, b) in enumerate(zip(p.a, p.b, strict=True))
        ]
    return [
        stats.truncnorm((low[i] - m) / s, (high[i] - m) / s, m, s)
        for i, (m, s) in enumerate(zip(p.mean, p.std, strict=True))
    ]


def integrated_kl(p, q):
    """KL(p || q) dimension by dimension."""
    return sum(
        integrate.quad(
            lambda x, one=one, other=other: (
                one.pdf(x) * (one.logpdf(x) - other.logpdf(x))
            ),
            *one.support(),
            points=[one.mean()],
            limit=200,
        )[0]
        for one, other in zip(frozen(p), frozen(q), strict=True)
    )


@FAMILIES
def test_densities_and_moments_are_those_of_scipy(pair):
    for p in (make() for make in pair):
        context = jnp.array([0.7, 3.1])
        expected = sum(one.logpdf(x) for one, x in zip(frozen(p), context, strict=True))
        np.testing.assert_allclose(p.log_prob(context), expected, rtol=1e-10)
        summary = p.summary()
        np.testing.assert_allclose(
            summary.mean, [one.mean() for one in frozen(p)], rtol=1e-9
        )
        np.testing.assert_allclose(
            summary.std, [one.std() for one in frozen(p)], rtol=1e-7
        )


@pytest.mark.slow
@FAMILIES
def test_the_divergence_is_the_integral_of_its_definition(pair):
    p, q = (make() for make in pair)
    np.testing.assert_allclose(p.kl_to(q), integrated_kl(p, q), rtol=1e-6)
    np.testing.assert_allclose(q.kl_to(p), integrated_kl(q, p), rtol=1e-6)
    assert float(p.kl_to(p)) == 0.0


@FAMILIES
def test_draws_have_the_distribution_and_lie_in_the_box(pair):
    p = pair[0]()
    draws = np.asarray(p.sample_many(jax.random.key(0), SPACE, 4000))
    for column, one in zip(draws.T, frozen(p), strict=True):
        assert stats.kstest(column, one.cdf).pvalue > 1e-3
    assert (draws >= SPACE.lower).all()
    assert (draws <= SPACE.upper).all()


@pytest.mark.slow
@FAMILIES
def test_the_chart_says_what_the_distributions_say(pair):
    old, target = (make() for make in pair)
    contexts = jnp.array([[0.7, 3.1], [-3.9, 8.0]])
    z = jnp.array([0.3, -0.2, 0.1, 0.25])
    assert_chart_speaks_of_its_distributions(old, target, contexts, z, np.ones(4))


@pytest.mark.slow
@FAMILIES
@pytest.mark.parametrize("direction", ["old-new", "new-old"])
def test_written_derivatives_are_the_automatic_ones(pair, direction):
    old, target = (make() for make in pair)
    contexts, mask = jnp.array([[0.7, 3.1], [-3.9, 8.0]]), jnp.ones(2, bool)
    data = old.chart.prepare(old, target, contexts, mask)

    @jax.jit
    def both(data):
        how = (jnp.array([0.3, -0.2, 0.1, 0.25]), jnp.array([0.4, 1.2]), direction)
        coefficients = Coefficients(0.7, 0.3, 1.1)
        written = (old.chart.gradients, old.chart.curvature)
        automatic = (
            functools.partial(Chart.gradients, old.chart),
            functools.partial(Chart.curvature, old.chart),
        )
        return tuple(
            (*gradients(data, *how), curvature(data, *how, coefficients))
            for gradients, curvature in (written, automatic)
        )

    for ours, theirs in zip(*both(data), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.slow
def test_a_mean_outside_of_the_box_and_a_least_parameter_are_limits():
    old, target = (make() for make in PAIRS["truncated"])
    contexts, mask = jnp.array([[0.7, 3.1]]), jnp.ones(1, bool)
    data = old.chart.prepare(old, target, contexts, mask)
    outside = TruncatedGaussian.made(mean=(-4.5, 3.0), std=(2.0, 1.0), **BOX)
    z = old.chart.coordinates(data, outside)
    assert (np.asarray(old.chart.limits(data, z)) > 0).tolist() == [
        True, *[False] * 5
    ]  # fmt: skip
    assert (np.asarray(old.chart.limits(data, 0 * z)) <= 0).all()

    old = Beta(a=(0.1, 1.0), b=(2.0, 1.0), **BOX)
    data = old.chart.prepare(old, old, contexts, mask)
    z = old.chart.coordinates(data, Beta.made(a=(0.09, 1.0), b=(2.0, 1.0), **BOX))
    limits = np.asarray(old.chart.limits(data, z))
    assert limits[0] > 0
    assert (limits[1:] < 0).all()


def test_the_log_gamma_function_and_its_derivatives_are_those_of_scipy():
    x = np.array([0.1, 1.3, 10.0, 1e6])
    at = jnp.asarray(x)
    np.testing.assert_allclose(log_gamma(at), special.gammaln(x), rtol=1e-13)
    np.testing.assert_allclose(digamma(at), special.digamma(x), rtol=1e-13)
    np.testing.assert_allclose(trigamma(at), special.polygamma(1, x), rtol=1e-12)
    np.testing.assert_allclose(tetragamma(at), special.polygamma(2, x), rtol=1e-12)
    np.testing.assert_allclose(
        log_less_digamma(at), np.log(x) - special.digamma(x), rtol=1e-9, atol=2e-15
    )
    for share in (-0.5, 0.3, 40.0):
        moved = special.digamma(x + share * x) - special.digamma(x)
        np.testing.assert_allclose(digamma_gap(at, share * at), moved, rtol=1e-9)


def beta_gap(a, b, of_a, of_b):
    numbers = [jnp.asarray(x, float) for x in (a, b, of_a, of_b)]
    turn = (numbers[1] * numbers[2] - numbers[0] * numbers[3]) / (a + b)
    return np.asarray(log_beta_gap(*numbers, turn))


@pytest.mark.slow
def test_the_gap_of_the_log_beta_function_is_its_definition():
    a, change = np.meshgrid([0.1, 3.0, 7.9, 40.0], [-0.09, 0.5, 30.0])
    b, of_b = np.full_like(a, 5.0), np.full_like(a, -0.5)
    linear = change * special.digamma(a) + of_b * special.digamma(b)
    linear -= (change + of_b) * special.digamma(a + b)
    expected = special.betaln(a + change, b + of_b) - special.betaln(a, b) - linear
    gap = beta_gap(a, b, change, of_b)
    np.testing.assert_allclose(gap, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_a_gap_far_below_the_rounding_of_the_log_beta_function_is_its_quadratic():
    a, b = 4e6, 6e6
    steps = 1e-3 * np.array([a, b])  # the concentration grows, the mean stays
    fisher = np.diag(special.polygamma(1, [a, b])) - special.polygamma(1, a + b)
    quadratic = 0.5 * steps @ fisher @ steps
    assert beta_gap(a, b, *steps) == pytest.approx(quadratic, rel=5e-3)
    half = beta_gap(a, b, *(steps / 2))
    assert beta_gap(a, b, *steps) / half == pytest.approx(4.0, rel=2e-3)


def samples(seed=3, count=24):
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(SPACE.lower, SPACE.upper, (count, 2))
    values = 5 + np.tanh(contexts[:, 0] - 2) - 0.3 * contexts[:, 1]
    return jnp.asarray(contexts), jnp.asarray(values), jnp.ones(count, bool)


def after(updates, epsilon, alpha, weight, old, target):
    """Returns the mean after so many updates, each with its own number for alpha, weighed by ``weight`` to a number."""

    def step(distribution, number):
        new, record = update_context(
            distribution,
            target,
            *samples(),
            max_kl=epsilon,
            alpha=alpha * number,
        )
        return new, record.result

    end, results = jax.lax.scan(step, old, jnp.linspace(0.5, 1.5, updates))
    return weight @ end.summary().mean + end.summary().std.sum(), results


@pytest.mark.slow
@FAMILIES
def test_gradients_through_twelve_updates_are_central_differences(pair):
    old, target = (make() for make in pair)
    weight = jnp.array([1.0, -0.5])

    def end(numbers):
        return after(12, numbers[0], numbers[1], weight, old, target)

    assert_gradients_are_central_differences(end, jnp.array([0.02, 0.3]))


@FAMILIES
def test_settings_are_spelled_and_built_again(pair):
    p = pair[0]()
    spelled = catalogue.spell(p)
    again = catalogue.build(spelled)
    assert catalogue.spell(again) == spelled
    assert jax.tree.structure(again) == jax.tree.structure(p)
    settings.check("teacher.initial", p)
    p.check(SPACE, "teacher.initial")


WRONG = [
    (
        Beta,
        {"a": (1.0, 1.0), "b": (0.05, 1.0), **BOX},
        "{}.b must be at least 0.1, got 0.05",
    ),
    (
        Beta,
        {"a": (1.0, 1.0), "b": (0.5, 1.0), "least": 1.0, **BOX},
        "{}.b must be at least 1, its least, got 0.5",
    ),
    (
        Beta,
        {"a": (1.0, 1.0), "b": (1.0, 1.0), "lower": (3.0, 1.0), "upper": (2.0, 2.0)},
        "{}: lower must be below upper, got [3, 2] for {mass}",
    ),
    (
        TruncatedGaussian,
        {"mean": (-4.5, 1.0), "std": (1.0, 1.0), **BOX},
        "{}.mean of {mass} must lie in the box [-4, 8], got -4.5",
    ),
    (
        TruncatedGaussian,
        {"mean": (0.0, 1.0), "std": (70.0, 1.0), **BOX},
        "{}.std of {mass} must be positive and at most 2 widths of the box, 24, got 70",
    ),
    (
        TruncatedGaussian,
        {"mean": (0.0, 1.0), "std": (0.0, 1.0), **BOX},
        "{}.std must be positive and finite, got 0.0",
    ),
]


@pytest.mark.parametrize(("family", "values", "sentence"), WRONG)
def test_what_is_typed_is_checked_at_once_and_settings_with_the_space(
    family, values, sentence
):
    at_once = re.escape(sentence.format(family.__name__, mass="dimension 0"))
    with pytest.raises(ValueError, match=f"^{at_once}$"):
        family(**values)

    arrays = {name: jnp.asarray(values[name]) for name in list(values)[:2]}
    later = re.escape(sentence.format("x", mass="mass"))
    for unchecked in (family.made(**values), family(**{**values, **arrays})):
        with pytest.raises(ValueError, match=f"^{later}$"):
            unchecked.check(SPACE, "x")


@pytest.mark.parametrize(
    ("values", "at_once", "with_the_space"),
    [
        (
            {"a": (1.0,), "b": (1.0, 1.0), **BOX},
            "Beta.a needs as many values as lower, 2, got 1",
            "x.a needs 2 values (mass, length), got 1",
        ),
        (
            {"a": [1, 1, 1], "b": [2, 2, 2], **BOX},
            "Beta.a needs as many values as lower, 2, got 3",
            "x.a needs 2 values (mass, length), got 3",
        ),
        (
            {"a": (1.0, 1.0), "b": (1.0, 1.0), "lower": [0.0], "upper": (1.0, 1.0)},
            "Beta.upper needs as many values as lower, 1, got 2",
            "x.lower needs 2 values (mass, length), got 1",
        ),
    ],
)
def test_a_vector_of_another_length_is_one_sentence(values, at_once, with_the_space):
    with pytest.raises(ValueError, match=f"^{re.escape(at_once)}$"):
        Beta(**values)
    with pytest.raises(ValueError, match=f"^{re.escape(with_the_space)}$"):
        Beta.made(**values).check(SPACE, "x")


def test_numbers_of_another_shape_are_one_sentence():
    good = Beta(a=(1.0, 1.0), b=(1.0, 1.0), **BOX)
    with pytest.raises(ValueError, match=r"^x.a must be a vector, got shape \(2, 2\)$"):
        good.replace(a=jnp.ones((2, 2))).check(SPACE, "x")
    with pytest.raises(ValueError, match=r"^x.a needs several numbers, got 1.0$"):
        good.replace(a=1.0).check(SPACE, "x")


def test_a_box_outside_of_the_space_is_one_sentence():
    outside = {"lower": (-5.0, 1.0), "upper": (2.0, 2.0)}
    p = Beta(a=(1.0, 1.0), b=(1.0, 1.0), **outside)
    sentence = r"^x.lower: mass = -5 lies outside its bounds \[-4, 8\] kg$"
    with pytest.raises(ValueError, match=sentence):
        p.check(SPACE, "x")


def test_trees_of_tracers_batches_gradients_axes_and_shapes_are_not_checked():
    p = Beta(a=(1.0, 2.0), b=(2.0, 1.0), **BOX)
    assert jax.tree.map(jnp.negative, p).a.tolist() == [-1.0, -2.0]
    gradient = jax.jit(jax.grad(lambda p: -(p.a.sum() + p.b.sum())))(p)
    assert gradient.b.tolist() == [-1.0, -1.0]
    batch = jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), p)
    axes = jax.tree.map(lambda _: 0, p)
    moved = jax.vmap(lambda one: one.replace(a=one.a + 1), in_axes=(axes,))(batch)
    assert moved.a.shape == (3, 2)
    jax.tree.map(jnp.shape, p), jax.tree.map(jnp.shape, batch)
    assert jax.tree.structure(moved) == jax.tree.structure(p)


def test_a_target_on_another_box_is_refused():
    old = Beta(a=(1.0, 1.0), b=(1.0, 1.0), **BOX)
    other = Beta(a=(1.0, 1.0), b=(1.0, 1.0), lower=(-4.0, 0.5), upper=(7.0, 9.0))
    with pytest.raises(ValueError, match="must be on one box"):
        old.check_target(other)
