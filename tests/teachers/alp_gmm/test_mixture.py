"""The Gaussian mixture against scikit-learn, and where scikit-learn fails."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from spjax.teachers.alp_gmm import mixture as mixture_module
from spjax.teachers.alp_gmm.mixture import (
    CANDIDATES,
    _seed,
    fit_mixture,
    init_fit,
    maximise_likelihood,
    partition,
    refit_where_due,
)

MAX_COMPONENTS = 10
CAPACITY = 250  # rows; one shape, so one compiled program


def blobs(spread):
    """Returns 120 rows around three corners of a shifted box, float32 as the fit sees them."""
    random = np.random.default_rng(3)
    corners = np.array([[100.0, -50.0, 5.0], [106.0, -49.0, 0.0], [101.0, -43.0, 2.0]])
    rows = corners[np.arange(120) % 3] + spread * random.normal(
        size=(120, 3)
    ) @ random.normal(size=(3, 3))
    return rows.astype(np.float32)


def few():
    """Returns 25 uniform rows: up to ten components share them, so some sit on one or two rows."""
    return (
        np.random.default_rng(5)
        .uniform([-4, 0.5, 0], [4, 8, 2], size=(25, 3))
        .astype(np.float32)
    )


DATA = {"separated": blobs(0.3), "overlapping": blobs(2.0), "few": few()}


def padded(rows, junk=0.0):
    """Returns the rows in an array of fixed size, and their mask."""
    full = np.full((CAPACITY, 3), junk, np.float32)
    full[: len(rows)] = rows
    return jnp.asarray(full), jnp.arange(CAPACITY) < len(rows)


def draws_of(key):
    return jax.random.uniform(key, (MAX_COMPONENTS, CANDIDATES))


@pytest.fixture(scope="module")
def fit():
    return jax.jit(fit_mixture)


@pytest.fixture(scope="module")
def start():
    return jax.jit(partition)


@pytest.fixture(scope="module")
def climb():
    return jax.jit(maximise_likelihood)


def reference(rows, responsibilities):
    """Returns scikit-learn's model from the mixture that the responsibilities imply."""
    rows = rows.astype(np.float64)
    size = responsibilities.sum(1)
    means = responsibilities @ rows / size[:, None]
    centred = rows - means[:, None]
    covariances = (
        np.einsum("kn,kni,knj->kij", responsibilities, centred, centred)
        / size[:, None, None]
    )
    model = GaussianMixture(
        len(size),
        weights_init=size / size.sum(),
        means_init=means,
        precisions_init=np.linalg.inv(covariances + 1e-6 * np.eye(rows.shape[1])),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows)


def test_every_row_is_as_likely_a_first_centre_and_the_farthest_one_is_the_second(key):
    rows = jnp.array([[7.0], [7.0], [7.0], [19.0]])
    draws = jax.random.uniform(key, (1000, 2, CANDIDATES))
    seeds = jax.vmap(lambda draws: _seed(draws, rows, jnp.ones(4, bool)))(draws)
    assert float((seeds[:, 0] == 19).mean(dtype=float)) == pytest.approx(0.25, abs=0.05)
    np.testing.assert_array_equal(seeds[:, 0] + seeds[:, 1], 26.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_every_model_converges_to_the_mixture_of_scikit_learn(name, start, climb, key):
    rows, mask = padded(DATA[name])
    responsibilities = start(draws_of(key), rows, mask)
    fits = climb(responsibilities, rows, mask)
    aic = []
    for model, k in enumerate(range(2, MAX_COMPONENTS + 1)):
        expected = reference(
            DATA[name], np.asarray(responsibilities[model, :k, : len(DATA[name])])
        )
        found = jax.tree.map(lambda leaf: np.asarray(leaf)[model], fits)
        assert found.iterations == expected.n_iter_
        np.testing.assert_allclose(
            found.log_likelihood, expected.score(DATA[name]), rtol=1e-4, atol=1e-4
        )
        np.testing.assert_allclose(
            found.aic, expected.aic(DATA[name]), rtol=1e-4, atol=1e-2
        )
        np.testing.assert_allclose(
            found.mixture.weights[:k], expected.weights_, atol=1e-4
        )
        np.testing.assert_array_equal(found.mixture.weights[k:], 0)
        np.testing.assert_allclose(
            found.mixture.means[:k], expected.means_, rtol=1e-5, atol=1e-4
        )
        covariances = found.mixture.chols[:k] @ found.mixture.chols[:k].swapaxes(1, 2)
        np.testing.assert_allclose(
            covariances, expected.covariances_, rtol=1e-4, atol=1e-5
        )
        aic.append(expected.aic(DATA[name]))
    assert int(np.argmin(fits.aic)) == int(np.argmin(aic))


def test_three_separated_clusters_are_found_and_no_more(fit, key):
    best = fit(draws_of(key), *padded(DATA["separated"]))
    present = np.asarray(best.mixture.weights) > 0
    order = np.argsort(np.asarray(best.mixture.means)[present, 0])
    np.testing.assert_allclose(
        np.asarray(best.mixture.weights)[present], 1 / 3, atol=1e-4
    )
    means = np.stack([DATA["separated"][offset::3].mean(0) for offset in (0, 2, 1)])
    np.testing.assert_allclose(
        np.asarray(best.mixture.means)[present][order], means, atol=1e-3
    )


def test_k_means_ends_where_every_row_is_nearest_to_the_mean_of_its_own_cluster(
    start, key
):
    rows, mask = padded(DATA["overlapping"])
    for members in np.asarray(start(draws_of(key), rows, mask)):
        members = members[members.any(1), :120]
        means = members @ DATA["overlapping"] / members.sum(1, keepdims=True)
        nearest = ((DATA["overlapping"] - means[:, None]) ** 2).sum(-1).argmin(0)
        np.testing.assert_array_equal(nearest, members.argmax(0))


def test_models_have_two_to_ten_clusters_that_share_out_the_rows(start, key):
    members = np.asarray(start(draws_of(key), *padded(DATA["few"])))
    assert members.any(2).sum(1).tolist() == list(range(2, MAX_COMPONENTS + 1))
    np.testing.assert_array_equal(members.sum(1)[:, :25], 1)
    np.testing.assert_array_equal(members[:, :, 25:], 0)


def test_the_first_centres_of_k_means_fall_into_different_clusters(key):
    draws = jax.random.uniform(key, (200, MAX_COMPONENTS, CANDIDATES))
    rows, mask = padded(DATA["separated"])
    seeds = np.asarray(
        jax.jit(jax.vmap(lambda d: mixture_module._seed(d, rows, mask)))(draws)
    )[:, :3]
    corners = np.stack([DATA["separated"][offset::3].mean(0) for offset in range(3)])
    clusters = ((seeds[:, :, None] - corners) ** 2).sum(-1).argmin(-1)
    different = np.mean([len(set(found)) == 3 for found in clusters.tolist()])
    assert different > 0.97  # 0.22 for three rows drawn at random


def test_rows_that_are_masked_have_no_effect(fit, key):
    draws = draws_of(key)
    plain = fit(draws, *padded(DATA["few"]))
    for junk in (1e6, np.nan):
        jax.tree.map(
            np.testing.assert_array_equal, plain, fit(draws, *padded(DATA["few"], junk))
        )


def test_250_identical_rows_give_that_row_and_nothing_non_finite(fit, key):
    row = np.array([2.5, 0.5, 0.0], np.float32)
    best = fit(draws_of(key), *padded(np.tile(row, (250, 1))))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(best))
    present = np.asarray(best.mixture.weights) > 0
    np.testing.assert_allclose(
        np.asarray(best.mixture.means)[present],
        np.tile(row, (present.sum(), 1)),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        np.asarray(best.mixture.chols)[present],
        np.tile(1e-3 * np.eye(3), (present.sum(), 1, 1)),
    )


