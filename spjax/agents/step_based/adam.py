"""Adam (Kingma and Ba, 2015), with its epsilon after or before the correction of the moments' bias.

With the moments m and v of t steps, m^ = m / (1 - beta_1^t) and v^ = v / (1 - beta_2^t), a step goes along

    after-correction     m^ / (sqrt(v^) + epsilon)                            Algorithm 1, optax and PyTorch
    before-correction    sqrt(1 - beta_2^t) m^ / (sqrt(v) + epsilon)          the end of Section 2, TensorFlow

which is one method with two meanings of epsilon: that of the second counts 1 / sqrt(1 - beta_2^t) times as much, 31.6 times at
the first step. The libraries behind the published experiments (Stable Baselines 2.9) have the second.
"""

from typing import Literal

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from spjax.promotion import lenient

BETA_1, BETA_2 = 0.9, 0.999

EpsilonPlace = Literal["after-correction", "before-correction"]


def adam(
    epsilon: float, place: EpsilonPlace = "after-correction"
) -> optax.GradientTransformation:
    """Returns the transformation from the gradient, as one vector, to the direction to descend by.

    Args:
        epsilon: the unit of a gradient.
        place: of epsilon, see the module.
    """
    of_optax = optax.scale_by_adam(BETA_1, BETA_2, epsilon)
    if place == "after-correction":
        return optax.GradientTransformation(of_optax.init, lenient()(of_optax.update))

    def update(
        gradient: Float[Array, " n"], state: PyTree, params: None = None
    ) -> tuple[Float[Array, " n"], optax.ScaleByAdamState]:
        count = state.count + 1
        mean = BETA_1 * state.mu + (1 - BETA_1) * gradient
        square = BETA_2 * state.nu + (1 - BETA_2) * gradient**2

        steps = count.astype(gradient.dtype)
        correction = jnp.sqrt(1 - BETA_2**steps) / (1 - BETA_1**steps)
        direction = correction * mean / (jnp.sqrt(square) + epsilon)
        return direction, optax.ScaleByAdamState(count, mean, square)

    return optax.GradientTransformation(of_optax.init, update)
