"""The least-squares GAN that proposes contexts in GoalGAN (Florensa et al., 2018, Section 4.2 and Appendix A).

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
from jaxtyping import Array, Bool, Float, Int

from spjax.agents.networks import Params

BATCH = 64  # labelled contexts, and as many generated ones
RMS_PROP = optax.scale_by_rms(decay=0.9, eps=1e-10, initial_scale=1.0, eps_in_sqrt=True)


class Layers(nn.Module):
    """A network of leaky ReLU layers with a linear output; slope 0 makes them ReLU."""

    hidden: tuple[int, ...]
    outputs: int
    slope: float

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """Returns the outputs [..., outputs] for inputs [..., features]."""
        for width in self.hidden:
            x = nn.leaky_relu(nn.Dense(width, kernel_init=nn.initializers.glorot_uniform())(x), self.slope)
        return nn.Dense(self.outputs, kernel_init=nn.initializers.glorot_uniform())(x)


@struct.dataclass
class LSGANState:
    """Both networks and the running mean squares of their gradients."""

    generator: Params
    discriminator: Params
    generator_rms: optax.ScaleByRmsState
    discriminator_rms: optax.ScaleByRmsState


@dataclasses.dataclass(frozen=True)
class LSGAN:
    """The two networks, over scaled contexts; static and hashable."""

    size: int  # context dimensions
    generator_hidden: tuple[int, ...] = (256, 256)
    discriminator_hidden: tuple[int, ...] = (128, 128)

    def init(self, key: Array) -> LSGANState:
        """Returns untrained networks."""
        key_generator, key_discriminator = jax.random.split(key)
        generator = self._generator.init(key_generator, jnp.zeros(self.size))
        discriminator = self._discriminator.init(key_discriminator, jnp.zeros(self.size))
        return LSGANState(
            generator=generator,
            discriminator=discriminator,
            generator_rms=RMS_PROP.init(generator),
            discriminator_rms=RMS_PROP.init(discriminator),
        )

    def generate(self, generator: Params, noise: Float[Array, "*batch size"]) -> Float[Array, "*batch size"]:
        """Returns scaled contexts in (-1, 1); the bounds of the context space are -0.5 and 0.5."""
        return jnp.tanh(self._generator.apply(generator, noise))

    def score(self, discriminator: Params, contexts: Float[Array, "*batch size"]) -> Float[Array, "*batch"]:
        """Returns what the discriminator says: near 1 for contexts of positive label, near -1 for others and generated ones."""
        return self._discriminator.apply(discriminator, contexts)[..., 0]

    def discriminator_loss(
        self,
        discriminator: Params,
        contexts: Float[Array, "real size"],
        labels: Float[Array, " real"],
        mask: Bool[Array, " real"],
        generated: Float[Array, "fake size"],
    ) -> Float[Array, ""]:
        """Returns the mean of (2 y - 1 - D(x))^2 over the masked labelled contexts and the generated ones, whose y is 0."""
        scores = self.score(discriminator, jnp.concatenate([contexts, generated]))
        targets = jnp.concatenate([2 * labels - 1, jnp.full(generated.shape[0], -1.0)])
        weights = jnp.concatenate([mask, jnp.ones(generated.shape[0], bool)])
        return (weights * (targets - scores) ** 2).sum() / weights.sum()

    def generator_loss(self, discriminator: Params, generated: Float[Array, "fake size"]) -> Float[Array, ""]:
        """Returns the mean of (D(x) - 1)^2 over generated contexts."""
        return ((self.score(discriminator, generated) - 1) ** 2).mean()

    def train(
        self,
        state: LSGANState,
        key: Array,
        contexts: Float[Array, "row size"],
        labels: Float[Array, " row"],
        first: int | Int[Array, ""],
        count: int | Int[Array, ""],
        iterations: int | Int[Array, ""],
        learning_rate: float | Float[Array, ""],
    ) -> tuple[LSGANState, Float[Array, ""], Float[Array, ""]]:
        """Trains on `count` labelled contexts that start at row `first` and may run over the end of the arrays.

        One iteration is a step of the discriminator and then one of the generator on the same noise. It costs nothing
        where `iterations` is 0, in a batch of lanes too.

        Args:
            state: both networks.
            key: for the generator's noise.
            contexts: scaled, a ring.
            labels: 1 for contexts of the right difficulty, else 0.
            first: row of the oldest context.
            count: number of contexts, at least 1.
            iterations: how many times each network is updated.
            learning_rate: of both optimisers.

        Returns:
            the trained networks, and the discriminator's and the generator's last loss, NaN where `iterations` is 0.
        """

        def train_step(number: Array, carry: tuple[LSGANState, Array, Array]) -> tuple[LSGANState, Array, Array]:
            state, _, _ = carry
            row = batch_rows(number, count)
            at = (first + row) % labels.size
            noise = jax.random.normal(jax.random.fold_in(key, number), (BATCH, self.size))
            real = (contexts[at], labels[at], jnp.arange(BATCH) < count)
            return self._train_step(state, noise, *real, learning_rate)

        nan = jnp.full((), jnp.nan)
        return jax.lax.fori_loop(0, iterations, train_step, (state, nan, nan))

    def _train_step(
        self,
        state: LSGANState,
        noise: Float[Array, "fake size"],
        contexts: Float[Array, "real size"],
        labels: Float[Array, " real"],
        mask: Bool[Array, " real"],
        learning_rate: float | Float[Array, ""],
    ) -> tuple[LSGANState, Float[Array, ""], Float[Array, ""]]:
        generated, generator_pullback = jax.vjp(lambda generator: self.generate(generator, noise), state.generator)
        loss, gradient = jax.value_and_grad(self.discriminator_loss)(
            state.discriminator, contexts, labels, mask, generated
        )
        discriminator, discriminator_rms = _descend(
            state.discriminator, gradient, state.discriminator_rms, learning_rate
        )
        generator_loss, gradient = jax.value_and_grad(self.generator_loss, argnums=1)(discriminator, generated)
        (gradient,) = generator_pullback(gradient)
        generator, generator_rms = _descend(state.generator, gradient, state.generator_rms, learning_rate)
        return LSGANState(generator, discriminator, generator_rms, discriminator_rms), loss, generator_loss

    @property
    def _generator(self) -> Layers:
        return Layers(self.generator_hidden, self.size, 0.0)

    @property
    def _discriminator(self) -> Layers:
        return Layers(self.discriminator_hidden, 1, 0.1)


def batch_rows(number: int | Int[Array, ""], count: int | Int[Array, ""]) -> Int[Array, " batch"]:
    """Returns which of `count` contexts batch `number` holds.

    Batches of 64 run through the contexts in order and start over at the end. Where there are at most 64, every batch has
    all of them, and its rows past `count` do not count.
    """
    start = jnp.where(count > BATCH, number * BATCH, 0)
    return (start + jnp.arange(BATCH)) % count


def _descend(
    params: Params, gradient: Params, rms: optax.ScaleByRmsState, learning_rate: float | Float[Array, ""]
) -> tuple[Params, optax.ScaleByRmsState]:
    """Returns the parameters one RMSProp step later."""
    step, rms = RMS_PROP.update(gradient, rms)
    return jax.tree.map(lambda value, change: value - learning_rate * change, params, step), rms
