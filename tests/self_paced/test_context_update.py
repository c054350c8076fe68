import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.context_problems import (
    kl_used,
    make_problem,
    objective,
    performance,
    solve_with_scipy,
)
from spjax.contexts import Gaussian, kl_divergence
from spjax.self_paced import Mode, alpha_proportion, context_update, update_context
from spjax.solvers.augmented_lagrangian import Result, SolverConfig
from tests.self_paced.problems import LANES, lane, problem_batch, run, updater


def assert_feasible(batch, new, rule, direction, tolerance=1e-6):
    for index in range(len(batch.values)):
        problem = lane(batch, index)
        mean, chol = (
            new.mean[index].astype(np.float64),
            new.chol[index].astype(np.float64),
        )
        assert np.all(np.diagonal(chol) > 0)
        assert (
            kl_used(problem, mean, chol, direction)
            <= problem.max_kl * (1 + tolerance) + 1e-13
        )
        held = np.minimum(problem.std_floor, np.diagonal(problem.old_chol))
        assert np.all(np.diagonal(chol) >= held)
        if rule == "bound":
            start = performance(problem, problem.old_mean, problem.old_chol)
            if start >= problem.performance_bound:
                assert performance(
                    problem, mean, chol
                ) >= problem.performance_bound - 1e-9 * (1 + abs(start))


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["old-new", "new-old"])
@pytest.mark.parametrize("rule", ["proportion", "bound"])
def test_single_precision_results_are_feasible_after_rounding_and_never_worse_than_the_start(
    rule, direction
):
    batch = problem_batch()
    new, update = run(rule, batch, direction)
    assert new.mean.dtype == np.float32
    assert_feasible(batch, new, rule, direction)
    assert np.all(update.result == Result.CONVERGED)
    for index in range(LANES):
        problem = lane(batch, index)
        solved = (
            "proportion"
            if rule == "proportion"
            else ("reward", "target", "frozen")[update.mode[index]]
        )
        start = objective(problem, problem.old_mean, problem.old_chol, solved)
        end = objective(
            problem,
            new.mean[index].astype(float),
            new.chol[index].astype(float),
            solved,
        )
        assert end <= start + 1e-9 * (1 + abs(start))