def test_a_component_on_one_row_stays_positive_definite_among_values_of_a_million(
    fit, key
):
    rows = DATA["few"].copy()
    rows[:, 2] *= 1e6
    best = fit(draws_of(key), *padded(rows))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(best))
    least = (
        np.sqrt(mixture_module.MIN_RELATIVE_VARIANCE) * rows[:, 2].std()
    )  # 0.2, where the rounding of squares is 0.01
    narrowest = np.asarray(best.mixture.chols)[:, 2, 2][
        np.asarray(best.mixture.weights) > 0
    ].min()
    assert narrowest == pytest.approx(least, rel=0.01)


@pytest.fixture(scope="module")
def refit():
    """The gated fit over three lanes, and a list that grows by a name for every k-means start and EM iteration."""
    evaluations = []

    def counted(name):
        function = getattr(mixture_module, name)

        def run(*arguments):
            jax.debug.callback(lambda: evaluations.append(name))
            return function(*arguments)

        return run

    def run(*arguments):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("_seed", "_expectation"):
                patch.setattr(mixture_module, name, counted(name))
            return jax.vmap(refit_where_due)(*arguments)

    return jax.jit(run), evaluations


def lanes_of(names):
    """Returns [lane] rows and masks."""
    return [
        jnp.stack(leaves)
        for leaves in zip(*(padded(DATA[name]) for name in names), strict=True)
    ]


def blank_lanes(aic):
    """Returns three lanes without a mixture."""
    blank = init_fit(MAX_COMPONENTS, 3).replace(aic=jnp.float32(aic))
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), blank)


@pytest.mark.slow
def test_while_no_fit_is_due_nothing_is_evaluated_and_mixtures_stay_bit_identical(
    refit, key
):
    run, evaluations = refit
    key_due, key_idle = jax.random.split(key)
    lanes = lanes_of(["few", "overlapping", "separated"])
    evaluations.clear()
    old = run(jax.random.split(key_due, 3), blank_lanes(0.0), *lanes, jnp.ones(3, bool))
    jax.block_until_ready(old)
    jax.effects_barrier()
    assert evaluations.count("_expectation") > int(old.iterations.max()) > 1
    assert evaluations.count("_seed") > 0
    evaluations.clear()
    idle = run(jax.random.split(key_idle, 3), old, *lanes, jnp.zeros(3, bool))
    jax.block_until_ready(idle)
    jax.effects_barrier()
    assert evaluations == []
    assert idle.iterations.tolist() == [0, 0, 0]
    jax.tree.map(
        np.testing.assert_array_equal, idle, old.replace(iterations=idle.iterations)
    )


def test_a_lane_of_a_batch_is_fitted_as_alone_while_an_idle_one_keeps_its_mixture(
    refit, fit, key
):
    names = ["few", "overlapping", "separated"]
    keys = jax.random.split(key, 3)
    draws = jax.vmap(draws_of)(jax.random.clone(keys))
    batch = refit[0](
        keys, blank_lanes(7.0), *lanes_of(names), jnp.array([True, False, True])
    )
    for lane in (0, 2):
        alone = fit(draws[lane], *padded(DATA[names[lane]]))
        found = jax.tree.map(lambda leaf: leaf[lane], batch)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5),
            found,
            alone,
        )
    assert float(batch.aic[1]) == 7.0
    assert not batch.mixture.weights[1].any()
