"""The update of a discrete distribution: closed forms, SciPy, the promise of the trust region, derivatives, batches."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from spjax.contexts import Discrete
from spjax.self_paced import Mode, update_context
from spjax.solvers.augmented_lagrangian import Result

RULES = ("proportion", "reward", "bound")
DIRECTIONS = ("old-new", "new-old")


def divergence(p, q):
    there = p > 0
    return float((p[there] * np.log(p[there] / q[there])).sum())


def make(seed, size=6, count=25):
    rng = np.random.default_rng([seed, size])
    old, target = rng.dirichlet(np.ones(size)), rng.dirichlet(np.full(size, 0.5)) + 1e-9
    rows = rng.choice(size, count, p=old)
    values = 1.0 + rng.normal(size=count)
    return old, target / target.sum(), rows, values


@functools.cache
def updater(rule, direction, size):
    def update(old, target, rows, values, alpha, bound, max_kl):
        table = jnp.arange(size * 1.0)[:, None] ** 2
        settings = (
            {"alpha": alpha}
            if rule == "proportion"
            else {"performance_bound": bound, "reached": False}
        )
        distributions = (
            Discrete(table, jnp.log(old)),
            Discrete(table, jnp.log(target)),
        )
        samples = (table[rows], values, jnp.ones(values.shape, bool))
        return update_context(
            *distributions, *samples, max_kl=max_kl, kl_direction=direction, **settings
        )

    return jax.jit(update)


def solve(rule, direction, problem, alpha=0.1, slack=0.05, max_kl=0.05):
    """Returns new probabilities, their gains per row, and the record, in float64."""
    old, target, rows, values = problem
    bound = 1e6 if rule == "reward" else values.mean() - slack
    with jax.enable_x64(True):
        arguments = (
            jnp.asarray(x) for x in (old, target, rows, values, alpha, bound, max_kl)
        )
        new, update = updater(rule, direction, old.size)(*arguments)
        gains = np.zeros(old.size)
        np.add.at(gains, rows, values / rows.size / old[rows])
        return np.asarray(new.probs), gains, update


@pytest.mark.parametrize("alpha", [0.0, 0.02, 1.0])
def test_the_new_old_solution_is_the_tilted_product_of_old_target_and_values(alpha):
    problem = make(3)
    probs, gains, update = solve("proportion", "new-old", problem, alpha)
    old, target = problem[:2]

    def tilted(multiplier):
        logs = (multiplier * np.log(old) + alpha * np.log(target) + gains) / (
            alpha + multiplier
        )
        return np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()

    multiplier = np.exp(
        brentq(
            lambda log: divergence(tilted(np.exp(log)), old) - 0.05, -7, 10, xtol=1e-14
        )
    )
    np.testing.assert_allclose(probs, tilted(multiplier), atol=1e-6)
    assert float(update.kl_price) == pytest.approx(multiplier, rel=1e-4)
    assert update.bound_price is None


def test_without_values_that_differ_the_bound_rule_moves_along_the_geodesic_to_the_target():
    old, target, rows, _ = make(5)
    probs, _, update = solve(
        "bound", "new-old", (old, target, rows, np.zeros(25)), slack=1.0
    )

    def mixture(share):
        weights = old ** (1 - share) * target**share
        return weights / weights.sum()

    share = brentq(
        lambda share: divergence(mixture(share), old) - 0.05, 0, 1, xtol=1e-15
    )
    np.testing.assert_allclose(probs, mixture(share), atol=1e-6)
    assert update.mode == Mode.TARGET


def test_where_only_the_bound_holds_the_target_back_the_solution_is_its_tilt_by_the_values():
    old, target = np.full(3, 1 / 3), np.array([0.9, 0.07, 0.03])
    values = np.array([0.0, 1.0, 2.5])  # of each row, seen once
    probs, gains, update = solve(
        "bound", "new-old", (old, target, np.arange(3), values), slack=0.5, max_kl=50.0
    )

    def tilted(price):
        weights = target * np.exp(price * values)
        return weights / weights.sum()

    bound = values.mean() - 0.5
    assert target @ values < bound < old @ values
    price = brentq(lambda price: tilted(price) @ values - bound, 0, 9, xtol=1e-14)
    np.testing.assert_allclose(gains, values, rtol=1e-12)
    np.testing.assert_allclose(probs, tilted(price), atol=1e-5)  # less a margin
    assert float(update.bound_price) == pytest.approx(price, rel=1e-3)
    assert float(update.kl_price) == pytest.approx(0.0, abs=1e-6)
    assert update.mode == Mode.TARGET


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_huge_alpha_with_the_target_inside_the_trust_region_returns_the_target(
    direction,
):
    old, target, rows, values = make(7)
    near = 0.97 * old + 0.03 * target
    probs, _, update = solve(
        "proportion", direction, (old, near, rows, values), alpha=1e5
    )
    np.testing.assert_allclose(probs, near, atol=1e-4)
    assert 0 < update.kl < 0.05


@pytest.mark.slow
def test_two_rows_and_reward_alone_give_the_root_of_the_divergence():
    problem = (
        np.array([0.5, 0.5]),
        np.array([0.9, 0.1]),
        np.array([0, 1]),
        np.array([0.0, 1.0]),
    )
    root = brentq(lambda p: -0.5 * np.log(4 * p * (1 - p)) - 0.05, 0.5, 0.99)
    np.testing.assert_allclose(
        solve("reward", "old-new", problem)[0][1], root, atol=1e-6
    )
    root = brentq(
        lambda p: p * np.log(2 * p) + (1 - p) * np.log(2 - 2 * p) - 0.05, 0.5, 0.99
    )
    np.testing.assert_allclose(
        solve("reward", "new-old", problem)[0][1], root, atol=1e-6
    )


def test_a_trust_region_wider_than_the_simplex_puts_all_mass_on_the_best_row():
    problem = (
        np.array([0.5, 0.5]),
        np.array([0.9, 0.1]),
        np.array([0, 1]),
        np.array([0.0, 1.0]),
    )
    np.testing.assert_allclose(
        solve("reward", "new-old", problem, max_kl=1.0)[0], [0.0, 1.0], atol=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_no_feasible_point_of_scipy_is_better(rule, direction):
    compared = 0
    for seed in range(12):
        max_kl, alpha, slack = [(0.05, 0.1, 1e-3), (0.5, 1.0, 0.02), (1e-3, 0.01, 0.2)][
            seed % 3
        ]
        problem = make(seed)
        old, target = problem[:2]
        probs, gains, update = solve(rule, direction, problem, alpha, slack, max_kl)
        bound = problem[3].mean() - slack
        assert update.result == Result.CONVERGED
        weights = {
            "proportion": (alpha, 1.0),
            "reward": (0.0, 1.0),
            "bound": (1.0, 0.0),
        }[rule]

        def objective(p):
            return weights[0] * divergence(p, target) - weights[1] * gains @ p

        def room(p):
            return max_kl - (
                divergence(old, p) if direction == "old-new" else divergence(p, old)
            )

        constraints = [
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": room},
        ]
        if rule == "bound":
            constraints.append({"type": "ineq", "fun": lambda p: gains @ p - bound})
            assert gains @ probs >= bound
        bounds, options = [(1e-12, 1.0)] * old.size, {"ftol": 1e-15, "maxiter": 500}
        found = minimize(
            objective,
            old,
            method="SLSQP",
            bounds=bounds,
            constraints=constraints,
            options=options,
        ).x
        assert room(probs) >= 0
        if all(constraint["fun"](found) >= -1e-9 for constraint in constraints[1:]):
            compared += 1
            assert (
                objective(probs) - objective(found)
                <= 1e-5 * (objective(old) - objective(probs)) + 1e-9
            )
    assert compared >= 8


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rule", ["proportion", "bound"])
def test_single_precision_results_keep_trust_region_and_bound_after_rounding(
    rule, direction
):
    for seed in range(24):
        old, target, rows, values = make(seed, size=(2, 60)[seed % 2])
        old = np.exp(np.log(old).astype(np.float32).astype(float))
        max_kl = np.float32((0.05, 0.5, 1e-3)[seed % 3])
        arguments = (np.float32(x) for x in (old, target))
        bound = np.float32(values.mean() - 0.05)
        update_one = updater(rule, direction, old.size)
        new, _ = update_one(
            *arguments, rows, np.float32(values), np.float32(0.05), bound, max_kl
        )
        logits = np.asarray(new.logits, np.float64)
        log_new, log_old = (
            logits - np.logaddexp.reduce(logits),
            np.log(np.float32(old)).astype(float),
        )
        log_old -= np.logaddexp.reduce(log_old)
        logs = (log_old, log_new) if direction == "old-new" else (log_new, log_old)
        used = (np.exp(logs[0]) * (logs[0] - logs[1])).sum()
        assert used <= max_kl * (1 + 1e-12)
        if rule == "bound":
            ratios = np.exp(log_new - log_old)[rows]
            assert (ratios * np.float32(values)).mean() >= bound - 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rule", ["proportion", "bound"])
def test_derivatives_equal_central_differences(rule, direction):
    old, target, rows, values = make(3)  # where V_LB holds the update back
    weights = np.random.default_rng(0).normal(size=old.size)
    setting = 0.1 if rule == "proportion" else values.mean() - 0.01

    @jax.jit
    @jax.value_and_grad
    def loss(inputs):
        distributions = (inputs["old"], inputs["target"])
        settings = (inputs["setting"], inputs["setting"], inputs["max_kl"])
        new, _ = updater(rule, direction, old.size)(
            *distributions, rows, inputs["values"], *settings
        )
        return weights @ new.probs

    with jax.enable_x64(True):
        inputs = {
            "values": values,
            "setting": setting,
            "max_kl": 0.05,
            "old": old,
            "target": target,
        }
        inputs = {name: jnp.asarray(value) for name, value in inputs.items()}
        _, gradients = loss(inputs)
        for name, gradient in gradients.items():
            noise = np.random.default_rng(2).normal(size=np.shape(gradient))
            along = noise * np.asarray(inputs[name])
            ends = [
                loss(inputs | {name: inputs[name] + sign * 1e-4 * along})[0]
                for sign in (1, -1)
            ]
            difference = float(ends[0] - ends[1]) / 2e-4
            assert abs(difference) > 1e-5, name
            np.testing.assert_allclose(
                (np.asarray(gradient) * along).sum(), difference, 1e-4, err_msg=name
            )


@pytest.mark.slow
def test_the_derivative_by_alpha_is_that_of_the_tilted_target_where_nothing_else_holds():
    """p in proportion to mu exp(g / alpha): d (w . p) / d alpha = -Cov_p(w, g) / alpha^2."""
    old, target, rows, values = make(4)
    weights = np.random.default_rng(0).normal(size=old.size)
    with jax.enable_x64(True):

        def loss(alpha):
            update = updater("proportion", "new-old", old.size)
            given = (jnp.asarray(x) for x in (old, target, rows, values))
            return weights @ update(*given, alpha, 0.0, 50.0)[0].probs

        slope = float(jax.grad(loss)(jnp.asarray(0.8)))
    gains = np.zeros(old.size)
    np.add.at(gains, rows, values / rows.size / old[rows])
    probs = target * np.exp(gains / 0.8)
    probs /= probs.sum()
    centred = gains - probs @ gains
    assert slope == pytest.approx(-(probs * centred) @ weights / 0.8**2, rel=1e-6)


@pytest.mark.slow
def test_the_derivative_by_the_trust_region_is_that_of_the_root_of_the_divergence():
    """Of two rows by reward alone: KL(p || q) = epsilon gives dp / d epsilon = 1 / log(p (1 - q) / (q (1 - p)))."""
    old = np.array([0.6, 0.4])
    with jax.enable_x64(True):

        def probability(max_kl):
            update = updater("proportion", "new-old", 2)
            values = jnp.array([0.0, 1.0])
            given = (jnp.asarray(old), jnp.asarray(old), jnp.array([0, 1]), values)
            return update(*given, 0.0, 0.0, max_kl)[0].probs[1]

        p, slope = jax.value_and_grad(probability)(jnp.asarray(0.05))
    p = float(p)
    assert divergence(np.array([1 - p, p]), old) == pytest.approx(0.05, rel=1e-4)
    expected = 1 / np.log(p * 0.6 / (0.4 * (1 - p)))
    assert float(slope) == pytest.approx(expected, rel=1e-4)


@functools.cache
def batched(rule, direction):
    return jax.jit(jax.vmap(updater(rule, direction, 6).__wrapped__))


def batch(lanes=8):
    problems = [make(seed) for seed in range(lanes)]
    old, target, rows, values = (
        np.stack(leaves) for leaves in zip(*problems, strict=True)
    )
    settings = (np.full(lanes, 0.1), values.mean(axis=1) - 0.01, np.full(lanes, 0.05))
    return tuple(
        jnp.asarray(x) if x.dtype == int else jnp.asarray(x, jnp.float32)
        for x in (old, target, rows, values, *settings)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "direction"), [("proportion", "old-new"), ("bound", "new-old")]
)
def test_a_batch_equals_a_loop_over_single_updates(rule, direction):
    arguments = batch()
    together, _ = batched(rule, direction)(*arguments)
    for lane in range(8):
        alone, _ = updater(rule, direction, 6)(*(x[lane] for x in arguments))
        np.testing.assert_allclose(
            together.logits[lane], alone.logits, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_poisoned_lane_keeps_its_distribution_and_changes_no_other_lane(bad):
    arguments = batch()
    values = arguments[3].at[5, 2].set(bad)
    clean, _ = batched("bound", "new-old")(*arguments)
    new, update = batched("bound", "new-old")(*arguments[:3], values, *arguments[4:])
    assert update.result[5] == Result.NOT_FINITE
    np.testing.assert_array_equal(new.logits[5], jnp.log(arguments[0][5]))
    others = np.arange(8) != 5
    np.testing.assert_array_equal(new.logits[others], clean.logits[others])


def test_a_traced_target_without_mass_keeps_the_old_distribution_with_a_code():
    arguments = batch()
    target = arguments[1].at[2, 0].set(0.0)
    new, update = batched("proportion", "old-new")(arguments[0], target, *arguments[2:])
    assert update.result[2] == Result.NOT_FINITE
    np.testing.assert_array_equal(new.logits[2], jnp.log(arguments[0][2]))
    assert np.all(update.result[np.arange(8) != 2] == Result.CONVERGED)


@pytest.mark.slow
def test_thousands_of_rows_work():
    size = 4000
    problem = make(0, size=size, count=200)
    probs, _, update = solve("proportion", "old-new", problem)
    assert update.result == Result.CONVERGED
    np.testing.assert_allclose(divergence(problem[0], probs), 0.05, rtol=1e-5)