@pytest.mark.slow
def test_results_are_never_worse_than_those_of_trust_constr():
    batch = problem_batch("float64")
    new, _ = run("proportion", batch)
    assert_feasible(batch, new, "proportion", "old-new")
    for index in range(13):
        problem = lane(batch, index)
        reference = solve_with_scipy(
            problem, "proportion", "old-new", max_iterations=200
        )
        start = objective(problem, problem.old_mean, problem.old_chol, "proportion")
        theirs = objective(problem, reference.mean, reference.chol, "proportion")
        ours = objective(problem, new.mean[index], new.chol[index], "proportion")
        assert ours - theirs <= 1e-4 * (start - ours) + 1e-12 * (1 + abs(start))


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["old-new", "new-old"])
def test_results_of_the_bound_rule_are_never_worse_than_those_of_trust_constr(
    direction,
):
    batch = problem_batch("float64")
    new, update = run("bound", batch, direction)
    plain = [
        index
        for index in range(LANES)
        if index % 13 in (0, 5, 10) and update.mode[index] == Mode.TARGET
    ]
    moved = 0
    for index in plain[:6]:
        problem = lane(batch, index)
        reference = solve_with_scipy(problem, "target", direction, max_iterations=200)
        start = objective(problem, problem.old_mean, problem.old_chol, "target")
        ours = objective(problem, new.mean[index], new.chol[index], "target")
        theirs = objective(problem, reference.mean, reference.chol, "target")
        feasible = kl_used(
            problem, reference.mean, reference.chol, direction
        ) <= problem.max_kl * (1 + 1e-9)
        feasible &= (
            performance(problem, reference.mean, reference.chol)
            >= problem.performance_bound - 1e-9
        )
        assert ours - (theirs if feasible else start) <= 1e-4 * (
            start - ours
        ) + 1e-12 * (1 + abs(start))
        moved += start - ours > 1e-2 * start
    assert moved >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "seeds"),
    [("old-new", (304, 407, 653, 1456, 2068)), ("new-old", (549, 1525, 2366, 2571))],
)
def test_what_rounding_takes_from_a_bound_is_found_again_beside_the_way_back(
    direction, seeds
):
    """The performance falls on the straight way back, so that it leads to the old distribution only."""
    problems = [make_problem(seed, 3) for seed in seeds]
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *problems)
    batch = jax.tree.map(
        lambda leaf, like: np.resize(leaf, (LANES, *leaf.shape[1:])).astype(like.dtype),
        batch,
        problem_batch(),
    )
    new, update = run("bound", batch, direction)
    assert_feasible(batch, new, "bound", direction)
    assert np.all(update.mode == Mode.TARGET)
    assert np.all(update.kl_price > 0)  # max_kl is what ends the step
    assert np.all(update.kl >= 0.999 * batch.max_kl)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "dim", "direction"), [(62, 3, "old-new"), (88, 3, "new-old")]
)
def test_the_search_for_outliers_escapes_a_local_optimum_that_trust_constr_beats(
    seed, dim, direction
):
    batch = jax.tree.map(lambda leaf: np.asarray(leaf)[None], make_problem(seed, dim))
    problem = lane(batch, 0)
    reference = solve_with_scipy(problem, "proportion", direction)
    theirs = objective(problem, reference.mean, reference.chol, "proportion")
    values = {}
    for search in (False, True):
        new, _ = run("proportion", batch, direction, search_outliers=search)
        assert_feasible(batch, new, "proportion", direction)
        values[search] = objective(problem, new.mean[0], new.chol[0], "proportion")
    assert values[False] > theirs + 0.1
    assert values[True] <= theirs


@pytest.mark.slow
def test_a_capped_solve_is_flagged_and_still_feasible():
    batch = problem_batch()
    new, update = run("proportion", batch, config=SolverConfig(max_iterations=3))
    assert_feasible(batch, new, "proportion", "old-new")
    moved = np.any(new.mean != batch.old_mean, axis=1)
    capped = update.result == Result.ITERATION_LIMIT
    assert capped.mean() > 0.8
    assert moved[capped].mean() > 0.5
    assert update.iterations.max() == 3


@pytest.mark.slow
def test_single_precision_solves_keep_the_trust_region_too():
    batch = problem_batch()
    new, _ = run("proportion", batch, precision="float32")
    assert_feasible(batch, new, "proportion", "old-new", tolerance=2e-6)


def test_single_precision_solves_lose_almost_nothing_of_the_achievable_improvement():
    exact, _ = run("proportion", problem_batch("float64"))
    batch = problem_batch()
    new, _ = run("proportion", batch, precision="float32")
    gaps = []
    for index in range(LANES):
        problem = lane(batch, index)
        start = objective(problem, problem.old_mean, problem.old_chol, "proportion")
        best = objective(problem, exact.mean[index], exact.chol[index], "proportion")
        found = objective(
            problem,
            new.mean[index].astype(float),
            new.chol[index].astype(float),
            "proportion",
        )
        gaps.append((found - best) / max(start - best, 1e-6 * (1 + abs(start))))
    assert np.mean(np.array(gaps) <= 1e-3) >= 0.95, sorted(gaps)[-6:]


