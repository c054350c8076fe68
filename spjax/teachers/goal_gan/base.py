"""What both forms of GoalGAN share, step-based and episodic: settings, networks, and how contexts become their data."""

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from spjax.contexts import ContextSpace
from spjax.episodes import Maybe
from spjax.settings import setting
from spjax.teachers.base import Teacher
from spjax.teachers.goal_gan.gan import GAN, GANState, Losses
from spjax.teachers.goal_gan.goal_sets import (
    Labelled,
    Successes,
    add_labelled,
    add_successes,
)

SUCCESS_DISTANCE = (
    0.01  # of the diagonal of the bounds, between entries of the success buffer
)


@struct.dataclass
class Found:
    """Contexts that the generator proposed and that were tried, in masked rows."""

    mask: Bool[Array, " row"]
    context: Float[Array, "row dim"]  # context units
    label: Float[Array, " row"]  # 1 at the right difficulty, else 0
    mastered: Bool[Array, " row"]  # for the success buffer


@struct.dataclass
class GANTeacher(Teacher):
    """Settings of both forms of the curriculum."""

    generator_hidden: tuple[int, ...] = setting(
        (256, 256), static=True, least=1, help="widths of the generator"
    )
    discriminator_hidden: tuple[int, ...] = setting(
        (128, 128), static=True, least=1, help="widths of the discriminator"
    )
    label_capacity: int = setting(
        2048,
        static=True,
        least=1,
        unit="contexts",
        help="labelled ones kept for trainings",
    )
    success_capacity: int = setting(
        4096, static=True, least=1, unit="contexts", help="in the success buffer"
    )
    noise: float = setting(
        0.1,
        least=0,
        help="delta_NOISE, added to contexts; standard deviation as a share of the bounds' width",
    )
    learning_rate: float = setting(1e-3, least=0, help="of both networks")
    train_iterations: int = setting(
        250, least=0, unit="steps", help="of each network in a training"
    )
    pretrain_iterations: int = setting(
        500, least=0, unit="steps", help="of each network before the first episode"
    )

    def _gan(self, space: ContextSpace) -> GAN:
        return GAN(space.size, self.generator_hidden, self.discriminator_hidden)

    def _propose(
        self, networks: GANState, key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns what the generator makes of independent noise, context units, not clipped."""
        latent = jax.random.normal(key, (count, space.size))
        return unscale(space, self._gan(space).generate(networks.generator, latent))

    def _blur(
        self, key: Array, space: ContextSpace, contexts: Float[Array, "*batch dim"]
    ) -> Float[Array, "*batch dim"]:
        """Returns the contexts with noise added, clipped to the bounds."""
        noise = lax.broadcast_to_rank(self.noise * width(space), contexts.ndim)
        return space.clip(contexts + noise * jax.random.normal(key, contexts.shape))

    def _pretrain(
        self,
        networks: GANState,
        key: Array,
        space: ContextSpace,
        contexts: Float[Array, "row dim"],
    ) -> GANState:
        """Returns the networks after a training on contexts inside the bounds that all have label 1."""
        count = contexts.shape[0]
        data = (scale(space, contexts), jnp.ones(count), 0, count)
        return self._gan(space).train(
            networks, key, *data, self.pretrain_iterations, self.learning_rate
        )[0]


@struct.dataclass
class GoalGANMetrics:
    """Of one iteration."""

    labelled: Int[Array, ""]  # contexts that got a label
    positive_fraction: Maybe  # of them, with label 1
    trainings: Int[Array, ""]  # of the GAN
    discriminator_loss: Maybe  # at the end of the last training
    generator_loss: Maybe
    successes: Int[Array, ""]  # in the success buffer
    dropped_successes: Int[Array, ""]  # found no room in it
    dropped_labels: Int[Array, ""]  # overwritten before a training used them


@struct.dataclass
class Sets:
    """Both memories after an iteration, and what found no room in them."""

    labelled: Labelled
    successes: Successes
    dropped_labels: Int[Array, ""]
    dropped_successes: Int[Array, ""]

    def metrics(
        self, found: Found, trainings: Int[Array, ""], losses: Losses
    ) -> GoalGANMetrics:
        """Returns the metrics of the iteration that found these contexts and trained that often."""
        return GoalGANMetrics(
            labelled=found.mask.sum(),
            positive_fraction=Maybe.mean(found.label, found.mask),
            trainings=trainings,
            discriminator_loss=Maybe.where(trainings > 0, losses.discriminator),
            generator_loss=Maybe.where(trainings > 0, losses.generator),
            successes=self.successes.count,
            dropped_successes=self.dropped_successes,
            dropped_labels=self.dropped_labels,
        )


def remember(
    labelled: Labelled, successes: Successes, space: ContextSpace, found: Found
) -> Sets:
    """Returns both memories with the contexts found in this iteration added in order."""
    labelled, dropped_labels = add_labelled(
        labelled, found.mask, scale(space, found.context), found.label
    )
    distance = SUCCESS_DISTANCE * jnp.linalg.norm(width(space))
    successes, dropped = add_successes(
        successes, found.mask & found.mastered, found.context, distance
    )
    return Sets(labelled, successes, dropped_labels, dropped)


def scale(
    space: ContextSpace, context: Float[Array, "*batch dim"]
) -> Float[Array, "*batch dim"]:
    """Returns contexts in the units of the GAN: the bounds become -0.5 and 0.5."""
    centre = lax.broadcast_to_rank(_centre(space), context.ndim)
    return (context - centre) / lax.broadcast_to_rank(width(space), context.ndim)


def unscale(
    space: ContextSpace, scaled: Float[Array, "*batch dim"]
) -> Float[Array, "*batch dim"]:
    """Returns contexts in their own units; inverse of `scale`."""
    centre = lax.broadcast_to_rank(_centre(space), scaled.ndim)
    return centre + scaled * lax.broadcast_to_rank(width(space), scaled.ndim)


def width(space: ContextSpace) -> Float[Array, " dim"]:
    """Returns the width of the bounds, context units."""
    return jnp.asarray(space.upper) - jnp.asarray(space.lower)


def _centre(space: ContextSpace) -> Float[Array, " dim"]:
    return (jnp.asarray(space.lower) + jnp.asarray(space.upper)) / 2
