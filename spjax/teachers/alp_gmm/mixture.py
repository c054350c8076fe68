"""Gaussian mixtures with full covariances, fitted by expectation-maximisation as scikit-learn's ``GaussianMixture`` does it.

Models with 2, 3, ... components are fitted side by side, each from a k-means partition, and the one with the lowest Akaike
information criterion is kept: AIC = 2 parameters - 2 log-likelihood (Portelas et al., 2019). From the same partition, every
model takes the same number of iterations to the same mixture as in scikit-learn with its default settings. What differs: one
k-means++ sequence of centres serves all models (its first k for the model with k), a k-means cluster that runs empty keeps its
centre, and a component without rows sits at the mean of the rows instead of at zero, so identical rows fit without failure.

Expectation-maximisation is in double precision: a component on one or two rows has variances of `REG_COVAR`, far below what
single precision resolves in the squares of contexts.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.solvers.linalg import cholesky, solve_lower
from spjax.solvers.precision import in_float64

REG_COVAR = 1e-6  # added to the diagonal of every covariance, squared units of the rows
MIN_RELATIVE_VARIANCE = 1e-13  # added at least, in units of the rows' variance; binds where their std is above 3,000
TOLERANCE = 1e-3  # EM stops below this change of the mean log-likelihood, nats a row
MAX_ITERATIONS = 100  # of EM
MAX_ROUNDS = 100  # of k-means
CANDIDATES = 4  # of which k-means++ takes the best as next centre


@struct.dataclass
class Mixture:
    """Weighted Gaussians; absent components have weight 0. May have leading axes."""

    weights: Float[Array, " component"]  # sum to 1
    means: Float[Array, "component dim"]
    chols: Float[
        Array, "component dim dim"
    ]  # lower Cholesky factors of the covariances


@struct.dataclass
class Fit:
    """A mixture and how well it describes the rows that it was fitted to. May have leading axes."""

    mixture: Mixture
    log_likelihood: Float[Array, ""]  # mean over the rows, nats
    aic: Float[Array, ""]
    iterations: Int[Array, ""]  # of EM


def init_fit(max_components: int, dim: int) -> Fit:
    """Returns a finite place holder for a mixture that is still to be fitted."""
    zero = jnp.zeros(())
    mixture = Mixture(
        weights=jnp.zeros(max_components),
        means=jnp.zeros((max_components, dim)),
        chols=jnp.zeros((max_components, dim, dim)),
    )
    return Fit(
        mixture=mixture,
        log_likelihood=zero,
        aic=zero,
        iterations=jnp.zeros((), jnp.int32),
    )


def refit_where_due(
    key: Array,
    fit: Fit,
    rows: Float[Array, "row dim"],
    mask: Bool[Array, " row"],
    due: Bool[Array, ""],
) -> Fit:
    """Returns the fit to the masked rows where `due` holds, else `fit` with 0 iterations.

    The fit is the body of a loop of 0 or 1 trips, so a batch in which no lane is due does none of it; a lane that is not due
    among others that are holds no rows and converges at once.

    Args:
        key: of the k-means++ start.
        fit: the previous one; its number of components is the largest tried.
        rows: the sample.
        mask: which rows count, at least one where `due` holds.
        due: whether to fit.
    """
    draws = jax.random.uniform(key, (fit.mixture.weights.size, CANDIDATES))
    idle = dataclasses.replace(fit, iterations=jnp.zeros_like(fit.iterations))

    def refit(carry: tuple[Array, Fit]) -> tuple[Array, Fit]:
        pending, _ = (
            carry  # all the work depends on it, or XLA would move it out of the loop
        )
        return jnp.zeros_like(pending), fit_mixture(draws, rows, mask & pending)

    return jax.lax.while_loop(lambda carry: carry[0], refit, (due, idle))[1]


def fit_mixture(
    draws: Float[Array, "component candidate"],
    rows: Float[Array, "row dim"],
    mask: Bool[Array, " row"],
) -> Fit:
    """Returns the model with the lowest AIC, with at most as many components as there are rows of uniform `draws`."""
    rows = jnp.where(mask[:, None], rows, 0)
    fits = maximise_likelihood(partition(draws, rows, mask), rows, mask)
    best = jnp.argmin(fits.aic)
    return jax.tree.map(lambda leaf: leaf[best], fits)


def partition(
    draws: Float[Array, "component candidate"],
    rows: Float[Array, "row dim"],
    mask: Bool[Array, " row"],
) -> Float[Array, "model component row"]:
    """Returns the k-means clusters of the rows as responsibilities 0 or 1, for models with 2, 3, ... components.

    Lloyd's rounds go on until no row of any model changes its cluster.
    """
    seeds = _seed(draws, rows, mask)
    present = _present(seeds.shape[0])[:, :, None]
    components = jnp.arange(seeds.shape[0])[None, :, None]

    def assign(
        centres: Float[Array, "model component dim"],
    ) -> Float[Array, "model component row"]:
        distance = ((rows[None, None] - centres[:, :, None]) ** 2).sum(-1)
        nearest = jnp.argmin(
            jnp.where(present, distance, jnp.inf), axis=1, keepdims=True
        )
        return ((nearest == components) & mask[None, None]).astype(rows.dtype)

    def lloyd_round(
        carry: tuple[Array, Array, Array, Array],
    ) -> tuple[Array, Array, Array, Array]:
        count, _, centres, members = carry
        sizes = members.sum(-1, keepdims=True)
        centres = jnp.where(sizes > 0, members @ rows / jnp.maximum(sizes, 1), centres)
        moved = assign(centres)
        return count + 1, (moved != members).any(), centres, moved

    centres = jnp.broadcast_to(seeds, (present.shape[0], *seeds.shape))
    start = (jnp.zeros((), jnp.int32), jnp.asarray(True), centres, assign(centres))
    return jax.lax.while_loop(
        lambda carry: carry[1] & (carry[0] < MAX_ROUNDS), lloyd_round, start
    )[-1]


def maximise_likelihood(
    responsibilities: Float[Array, "model component row"],
    rows: Float[Array, "row dim"],
    mask: Bool[Array, " row"],
) -> Fit:
    """Returns the fits [model] that expectation-maximisation reaches from these responsibilities.

    The models have 2, 3, ... components in this order; responsibilities of masked rows and absent components are 0.
    """
    dtype = rows.dtype

    def in_double(responsibilities: Array, rows: Array, mask: Array) -> Fit:
        fits = _maximise_likelihood(
            responsibilities.astype(float), rows.astype(float), mask
        )
        return jax.tree.map(
            lambda leaf: (
                leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, float) else leaf
            ),
            fits,
        )

    return in_float64(in_double)(responsibilities, rows, mask)


def _maximise_likelihood(
    responsibilities: Float[Array, "model component row"],
    rows: Float[Array, "row dim"],
    mask: Bool[Array, " row"],
) -> Fit:
    count = jnp.maximum(mask.sum(), 1).astype(rows.dtype)
    centre = jnp.where(mask[:, None], rows, 0).sum(0) / count
    rows = jnp.where(mask[:, None], rows - centre[None], 0)
    present = _present(responsibilities.shape[1])
    moments = _Moments.of(rows, count)

    def step(carry: tuple[Fit, Array]) -> tuple[Fit, Array]:
        fit, active = carry
        densities, responsibilities = _expectation(fit.mixture, rows)
        log_likelihood = jnp.where(mask, densities, 0).sum(-1) / count
        mixture = _maximisation(jnp.where(mask, responsibilities, 0), moments, present)
        change = jnp.abs(log_likelihood - fit.log_likelihood)
        new = dataclasses.replace(
            fit,
            mixture=mixture,
            log_likelihood=log_likelihood,
            iterations=fit.iterations + 1,
        )
        fit = jax.tree.map(
            lambda a, b: jnp.where(active.reshape(-1, *[1] * (a.ndim - 1)), a, b),
            new,
            fit,
        )
        return fit, active & (change >= TOLERANCE) & (fit.iterations < MAX_ITERATIONS)

    never = jnp.full(present.shape[0], -jnp.inf, rows.dtype)
    start = Fit(
        mixture=_maximisation(responsibilities, moments, present),
        log_likelihood=never,
        aic=never,
        iterations=jnp.zeros(present.shape[0], jnp.int32),
    )
    fit, _ = jax.lax.while_loop(
        lambda carry: carry[1].any(), step, (start, jnp.ones(present.shape[0], bool))
    )
    densities, _ = _expectation(fit.mixture, rows)
    log_likelihood = jnp.where(mask, densities, 0).sum(-1)
    dim = rows.shape[1]
    parameters = present.sum(1) * (1 + dim + dim * (dim + 1) // 2) - 1
    return Fit(
        mixture=dataclasses.replace(
            fit.mixture, means=fit.mixture.means + centre[None, None]
        ),
        log_likelihood=log_likelihood / count,
        aic=2 * parameters.astype(rows.dtype) - 2 * log_likelihood,
        iterations=fit.iterations,
    )


@struct.dataclass
class _Moments:
    """What the maximisation needs of the rows, which have mean zero."""

    features: Float[
        Array, "row feature"
    ]  # 1, the row, and its outer product with itself
    count: Float[Array, ""]  # rows
    ridge: Float[Array, "dim dim"]  # added to every covariance

    @classmethod
    def of(cls, rows: Float[Array, "row dim"], count: Float[Array, ""]) -> "_Moments":
        outer = (rows[:, :, None] * rows[:, None, :]).reshape(rows.shape[0], -1)
        variance = (rows**2).sum(0) / count
        return cls(
            features=jnp.concatenate([jnp.ones_like(rows[:, :1]), rows, outer], axis=1),
            count=count,
            ridge=jnp.diag(jnp.maximum(REG_COVAR, MIN_RELATIVE_VARIANCE * variance)),
        )


def _expectation(
    mixture: Mixture, rows: Float[Array, "row dim"]
) -> tuple[Float[Array, "model row"], Float[Array, "model component row"]]:
    """Returns the log densities of the rows under each model, and the responsibilities of the components for them."""

    def log_joint(weight: Array, mean: Array, chol: Array) -> Float[Array, " row"]:
        whitened = solve_lower(chol, (rows - mean[None]).T)
        return (
            jnp.log(weight)
            - jnp.log(jnp.diagonal(chol)).sum()
            - 0.5 * (whitened**2).sum(0)
        )

    joint = jax.vmap(jax.vmap(log_joint))(mixture.weights, mixture.means, mixture.chols)
    largest = joint.max(1, keepdims=True)
    ratios = jnp.exp(joint - largest)
    total = ratios.sum(1, keepdims=True)
    densities = (jnp.log(total) + largest).squeeze(1) - 0.5 * rows.shape[1] * jnp.log(
        2 * jnp.pi
    )
    return densities, ratios / total


def _maximisation(
    responsibilities: Float[Array, "model component row"],
    moments: _Moments,
    present: Bool[Array, "model component"],
) -> Mixture:
    """Returns the mixtures with the largest expected log-likelihood."""
    dim = moments.ridge.shape[0]
    sums = responsibilities @ moments.features
    sizes = sums[..., :1] + 10 * jnp.finfo(sums.dtype).eps
    means = sums[..., 1 : 1 + dim] / sizes
    second = (sums[..., 1 + dim :] / sizes).reshape(*means.shape, dim)
    covariances = (
        second - means[..., :, None] * means[..., None, :] + moments.ridge[None, None]
    )
    chols, _ = jax.vmap(jax.vmap(cholesky))(
        covariances
    )  # positive definite thanks to the ridge
    weights = jnp.where(present, sizes.squeeze(-1), 0) / moments.count
    return Mixture(
        weights=weights / weights.sum(1, keepdims=True), means=means, chols=chols
    )


def _seed(
    draws: Float[Array, "component candidate"],
    rows: Float[Array, "row dim"],
    mask: Bool[Array, " row"],
) -> Float[Array, "component dim"]:
    """Returns the centres that k-means++ picks, one after another, each the best of several candidates."""

    def squared_distance(
        centres: Float[Array, "candidate dim"],
    ) -> Float[Array, "candidate row"]:
        return jnp.where(mask, ((rows[None] - centres[:, None]) ** 2).sum(-1), 0)

    def pick(
        chances: Float[Array, " row"], draws: Float[Array, " candidate"]
    ) -> Float[Array, "candidate dim"]:
        cumulative = jnp.cumsum(chances)
        return rows[
            jnp.argmax(cumulative[None] > draws[:, None] * cumulative[-1], axis=1)
        ]

    def add_centre(
        nearest: Float[Array, " row"], draws: Array
    ) -> tuple[Float[Array, " row"], Float[Array, " dim"]]:
        anywhere = mask.astype(rows.dtype)  # all rows coincide with a centre
        candidates = pick(jnp.where(nearest.any(), nearest, anywhere), draws)
        distance = jnp.minimum(nearest[None], squared_distance(candidates))
        best = jnp.argmin(distance.sum(1))
        return distance[best], candidates[best]

    first = pick(mask.astype(rows.dtype), draws[0, :1])
    _, others = jax.lax.scan(add_centre, squared_distance(first)[0], draws[1:])
    return jnp.concatenate([first, others])


def _present(max_components: int) -> Bool[Array, "model component"]:
    """Returns which components the models with 2, 3, ... of them have."""
    components = jnp.arange(max_components)
    return components[None] <= components[1:, None]