def test_a_floor_equal_to_the_current_deviations_lets_the_mean_move():
    batch = problem_batch()
    batch = batch._replace(
        std_floor=np.diagonal(batch.old_chol, axis1=1, axis2=2).copy()
    )
    new, update = run("proportion", batch)
    plain = np.arange(LANES) % 13 < 3
    assert np.all(update.kl[plain] > 0.5 * batch.max_kl[plain])
    assert update.iterations.max() < 200
    assert np.all(np.diagonal(new.chol, axis1=1, axis2=2) >= batch.std_floor)
    assert np.all(np.any(new.mean != batch.old_mean, axis=1)[plain])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_one_poisoned_lane_keeps_its_distribution_and_changes_no_other_lane(bad):
    batch = problem_batch()
    clean, _ = run("proportion", batch)
    values = batch.values.copy()
    values[5, 2] = bad
    new, update = run("proportion", batch._replace(values=values))
    assert update.result[5] == Result.NOT_FINITE
    assert update.kl[5] == 0
    np.testing.assert_array_equal(new.mean[5], batch.old_mean[5])
    np.testing.assert_array_equal(new.chol[5], batch.old_chol[5])
    others = np.arange(LANES) != 5
    np.testing.assert_array_equal(new.mean[others], clean.mean[others])
    np.testing.assert_array_equal(new.chol[others], clean.chol[others])


def test_no_data_returns_the_old_distribution_bit_for_bit_whatever_the_buffer_holds():
    batch = problem_batch()
    empty = batch._replace(
        mask=np.zeros_like(batch.mask), values=np.full_like(batch.values, np.nan)
    )
    for rule in ("proportion", "bound"):
        new, update = run(rule, empty)
        assert np.all(update.result == Result.NO_DATA)
        assert not update.reached.any()
        np.testing.assert_array_equal(new.mean, batch.old_mean)
        np.testing.assert_array_equal(new.chol, batch.old_chol)


def test_what_is_masked_out_does_not_matter():
    batch = problem_batch()
    clean, _ = run("proportion", batch)
    hidden = ~batch.mask
    values = np.where(hidden, np.nan, batch.values)
    contexts = np.where(hidden[..., None], 1e30, batch.contexts).astype(np.float32)
    new, _ = run("proportion", batch._replace(values=values, contexts=contexts))
    np.testing.assert_array_equal(new.mean, clean.mean)


def test_a_trust_region_of_zero_keeps_the_distribution_in_one_iteration():
    batch = problem_batch()
    new, update = run("proportion", batch._replace(max_kl=np.zeros_like(batch.max_kl)))
    assert np.all(update.result == Result.CONVERGED)
    assert np.all(update.iterations == 1)
    np.testing.assert_array_equal(new.chol, batch.old_chol)


def test_a_tiny_trust_region_is_used_up():
    batch = problem_batch("float64")
    batch = batch._replace(
        max_kl=np.full_like(batch.max_kl, 1e-8),
        std_floor=np.zeros_like(batch.std_floor),
    )
    _, update = run("proportion", batch)
    plain = np.arange(LANES) % 13 < 3
    assert np.all((update.kl[plain] > 0.9e-8) & (update.kl[plain] <= 1e-8))


def test_at_the_target_a_capped_alpha_holds_the_distribution_there():
    batch = problem_batch("float64")
    batch = batch._replace(old_mean=batch.target_mean, old_chol=batch.target_chol)
    shift = 1e-9 * (np.arange(LANES) % 2)[:, None]
    contexts = batch.target_mean[:, None] + 1e-3 * np.sin(np.arange(96.0)).reshape(
        1, 32, 3
    )
    batch = batch._replace(
        old_mean=batch.old_mean + shift, contexts=contexts * np.ones((LANES, 1, 1))
    )
    values = 5 + np.sin(np.arange(32.0))
    batch = batch._replace(
        values=values * np.ones((LANES, 1)), alpha=np.full(LANES, 1e5)
    )
    _, update = run("proportion", batch)
    assert np.all(update.result == Result.CONVERGED)
    assert update.kl.max() < 1e-8


