"""The least-squares GAN that proposes contexts in GoalGAN (Florensa et al., 2018, Section 4.2).

Generator: standard normal noise, as many numbers as the context has -> 256 -> 256 (ReLU) -> tanh. Discriminator: context ->
128 -> 128 (leaky ReLU, slope 0.1) -> one linear output. Glorot-uniform kernels, zero biases, no batch normalisation.

The optimiser is RMSProp as the published experiments ran it (TensorFlow 1, default arguments): decay 0.9, no momentum,
step = rate * gradient / sqrt(mean square + 1e-10) with the epsilon inside the root, and a mean square that starts at 1, not
at 0, so that the first steps of a new network are small. Its state is kept from one training to the next.
"""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import struct
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.agents.step_based.networks import Params

BATCH = 64  # labelled contexts, and as many generated ones
RMS_PROP = optax.scale_by_rms(decay=0.9, eps=1e-10, initial_scale=1.0, eps_in_sqrt=True)


@struct.dataclass
class GANState:
    """Both networks and the running mean squares of their gradients."""

    generator: Params
    discriminator: Params
    generator_rms: optax.ScaleByRmsState
    discriminator_rms: optax.ScaleByRmsState


@struct.dataclass
class Losses:
    """Of the last iteration of a training, 0 where there was none."""

    discriminator: Float[Array, ""]
    generator: Float[Array, ""]

    @classmethod
    def none(cls) -> "Losses":
        """Returns the losses of a training that never was."""
        return cls(discriminator=jnp.zeros(()), generator=jnp.zeros(()))


