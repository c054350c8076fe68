"""What regularizers give a sample: weights, losses, limits, and the two ways to make weights a distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linprog, minimize_scalar

from spjax.self_paced.regularizers import (
    BINARY,
    binary_loss,
    binary_probabilities,
    binary_weight,
    free_energy,
    kl_loss,
    kl_penalty,
    kl_probabilities,
    kl_regularizer,
    kl_weight,
    probabilistic_objective,
    spl_objective,
)

ALPHAS = (0.3, 1.0, 7.0)
LOSSES = (-1.7, -1e-6, 0.0, 1e-6, 0.29, 0.9, 5.0)
LOG_TARGET = float(np.log(0.2))
EXTREMES = [
    (alpha, loss)
    for alpha in (1e-8, 1e-3, 1.0, 1e3, 1e8)
    for loss in (-1e6, -1.0, 0.0, 1e-3, 1.0, 1e6)
]


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def samples(count=6, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(1.0, 2.0, count)), jnp.asarray(
        np.log(rng.dirichlet(np.ones(count)))
    )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_kl_weight_minimises_what_self_paced_learning_minimises(alpha):
    for loss in (-0.5, 0.0, 0.4, 2.0):
        found = minimize_scalar(
            lambda weight, loss=loss: (
                weight * loss
                + float(kl_penalty(alpha, jnp.asarray(weight), LOG_TARGET))
            ),
            bounds=(0.0, 5.0),
            options={"xatol": 1e-11},
        )
        np.testing.assert_allclose(
            kl_weight(alpha, jnp.asarray(loss), LOG_TARGET), found.x, atol=1e-6
        )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_binary_weight_minimises_over_zero_to_one(alpha):
    weights = jnp.linspace(0.0, 1.0, 5)
    for loss in (-0.5, 0.1, alpha + 0.01, 9.0):
        values = weights * loss + BINARY.penalty(alpha, weights)
        assert binary_weight(alpha, jnp.asarray(loss)) == weights[jnp.argmin(values)]


def test_a_loss_of_alpha_is_too_hard_for_the_binary_weight():
    assert binary_weight(0.5, jnp.array([0.5 - 1e-9, 0.5, 0.5 + 1e-9])).tolist() == [
        1.0,
        0.0,
        0.0,
    ]


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("regularizer", [BINARY, kl_regularizer(LOG_TARGET)])
def test_the_slope_of_the_transformed_loss_is_the_weight(regularizer, alpha):
    losses = jnp.asarray([*LOSSES, alpha])
    slopes = jax.vmap(jax.grad(lambda loss: regularizer.loss(alpha, loss)))(losses)
    np.testing.assert_allclose(slopes, regularizer.weight(alpha, losses), rtol=1e-12)


@pytest.mark.parametrize("regularizer", [BINARY, kl_regularizer(LOG_TARGET)])
def test_the_transformed_loss_is_the_integral_of_the_weight(regularizer):
    for loss in (-1.5, 0.2, 0.69, 3.0):
        integral, _ = quad(
            lambda point: float(regularizer.weight(0.7, jnp.asarray(point))),
            0.0,
            loss,
            points=[0.7],
        )
        np.testing.assert_allclose(
            regularizer.loss(0.7, jnp.asarray(loss)), integral, rtol=1e-9
        )


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("regularizer", [BINARY, kl_regularizer(LOG_TARGET)])
def test_the_least_over_the_weight_is_the_transformed_loss_up_to_a_constant(
    regularizer, alpha
):
    losses = jnp.asarray(LOSSES)
    weights = regularizer.weight(alpha, losses)
    constant = regularizer.penalty(alpha, regularizer.weight(alpha, jnp.asarray(0.0)))
    least = weights * losses + regularizer.penalty(alpha, weights)
    np.testing.assert_allclose(
        least, regularizer.loss(alpha, losses) + constant, rtol=1e-12, atol=1e-15
    )


def test_the_slope_of_the_kl_penalty_at_its_weight_is_minus_the_loss():
    weight = kl_weight(0.7, jnp.asarray(1.3), LOG_TARGET)
    np.testing.assert_allclose(
        jax.grad(kl_penalty, 1)(0.7, weight, LOG_TARGET), -1.3, rtol=1e-12
    )
    np.testing.assert_allclose(
        jax.grad(jax.grad(kl_penalty, 1), 1)(0.7, weight, LOG_TARGET),
        0.7 / weight,
        rtol=1e-12,
    )


def test_a_weight_of_zero_costs_nothing_and_one_on_a_forbidden_sample_costs_infinity():
    penalties = kl_penalty(
        2.0, jnp.array([0.0, 0.0, 0.5]), jnp.array([0.0, -jnp.inf, -jnp.inf])
    )
    assert penalties.tolist() == [0.0, 0.0, jnp.inf]
    assert (
        jax.grad(lambda weight: kl_penalty(2.0, weight, -jnp.inf))(jnp.asarray(0.0))
        == -2.0
    )


def test_the_slopes_in_alpha_and_in_the_target_agree_with_central_differences():
    for alpha in (0.7, 50.0):
        for loss in map(jnp.asarray, (-2.0, -0.1, 0.2, 0.25, 3.0)):
            by_alpha = (
                kl_loss(alpha + 1e-5, loss, LOG_TARGET)
                - kl_loss(alpha - 1e-5, loss, LOG_TARGET)
            ) / 2e-5
            by_target = (
                kl_loss(alpha, loss, LOG_TARGET + 1e-5)
                - kl_loss(alpha, loss, LOG_TARGET - 1e-5)
            ) / 2e-5
            slopes = jax.grad(kl_loss, (0, 2))(alpha, loss, LOG_TARGET)
            np.testing.assert_allclose(
                slopes, (by_alpha, by_target), rtol=1e-6, atol=1e-9
            )


def test_the_slope_in_alpha_keeps_its_digits_where_the_loss_is_small():
    slope = jax.grad(kl_loss)(jnp.float32(1e4), jnp.float32(1.0))
    np.testing.assert_allclose(slope, 0.5e-8 - 1 / 3e12, rtol=1e-6)
    near, far = (
        jax.grad(kl_loss)(jnp.asarray(1.0), jnp.asarray(loss))
        for loss in (0.3 - 1e-12, 0.3 + 1e-12)
    )
    np.testing.assert_allclose(near, far, rtol=1e-10)


def test_a_tiny_alpha_drops_what_costs_and_a_huge_one_keeps_all():
    losses = jnp.array([0.01, 0.5, 3.0])
    for regularizer in (BINARY, kl_regularizer(LOG_TARGET)):
        np.testing.assert_allclose(regularizer.weight(1e-5, losses), 0.0, atol=1e-100)
        np.testing.assert_allclose(regularizer.loss(1e-5, losses), 0.0, atol=1e-5)
    np.testing.assert_allclose(kl_weight(1e12, losses, LOG_TARGET), 0.2, rtol=1e-10)
    np.testing.assert_allclose(
        kl_loss(1e12, losses, LOG_TARGET), 0.2 * losses, rtol=1e-10
    )
    assert binary_loss(1e12, losses).tolist() == losses.tolist()


def test_weights_rise_with_alpha_and_the_transformed_loss_stays_below_it():
    alphas, losses = (
        jnp.array([0.1, 0.5, 2.0, 8.0])[:, None],
        jnp.array([0.2, 1.0, 4.0])[None],
    )
    for regularizer in (BINARY, kl_regularizer()):
        weights, transformed = (
            function(alphas, jnp.tile(losses, (4, 1))) for function in regularizer[1:]
        )
        assert (jnp.diff(weights, axis=0) >= 0).all()
        assert (transformed <= jnp.minimum(alphas, losses)).all()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_kl_regularizer_gives_the_same_weights_with_and_without_normalisation(
    alpha,
):
    losses, log_target = samples()
    weights = kl_weight(alpha, losses, log_target)
    probs = kl_probabilities(alpha, losses, log_target)
    np.testing.assert_allclose(probs, weights / weights.sum(), rtol=1e-12)
    gradient = jax.grad(
        lambda p: spl_objective(kl_regularizer(log_target), alpha, p, losses)
    )(probs)
    np.testing.assert_allclose(
        gradient, gradient[0], rtol=1e-10
    )  # no move within the simplex helps, and it is convex


def test_the_binary_regularizer_does_not():
    losses, alpha = jnp.array([0.5, 0.2, 1.5]), 1.0
    alone = binary_weight(alpha, losses)
    normalised, coupled = alone / alone.sum(), binary_probabilities(losses)
    assert normalised.tolist() == [0.5, 0.5, 0.0]
    assert coupled.tolist() == [0.0, 1.0, 0.0]
    np.testing.assert_allclose(
        spl_objective(BINARY, alpha, normalised, losses), -0.65, rtol=1e-12
    )
    np.testing.assert_allclose(
        spl_objective(BINARY, alpha, coupled, losses), -0.8, rtol=1e-12
    )
    programme = linprog(
        np.asarray(losses) - alpha, A_eq=np.ones((1, 3)), b_eq=[1.0], bounds=(0, 1)
    )
    np.testing.assert_allclose(programme.x, coupled, atol=1e-12)


def test_samples_that_are_both_easiest_share_the_binary_probability():
    assert binary_probabilities(jnp.array([2.0, -1.0, -1.0])).tolist() == [
        0.0,
        0.5,
        0.5,
    ]


def test_the_free_energy_is_the_least_of_the_probabilistic_objective():
    losses, log_target = samples()
    probs = kl_probabilities(0.7, losses, log_target)
    least = free_energy(0.7, losses, log_target)
    np.testing.assert_allclose(
        probabilistic_objective(0.7, probs, losses, log_target), least, rtol=1e-12
    )
    for seed in range(5):
        others = jnp.asarray(np.random.default_rng(seed).dirichlet(np.ones(6)))
        excess = probabilistic_objective(0.7, others, losses, log_target) - least
        divergence = (others * (jnp.log(others) - jnp.log(probs))).sum()
        np.testing.assert_allclose(
            excess, 0.7 * divergence, rtol=1e-10
        )  # which is >= 0, and 0 at probs alone


@pytest.mark.slow
def test_the_slopes_of_the_free_energy_are_probabilities_and_a_divergence():
    losses, log_target = samples()
    for alpha in (0.05, 0.7, 30.0):  # both of its branches
        probs = kl_probabilities(alpha, losses, log_target)
        in_alpha, in_losses = jax.grad(free_energy, (0, 1))(alpha, losses, log_target)
        np.testing.assert_allclose(in_losses, probs, rtol=1e-11, atol=1e-300)
        divergence = probabilistic_objective(1.0, probs, jnp.zeros(6), log_target)
        np.testing.assert_allclose(in_alpha, divergence, rtol=1e-9)


def test_the_free_energy_goes_from_the_least_to_the_mean_loss():
    losses, log_target = samples()
    target = jnp.exp(log_target)
    np.testing.assert_allclose(
        free_energy(1e-9, losses, log_target), losses.min(), atol=1e-7
    )
    np.testing.assert_allclose(
        free_energy(1e9, losses, log_target), (target * losses).sum(), rtol=1e-8
    )
    assert (
        kl_probabilities(1e-9, losses, log_target).tolist()
        == binary_probabilities(losses).tolist()
    )
    np.testing.assert_allclose(
        kl_probabilities(1e12, losses, log_target), target, rtol=1e-10
    )


def test_the_free_energy_of_a_huge_alpha_keeps_its_digits_in_float32():
    losses, log_target = (
        jnp.array([1.0, 3.0, 8.0], jnp.float32),
        jnp.log(jnp.array([0.25, 0.5, 0.25], jnp.float32)),
    )
    np.testing.assert_allclose(
        free_energy(jnp.float32(1e8), losses, log_target), 3.75, rtol=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize("log_target", [0.0, LOG_TARGET, -np.inf])
def test_no_weight_and_no_loss_is_nan_in_float32_however_extreme(log_target):
    alphas, losses = jnp.asarray(EXTREMES, jnp.float32).T
    log_targets = jnp.full_like(losses, log_target)
    for function in (kl_weight, kl_loss):
        values = function(alphas, losses, log_targets)
        arguments = alphas, losses, log_targets
        slopes = jax.jit(jax.vmap(jax.grad(function, (0, 1, 2))))(*arguments)
        directional = [
            jax.jit(jax.vmap(jax.jacfwd(function, axis)))(*arguments)
            for axis in range(3)
        ]
        for found in (values, *slopes, *directional):
            assert found.dtype == jnp.float32
            assert not jnp.isnan(found).any()
    np.testing.assert_array_equal(
        jnp.isinf(kl_loss(alphas, losses, log_targets)),
        jnp.isinf(kl_weight(alphas, losses, log_targets)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1e-8, 1e-3, 1.0, 1e3, 1e8])
def test_probabilities_and_free_energy_are_finite_in_float32_however_extreme(alpha):
    losses = jnp.array([1e6, -1e6, 0.0, 1.0, -1e6, 5.0], jnp.float32)
    log_target = jnp.log(jnp.array([0.3, 0.0, 0.2, 0.2, 0.2, 0.1], jnp.float32))
    alpha = jnp.float32(alpha)
    probs = kl_probabilities(alpha, losses, log_target)
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-6)
    assert probs[1] == 0
    if alpha <= 1e3:
        assert probs[4] == 1
    assert losses.min() <= free_energy(alpha, losses, log_target) <= losses.max()
    jacobians = jax.jit(jax.jacrev(kl_probabilities, (0, 1)))
    slopes = jax.jit(jax.grad(free_energy, (0, 1)))
    for derivatives in (jacobians, slopes):
        for found in derivatives(alpha, losses, log_target):
            assert jnp.isfinite(found).all()
    assert jnp.isfinite(probabilistic_objective(alpha, probs, losses, log_target))


def test_differences_of_huge_losses_decide_not_their_size():
    losses = jnp.array([1e6 + 1.0, 1e6, 1e6 + 2.0], jnp.float32)
    probs = kl_probabilities(0.5, losses, jnp.zeros(3, jnp.float32))
    np.testing.assert_allclose(
        probs,
        np.array([np.exp(-2), 1, np.exp(-4)]) / (1 + np.exp(-2) + np.exp(-4)),
        rtol=1e-6,
    )


def test_a_forbidden_sample_of_least_loss_costs_the_others_no_digits():
    losses, log_target = (
        jnp.array([-1e6, 0.0, 1.0], jnp.float32),
        jnp.log(jnp.array([0.0, 0.3, 0.7], jnp.float32)),
    )
    total = 0.3 + 0.7 * np.exp(-2)
    probs = kl_probabilities(0.5, losses, log_target)
    np.testing.assert_allclose(
        probs, [0.0, 0.3 / total, 0.7 * np.exp(-2) / total], rtol=1e-6
    )
    np.testing.assert_allclose(
        free_energy(0.5, losses, log_target), -0.5 * np.log(total), rtol=1e-6
    )