@pytest.mark.slow
def test_the_bound_rule_rewards_then_approaches_then_freezes_in_one_compiled_function():
    problem = make_problem(0, 3)
    old = Gaussian(
        jnp.asarray(problem.old_mean, jnp.float32),
        jnp.asarray(problem.old_chol, jnp.float32),
    )
    target = Gaussian(
        jnp.asarray(problem.target_mean, jnp.float32),
        jnp.asarray(problem.target_chol, jnp.float32),
    )
    contexts, mask = jnp.asarray(problem.contexts, jnp.float32), jnp.ones(32, bool)
    shape = jnp.sin(jnp.arange(32.0))
    shape -= shape.mean()

    @jax.jit
    @chex.assert_max_traces(1)
    def step(mean, reached, bound, max_kl):
        return update_context(
            old,
            target,
            contexts,
            mean + shape,
            mask,
            max_kl=max_kl,
            performance_bound=bound,
            reached=reached,
        )

    reached, modes, moved, closer = jnp.array(False), [], [], []
    for mean in (1.0, 4.0, 2.0, 4.0):
        new, update = step(
            jnp.float32(mean), reached, jnp.float32(3.5), jnp.float32(0.05)
        )
        reached = update.reached
        modes.append(int(update.mode))
        moved.append(bool(jnp.any(new.mean != old.mean)))
        closer.append(bool(kl_divergence(new, target) < kl_divergence(old, target)))
    step(jnp.float32(1.0), reached, jnp.float32(2.0), jnp.float32(0.01))
    assert modes == [Mode.REWARD, Mode.TARGET, Mode.FROZEN, Mode.TARGET]
    assert moved == [True, True, False, True]
    assert closer[1]
    assert closer[3]


@pytest.mark.slow
def test_thousands_of_lanes_finish():
    batch = jax.tree.map(
        lambda leaf: np.resize(leaf, (4096, *leaf.shape[1:])), problem_batch()
    )
    new, update = run("proportion", batch)
    assert np.all(update.result == Result.CONVERGED)
    assert np.all(np.isfinite(new.mean))


@pytest.mark.slow
def test_a_batch_equals_a_loop_over_single_updates():
    batch = jax.tree.map(lambda leaf: leaf[:13], problem_batch("float64"))
    together, _ = run("proportion", batch)
    for index in range(13):
        alone, _ = run(
            "proportion", jax.tree.map(lambda leaf: leaf[index : index + 1], batch)
        )
        width = np.abs(batch.old_chol[index]).max()
        np.testing.assert_allclose(
            together.mean[index], alone.mean[0], atol=1e-6 * width
        )
        np.testing.assert_allclose(
            together.chol[index], alone.chol[0], atol=1e-6 * width
        )


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
def test_a_scan_of_batched_updates_works_with_wide_types_on_and_off(x64):
    dtype = "float64" if x64 else "float32"
    batch = problem_batch(dtype)
    values = batch.values.copy()
    values[5, 0] = np.nan
    with jax.enable_x64(x64):
        batch = jax.tree.map(jnp.asarray, batch._replace(values=values))

        @jax.jit
        def twice(batch):
            def step(old, _):
                moved = batch._replace(old_mean=old.mean, old_chol=old.chol)
                return updater("proportion")(moved, jnp.zeros(LANES, bool))

            return jax.lax.scan(
                step, Gaussian(batch.old_mean, batch.old_chol), length=2
            )

        new, update = twice(batch)
        assert new.mean.dtype == dtype
        assert np.all(np.asarray(update.result)[:, 5] == Result.NOT_FINITE)
        assert np.all(np.isfinite(np.asarray(new.mean)))