class Layers(nn.Module):
    """A network of leaky ReLU layers with a linear output; slope 0 makes them ReLU."""

    hidden: tuple[int, ...]
    outputs: int
    slope: float

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Returns the outputs [..., outputs] for inputs [..., features]."""
        for width in self.hidden:
            x = nn.leaky_relu(
                nn.Dense(width, kernel_init=nn.initializers.glorot_uniform())(x),
                self.slope,
            )
        return nn.Dense(self.outputs, kernel_init=nn.initializers.glorot_uniform())(x)


@dataclasses.dataclass(frozen=True)
class GAN:
    """The two networks, over scaled contexts; static and hashable."""

    size: int  # context dimensions
    generator_hidden: tuple[int, ...] = (256, 256)
    discriminator_hidden: tuple[int, ...] = (128, 128)

    def init(self, key: Array) -> GANState:
        """Returns untrained networks."""
        key_generator, key_discriminator = jax.random.split(key)
        generator = self._generator.init(key_generator, jnp.zeros(self.size))
        discriminator = self._discriminator.init(
            key_discriminator, jnp.zeros(self.size)
        )
        return GANState(
            generator=generator,
            discriminator=discriminator,
            generator_rms=RMS_PROP.init(generator),
            discriminator_rms=RMS_PROP.init(discriminator),
        )

    def generate(
        self, generator: Params, noise: Float[Array, "*batch size"]
    ) -> Float[Array, "*batch size"]:
        """Returns scaled contexts in (-1, 1); the bounds of the context space are -0.5 and 0.5."""
        output: PyTree = self._generator.apply(generator, noise)
        return jnp.tanh(output)

    def score(
        self, discriminator: Params, contexts: Float[Array, "*batch size"]
    ) -> Float[Array, "*batch"]:
        """Returns the discriminator's opinion: towards 1 for contexts of label 1, towards -1 for all others."""
        output: PyTree = self._discriminator.apply(discriminator, contexts)
        return output[..., 0]

    def discriminator_loss(
        self,
        discriminator: Params,
        contexts: Float[Array, "real size"],
        labels: Float[Array, " real"],
        mask: Bool[Array, " real"],
        generated: Float[Array, "fake size"],
    ) -> Float[Array, ""]:
        """Returns the mean of (2 y - 1 - D(x))^2 over the masked labelled contexts and the generated ones, whose y is 0."""
        fake = jnp.zeros(generated.shape[0])
        scores = self.score(discriminator, jnp.concatenate([contexts, generated]))
        targets = 2 * jnp.concatenate([labels, fake]) - 1
        weights = jnp.concatenate([mask, fake == 0]).astype(scores.dtype)
        return (weights * (targets - scores) ** 2).sum() / weights.sum()

    def generator_loss(
        self, discriminator: Params, generated: Float[Array, "fake size"]
    ) -> Float[Array, ""]:
        """Returns the mean of (D(x) - 1)^2 over generated contexts."""
        return ((self.score(discriminator, generated) - 1) ** 2).mean()

    def train(
        self,
        state: GANState,
        key: Array,
        contexts: Float[Array, "row size"],
        labels: Float[Array, " row"],
        first: int | Int[Array, ""],
        count: int | Int[Array, ""],
        iterations: int | Int[Array, ""],
        learning_rate: float | Float[Array, ""],
    ) -> tuple[GANState, Losses]:
        """Trains on `count` labelled contexts of a ring.

        An iteration is one step of the discriminator, then one of the generator on the same noise. Nothing is computed where
        `iterations` is 0, in a lane of a batch too.

        Args:
            state: both networks.
            key: for the generator's noise.
            contexts: scaled, a ring.
            labels: 1 for contexts of the right difficulty, else 0.
            first: number of the oldest context; context n lies in row n modulo the rows.
            count: number of contexts, at least 1.
            iterations: steps of each network.
            learning_rate: of both optimisers.

        Returns:
            the networks and their last losses.
        """

        def train_step(
            number: Array, carry: tuple[GANState, Losses]
        ) -> tuple[GANState, Losses]:
            row = (first + batch_rows(number, count)) % labels.size
            noise = jax.random.normal(
                jax.random.fold_in(key, number), (BATCH, self.size)
            )
            real = (contexts[row], labels[row], jnp.arange(BATCH) < count)
            return self._train_step(carry[0], noise, real, learning_rate)

        return jax.lax.fori_loop(0, iterations, train_step, (state, Losses.none()))

    def _train_step(
        self,
        state: GANState,
        noise: Float[Array, "fake size"],
        real: tuple[Array, Array, Array],
        learning_rate: float | Float[Array, ""],
    ) -> tuple[GANState, Losses]:
        """Returns the networks one step of each later; the generator runs once for both losses."""
        generated, pull_back = jax.vjp(
            lambda generator: self.generate(generator, noise), state.generator
        )
        discriminator_loss = jax.value_and_grad(self.discriminator_loss)
        loss, gradient = discriminator_loss(state.discriminator, *real, generated)
        discriminator, discriminator_rms = _descend(
            state.discriminator, gradient, state.discriminator_rms, learning_rate
        )
        generator_loss = jax.value_and_grad(self.generator_loss, argnums=1)
        loss_of_generator, gradient = generator_loss(discriminator, generated)
        generator, generator_rms = _descend(
            state.generator, pull_back(gradient)[0], state.generator_rms, learning_rate
        )
        state = GANState(generator, discriminator, generator_rms, discriminator_rms)
        return state, Losses(loss, loss_of_generator)

    @property
    def _generator(self) -> Layers:
        return Layers(self.generator_hidden, self.size, 0.0)

    @property
    def _discriminator(self) -> Layers:
        return Layers(self.discriminator_hidden, 1, 0.1)


def batch_rows(
    number: int | Int[Array, ""], count: int | Int[Array, ""]
) -> Int[Array, " batch"]:
    """Returns which of `count` contexts batch `number` holds.

    Batches of 64 run through the contexts in order and start over at the end. Where there are at most 64, every batch has
    all of them, and its rows past `count` do not count.
    """
    start = jnp.where(count > BATCH, number * BATCH, 0)
    return (start + jnp.arange(BATCH)) % count


def _descend(
    params: Params,
    gradient: Params,
    rms: optax.ScaleByRmsState,
    learning_rate: float | Float[Array, ""],
) -> tuple[Params, optax.ScaleByRmsState]:
    """Returns the parameters one RMSProp step later."""
    step, rms = RMS_PROP.update(gradient, rms)
    return jax.tree.map(
        lambda value, change: value - learning_rate * change, params, step
    ), rms
