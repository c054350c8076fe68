"""The duals of C-REPS and SPRL against SciPy, and where other solvers break."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from benchmarks.dual_accuracy import compare, divergence, solve, unknown
from benchmarks.dual_problems import (
    FLOOR,
    KINDS,
    minimise_by_scipy,
    random_problem,
    recorded_problems,
    spread,
)
from spjax.agents.episodic.dual import reward_spread, sprl_weights
from spjax.agents.episodic.temperature import optimal_temperature
from spjax.solvers.augmented_lagrangian import Result

ALPHAS = (0.0, 1e-3, 0.02, 1.0, 1e3, 1e6)  # spreads


def problem_of(kind, seed, method="sprl", **changes):
    return random_problem(np.random.default_rng(seed), kind, method)._replace(**changes)


def weights_of(problem, dtype="float64"):
    found = solve(problem, dtype)
    return found.policy, found.context


def assert_agrees_with_scipy(problem):
    """Asserts that value and minimiser agree to 1e-6, and that ours is the minimum by its own derivatives.

    Temperatures, value weights and sample weights are compared: the ridge makes the minimiser unique in every kind of problem.
    Only value weights that are all below the spread of the rewards, as those of equal rewards, are compared relative to it.
    """
    found, reference = solve(problem), minimise_by_scipy(problem)
    differences = compare(problem, found, reference)
    assert found.result == Result.CONVERGED
    assert differences.value <= 1e-6
    assert found.value <= reference.value + 1e-9 * spread(problem.rewards)
    assert max(differences.temperatures, differences.chi, differences.weights) <= 1e-6

    count, least = problem.num_multipliers, FLOOR * spread(problem.rewards)
    x = unknown(problem, found)
    gradient = problem.value_and_gradient(x)[1]
    assert np.abs(gradient[count:]).max() < 1e-9
    assert (found.kl <= problem.max_kl * (1 + 1e-9)).all()
    for slope, multiplier, temperature in zip(
        gradient, x[:count], found.minimiser.temperatures, strict=False
    ):
        assert multiplier >= 0.999 * least
        at_floor = multiplier <= 1.001 * least
        assert (
            slope > -1e-9
            if at_floor
            else abs(slope)
            < 1e-9 * max(1.0, temperature / found.minimiser.temperatures[0])
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sprl", "creps"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_dual_has_the_minimum_that_scipy_finds(kind, method):
    random = np.random.default_rng(KINDS.index(kind))
    for _ in range(6 if method == "sprl" else 3):
        assert_agrees_with_scipy(random_problem(random, kind, method))


@pytest.mark.slow
def test_duals_of_real_trainings_have_the_minimum_that_scipy_finds():
    for problem in recorded_problems()[::6]:
        assert_agrees_with_scipy(problem)


def test_the_spread_is_that_of_the_reference():
    for kind in KINDS:
        rewards = problem_of(kind, 0).rewards
        np.testing.assert_allclose(
            reward_spread(jnp.asarray(rewards, jnp.float32)), spread(rewards), rtol=1e-5
        )


@pytest.mark.parametrize("kind", ["gate", "sparse", "million"])
def test_the_published_ridge_in_units_of_rewards_is_solved_as_well(kind):
    assert_agrees_with_scipy(problem_of(kind, 11, alpha=0.02, ridge=1e-5))


def test_scaling_rewards_and_alpha_by_a_million_leaves_the_weights_unchanged():
    plain = problem_of("gate", 1, alpha=0.5)
    scaled = plain._replace(
        rewards=1e6 * plain.rewards, alpha=0.5e6, ridge=plain.ridge / 1e6
    )
    shifted = plain._replace(rewards=plain.rewards - 1e4)
    for other in (scaled, shifted):
        for weights, expected in zip(weights_of(other), weights_of(plain), strict=True):
            np.testing.assert_allclose(weights, expected, rtol=1e-6)
    np.testing.assert_allclose(solve(scaled).value, 1e6 * solve(plain).value, rtol=1e-9)


def test_equal_rewards_give_uniform_weights():
    sprl, creps = problem_of("equal", 2, alpha=0.0), problem_of("equal", 2, "creps")
    creps = creps._replace(mean_features=creps.features.mean(axis=0))
    for weights in (*weights_of(sprl), *weights_of(creps)):
        np.testing.assert_allclose(weights, 1 / len(sprl.rewards), rtol=1e-9)
    assert solve(sprl).value == pytest.approx(3.7, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_reward_of_minus_1e12_weighs_nothing_and_leaves_the_others_as_if_it_were_not_there(
    dtype,
):
    problem = problem_of("gate", 3, "creps", max_kl=0.4, ridge=1e-5)
    count = len(problem.rewards)
    problem.rewards[7] = -1e12
    others = np.arange(count) != 7
    # Without the sample the mean is over one less, which shifts the KL divergence by log N / (N - 1)
    budget = 0.4 - np.log(count / (count - 1))
    without = problem._replace(
        rewards=problem.rewards[others],
        features=problem.features[others],
        max_kl=budget,
    )
    policy = weights_of(problem, dtype)[0]
    assert policy[7] == 0.0
    tolerance = 1e-6 if dtype == "float64" else 2e-2
    np.testing.assert_allclose(
        policy[others], weights_of(without, dtype)[0], rtol=tolerance
    )


@pytest.mark.parametrize("method", ["sprl", "creps"])
def test_a_buffer_of_one_sample_gives_it_all_the_weight(method):
    found = solve(problem_of("one sample", 4, method), "float32")
    np.testing.assert_array_equal(found.policy, [1.0])
    np.testing.assert_array_equal(found.context, [1.0])
    assert found.result == Result.CONVERGED
    np.testing.assert_allclose(found.kl, 0.0, atol=1e-6)


@pytest.mark.parametrize("method", ["sprl", "creps"])
def test_single_precision_is_always_finite_and_within_the_bound(method):
    random = np.random.default_rng(4)
    for case, (kind, alpha) in enumerate(
        itertools.product(KINDS, ALPHAS if method == "sprl" else ALPHAS[:1])
    ):
        problem = random_problem(random, kind, method)
        problem = problem._replace(alpha=alpha * spread(problem.rewards))
        if case % 5 == 0:
            problem.rewards[0] = -1e12
        if case % 7 == 3:
            problem.rewards[-1] = -1e30
        found = solve(problem, "float32")
        for leaf in jax.tree.leaves(found):
            assert np.isfinite(leaf).all()
        for weights in (found.policy, found.context):
            assert weights.sum() == pytest.approx(1.0, rel=1e-5)
            assert divergence(weights) <= problem.max_kl + 1e-5
        assert found.result in (Result.CONVERGED, Result.ITERATION_LIMIT)


@pytest.mark.slow
def test_single_precision_solves_the_duals_of_real_trainings():
    for problem in recorded_problems()[::4]:
        found, exact = solve(problem, "float32"), solve(problem)
        for leaf in jax.tree.leaves(found):
            assert np.isfinite(leaf).all()
        assert np.abs(found.policy - exact.policy).max() <= 1e-2 * exact.policy.max()
        assert divergence(found.policy) <= problem.max_kl * (1 + 1e-4)
        assert divergence(found.context) <= problem.max_kl * (1 + 1e-4)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_an_input_that_is_not_finite_gives_uniform_weights_and_a_code(value):
    problem = problem_of("gate", 5)
    problem.rewards[3] = value
    found = solve(problem, "float32")
    assert found.result == Result.NOT_FINITE
    np.testing.assert_allclose(found.policy, 1 / len(problem.rewards), rtol=1e-6)
    for leaf in jax.tree.leaves(found):
        assert np.isfinite(leaf).all()


def test_the_minimum_does_not_depend_on_the_start_and_a_near_one_is_faster():
    problem = problem_of("converged", 6)
    with jax.enable_x64(True):
        given = [jnp.asarray(one) for one in problem[:3]]
        again = jax.jit(
            lambda start: sprl_weights(*given, alpha=0.02, max_kl=0.4, start=start)
        )
        cold = jax.jit(lambda: sprl_weights(*given, alpha=0.02, max_kl=0.4))()
        warm = again(cold.minimiser)
        far = again(jax.tree.map(lambda leaf: 30 * leaf + 5, cold.minimiser))
        broken = again(jax.tree.map(lambda leaf: leaf * jnp.nan, cold.minimiser))
        chi = cold.minimiser.chi.at[0].set(jnp.nan)
        half_broken = again(dataclasses.replace(cold.minimiser, chi=chi))
    for other in (warm, far, broken, half_broken):
        np.testing.assert_allclose(other.policy, cold.policy, rtol=1e-6)
        np.testing.assert_allclose(other.context, cold.context, rtol=1e-5)
    assert int(warm.trips) <= 2 < int(cold.trips)


def test_a_batch_of_problems_has_the_solutions_of_each_and_a_bad_one_disturbs_no_other():
    problems = [
        problem_of(kind, 7, alpha=0.1, max_kl=0.4)
        for kind in ("gate", "sparse", "converged", "gate")
    ]
    parts = zip(*(problem[:3] for problem in problems), strict=True)
    stacked = [jnp.asarray(np.stack(part), jnp.float32) for part in parts]
    spoiled = [stacked[0].at[3, 0].set(jnp.nan), *stacked[1:]]
    solve_batch = jax.jit(
        jax.vmap(lambda *one: sprl_weights(*one, alpha=0.1, max_kl=0.4))
    )
    clean, bad = solve_batch(*stacked), solve_batch(*spoiled)
    for lane in range(3):
        np.testing.assert_array_equal(clean.policy[lane], bad.policy[lane])
        alone = weights_of(problems[lane]._replace(ridge=1e-5), "float32")[0]
        np.testing.assert_allclose(clean.policy[lane], alone, rtol=2e-2, atol=1e-5)
    assert int(bad.result[3]) == Result.NOT_FINITE


def test_the_temperature_is_the_one_at_which_the_weights_have_the_given_divergence():
    random = np.random.default_rng(8)
    with jax.enable_x64(True):
        search = jax.jit(optimal_temperature)
        for max_kl in (1e-4, 0.1, 2.0):
            exponents = 1e3 * random.normal(size=500)
            exponents -= exponents.max()
            found = search(jnp.asarray(exponents), 1e-3, 1e9, 1.0, max_kl)
            weights = np.exp(exponents / float(found.temperature))
            weights /= weights.sum()
            assert divergence(weights) == pytest.approx(max_kl, rel=1e-9)
            np.testing.assert_allclose(found.mean, weights @ exponents, rtol=1e-9)
        ties = jnp.array(
            [0.0, 0.0, 0.0, -1.0]
        )  # KL of the weights on the ties alone is log 4/3
        assert float(search(ties, 1e-3, 1e9, 1.0, 0.3).temperature) == 1e-3
        assert float(search(exponents, 1e-3, 2e-3, 1.0, 1e-4).temperature) == 2e-3


@pytest.mark.parametrize(("dtype", "least"), [("float64", 1e-6), ("float32", 2**-11.5)])
def test_a_bound_that_cannot_be_reached_gives_the_least_temperature_that_the_precision_bears(
    dtype, least
):
    """No weights of N samples diverge further than log N; the least temperature is sqrt(eps), or 1e-6, of the spread."""
    problem = problem_of("gate", 12, "creps", max_kl=50.0)
    found = solve(problem, dtype)
    assert found.minimiser.temperatures[0] == pytest.approx(
        least * spread(problem.rewards), rel=1e-3
    )


@pytest.mark.slow
def test_lanes_on_two_devices_have_the_weights_of_lanes_on_one():
    """Loops whose start is a constant are refused by shard_map, which here checks what varies over devices."""
    problems = [problem_of("gate", seed, alpha=0.1, max_kl=0.4) for seed in (9, 10)]
    stacked = [
        jnp.asarray(np.stack(part), jnp.float32)
        for part in zip(*(p[:3] for p in problems), strict=True)
    ]
    lanes = jax.vmap(lambda *one: sprl_weights(*one, alpha=0.1, max_kl=0.4))
    mesh = Mesh(np.asarray(jax.devices()[:2]), ("lane",))
    sharded = jax.jit(
        jax.shard_map(lanes, mesh=mesh, in_specs=P("lane"), out_specs=P("lane"))
    )(*stacked)
    for lane in range(2):
        alone = jax.jit(lanes)(*(part[lane : lane + 1] for part in stacked))
        np.testing.assert_allclose(
            sharded.policy[lane], alone.policy[0], rtol=1e-4, atol=1e-7
        )