@pytest.mark.slow
def test_from_the_initial_to_the_narrow_target_single_and_double_precision_agree(key):
    target_mean, target_std = np.array([2.5, 0.5, 0.0]), np.array([4e-3, 3.75e-3, 2e-3])
    noise = np.random.default_rng(0).normal(size=(120, 30, 3))

    def curriculum(dtype):
        old = Gaussian.from_std(
            np.array([2.0, 4.25, 2.0], dtype), np.array([2.0, 1.875, 1.0], dtype)
        )
        target = Gaussian.from_std(target_mean.astype(dtype), target_std.astype(dtype))

        def step(old, noise):
            contexts = old.mean[None] + noise @ old.chol.T
            values = 5 + jnp.tanh(contexts[:, 1] / 4 - jnp.abs(contexts[:, 0]) / 8)
            alpha = alpha_proportion(values.mean(), kl_divergence(old, target), 1.6)
            new, update = update_context(
                old,
                target,
                contexts,
                values,
                jnp.ones(30, bool),
                max_kl=jnp.asarray(0.05, dtype),
                alpha=alpha,
            )
            return new, (kl_divergence(new, target), update.result)

        return jax.jit(lambda noise: jax.lax.scan(step, old, noise)[1])(
            jnp.asarray(noise, dtype)
        )

    single_kl, single_result = (np.asarray(leaf) for leaf in curriculum(np.float32))
    with jax.enable_x64(True):
        double_kl, double_result = (np.asarray(leaf) for leaf in curriculum(np.float64))
    assert np.all(np.isfinite(single_kl))
    assert np.all(single_result == Result.CONVERGED)
    assert np.all(double_result == Result.CONVERGED)
    assert single_kl[-1] < 1e3
    first_single, first_double = np.argmax(single_kl < 1e3), np.argmax(double_kl < 1e3)
    assert abs(first_single - first_double) <= 0.1 * first_double
    np.testing.assert_allclose(single_kl[:20], double_kl[:20], rtol=1e-3)


@pytest.mark.slow
def test_calls_outside_of_jit_are_compiled_once_and_return_what_those_inside_do(
    monkeypatch,
):
    traced, run_once = [], context_update._run
    monkeypatch.setattr(
        context_update,
        "_run",
        lambda *arguments: traced.append(1) or run_once(*arguments),
    )
    old, target = (
        Gaussian.from_std([0.0, 1.0], [1.0, 2.0]),
        Gaussian.from_std([1.0, 0.0], [0.1, 0.2]),
    )
    contexts = old.mean[None] + jnp.asarray(
        np.random.default_rng(0).normal(size=(20, 2)), jnp.float32
    )

    def update(alpha):
        return update_context(
            old,
            target,
            contexts,
            -contexts[:, 0],
            jnp.ones(20, bool),
            alpha=alpha,
            max_kl=0.05,
        )[0]

    outside = [update(alpha) for alpha in (0.1, 0.2)]
    assert len(traced) == 1
    for alpha, new in zip((0.1, 0.2), outside, strict=True):
        chex.assert_trees_all_close(new, jax.jit(update)(alpha), rtol=1e-5)


def test_two_rules_at_once_or_unknown_options_are_refused():
    problem = make_problem(0, 3)
    old = Gaussian(jnp.asarray(problem.old_mean), jnp.asarray(problem.old_chol))
    samples = (
        jnp.asarray(problem.contexts),
        jnp.asarray(problem.values),
        jnp.asarray(problem.mask),
    )
    with pytest.raises(ValueError, match="either alpha"):
        update_context(old, old, *samples, max_kl=0.05)
    with pytest.raises(ValueError, match="either alpha"):
        update_context(
            old,
            old,
            *samples,
            max_kl=0.05,
            alpha=1.0,
            performance_bound=1.0,
            reached=False,
        )


def test_contexts_a_thousand_deviations_away_give_a_finite_feasible_result():
    batch = problem_batch()
    corner = np.broadcast_to(np.float32([-4.0, 0.5, 4.0]), batch.contexts.shape)
    new, update = run("proportion", batch._replace(contexts=corner))
    assert_feasible(batch, new, "proportion", "old-new")
    assert np.all(
        np.isin(
            update.result, [Result.CONVERGED, Result.ITERATION_LIMIT, Result.NOT_FINITE]
        )
    )
    assert np.all(np.isfinite(update.effective_sample_size))
