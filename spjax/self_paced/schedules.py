"""How much the target counts: the alpha schedule of Klink et al. (2021), Section 5."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

MIN_KL = 1e-10  # nats; as in the released code


def alpha_proportion(
    mean_return: Float[Array, ""], kl_to_target: Float[Array, ""], zeta: ArrayLike, cap: ArrayLike = 1e5
) -> Float[Array, ""]:
    """Returns alpha = min(cap, zeta max(0, mean return) / KL(old || target)), which is >= 0 and finite.

    The penalty alpha KL is then a proportion zeta of the return. A return that is not positive gives 0, so a failing agent is
    never pushed away from the target nor towards it; hence adding a constant to all rewards changes alpha, and rewards should
    be shifted so that doing nothing is worth zero or more. Differentiable; the derivatives are 0 where alpha is 0 or capped.

    Args:
        mean_return: mean discounted return of the episodes since the last update, raw reward scale.
        kl_to_target: KL(old || target), nats; values below 1e-10 count as 1e-10.
        zeta: the proportion.
        cap: largest alpha.
    """
    alpha = zeta * jnp.maximum(0.0, mean_return) / jnp.maximum(MIN_KL, kl_to_target)
    return jnp.minimum(alpha, cap)
