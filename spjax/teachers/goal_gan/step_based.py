"""GoalGAN (Florensa et al., 2018): a GAN learns to propose contexts of intermediate difficulty.

As in the comparison of Klink et al. (2021): a context that the generator proposes is played twice in a row by the same slot
and gets label 1 if exactly one of the two attempts succeeds. Whenever `num_rollouts` contexts are labelled the GAN is trained
on just these, unless no label is 1. Contexts that succeed twice enter a success buffer if they are farther than 0.01 times the
length of the diagonal of the bounds (in context units, dimensions not scaled) from all that are in it; with probability
`success_fraction` the next context comes from there, is played once and gets no label.

Four things differ from the published implementation, which plays one episode at a time. A slot draws its next context from the
state at the start of the iteration, so a training takes effect, and a success is replayed, from the next iteration on. The
generator's contexts of an iteration come, with replacement, from 1024 that it makes at once. Contexts from the success buffer
are clipped to the bounds after noise was added; there only generated ones were. The success buffer has a fixed size; what finds
no room is dropped and counted.
"""

import dataclasses
import enum
from typing import Literal

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.catalogue import part
from spjax.contexts import ContextSpace
from spjax.episodes import Attempt, Episodes
from spjax.settings import setting
from spjax.teachers.base import Value
from spjax.teachers.goal_gan.base import Found, GANTeacher, GoalGANMetrics, remember
from spjax.teachers.goal_gan.gan import GANState, Losses
from spjax.teachers.goal_gan.goal_sets import Labelled, Successes

PRETRAIN_CONTEXTS = 1000  # drawn from the initial distribution
PROPOSALS = 1024  # generated at once for an iteration; the network in every step of the rollout costs far more


class Source(enum.IntEnum):
    """Where the context of an episode comes from."""

    BLANK = 0  # a slot that has not run yet
    GENERATOR = 1
    SUCCESSES = 2


@struct.dataclass
class GoalGANTicket:
    """What travels with an episode."""

    source: Int[Array, ""]  # `Source`
    attempt: Int[Array, ""]  # 1 or 2; contexts of the success buffer have only one
    first_success: Bool[Array, ""]  # of the first attempt, False during it


@part("teacher", "goal-gan")
@struct.dataclass
class GoalGAN(GANTeacher):
    """Contexts of intermediate difficulty, for agents that act step by step."""

    collects = ("slots",)

    start: Literal["initial", "target"] = setting(
        "initial",
        static=True,
        help="initial: pre-trained on the initial distribution; target: not pre-trained",
    )
    num_rollouts: int = setting(
        50, least=1, unit="contexts", help="n_ROLLOUT, labelled ones in each training"
    )
    success_fraction: float = setting(
        0.2,
        least=0,
        most=1,
        help="p_SUCCESS, chance of a context from the success buffer",
    )

    def init(self, key: Array, space: ContextSpace) -> "GoalGANState":
        """Returns a GAN that proposes contexts of the initial distribution where there is one, and empty buffers."""
        key_networks, key_contexts, key_training, key_proposals = jax.random.split(
            key, 4
        )
        networks = self._gan(space).init(key_networks)
        if self.start == "initial":
            contexts = self.starts_at.sample_many(
                key_contexts, space, PRETRAIN_CONTEXTS
            )
            networks = self._pretrain(networks, key_training, space, contexts)
        return GoalGANState(
            networks=networks,
            proposals=self._propose(networks, key_proposals, space, PROPOSALS),
            labelled=Labelled.empty(self.label_capacity, space.size),
            successes=Successes.empty(self.success_capacity, space.size),
            space=space,
        )

    def sample(
        self, state: "GoalGANState", key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns one context inside the bounds, new, never a second attempt."""
        return self._draw(state, key, space)[0]

    def ticket(self, space: ContextSpace) -> GoalGANTicket:
        """Returns the ticket of a slot that has not run yet."""
        zero = jnp.zeros((), jnp.int32)
        return GoalGANTicket(
            source=zero + Source.BLANK, attempt=zero, first_success=jnp.asarray(False)
        )

    def assign(
        self, state: "GoalGANState", key: Array, space: ContextSpace, last: Attempt
    ) -> tuple[Float[Array, " dim"], GoalGANTicket]:
        """Returns the same context again after the first attempt at a generated one, else a new one."""
        context, source = self._draw(state, key, space)
        again = (last.ticket.source == Source.GENERATOR) & (last.ticket.attempt == 1)
        ticket = GoalGANTicket(
            source=jnp.where(again, last.ticket.source, source),
            attempt=jnp.where(again, 2, 1).astype(jnp.int32),
            first_success=again & last.success,
        )
        return jnp.where(again, last.context, context), ticket

    def update(
        self, state: "GoalGANState", key: Array, episodes: Episodes, value: Value
    ) -> tuple["GoalGANState", "GoalGANMetrics"]:
        """Returns the state with the new labels and successes, after as many trainings as the labels suffice for."""
        key_training, key_proposals = jax.random.split(key)
        ticket = episodes.ticket
        twice = (
            episodes.mask & (ticket.source == Source.GENERATOR) & (ticket.attempt == 2)
        )
        found = Found(
            mask=twice,
            context=episodes.context,
            label=(ticket.first_success ^ episodes.success).astype(float),
            mastered=ticket.first_success & episodes.success,
        )
        sets = remember(state.labelled, state.successes, state.space, found)
        networks, labelled, trainings, losses = self._train(
            state, key_training, sets.labelled
        )
        proposals = self._propose(networks, key_proposals, state.space, PROPOSALS)
        state = GoalGANState(networks, proposals, labelled, sets.successes, state.space)
        return state, sets.metrics(found, trainings, losses)

    def check(self, space: ContextSpace) -> None:
        """Checks that a training finds room."""
        super().check(space)
        if self.num_rollouts > self.label_capacity:
            raise ValueError(
                f"teacher.num_rollouts must be at most label_capacity = {self.label_capacity}, got {self.num_rollouts}"
            )

    def _draw(
        self, state: "GoalGANState", key: Array, space: ContextSpace
    ) -> tuple[Float[Array, " dim"], Int[Array, ""]]:
        """Returns one new context and its source."""
        key_source, key_row, key_noise = jax.random.split(key, 3)
        successes = state.successes
        replay = (successes.count > 0) & (
            jax.random.uniform(key_source) < self.success_fraction
        )
        row = jax.random.randint(
            key_row, (), 0, jnp.where(replay, successes.count, PROPOSALS)
        )
        context = self._blur(
            key_noise,
            space,
            jnp.where(replay, successes.context[row], state.proposals[row]),
        )
        return context, jnp.where(replay, Source.SUCCESSES, Source.GENERATOR).astype(
            jnp.int32
        )

    def _train(
        self, state: "GoalGANState", key: Array, labelled: Labelled
    ) -> tuple[GANState, Labelled, Int[Array, ""], Losses]:
        """Trains on every complete set of `num_rollouts` labelled contexts in turn; sets without a label 1 are skipped."""
        gan = self._gan(state.space)

        def due(carry: tuple[GANState, Labelled, Array, Losses]) -> Bool[Array, ""]:
            return carry[1].waiting >= self.num_rollouts

        def training(
            carry: tuple[GANState, Labelled, Array, Losses],
        ) -> tuple[GANState, Labelled, Array, Losses]:
            networks, labelled, trainings, losses = carry
            useful = due(carry) & labelled.any_positive(
                self.num_rollouts
            )  # a batch runs idle lanes too
            networks, new = gan.train(
                networks,
                jax.random.fold_in(key, labelled.used),
                labelled.context,
                labelled.label,
                first=labelled.used,
                count=self.num_rollouts,
                iterations=jnp.where(useful, self.train_iterations, 0),
                learning_rate=self.learning_rate,
            )
            losses = jax.tree.map(lambda a, b: jnp.where(useful, a, b), new, losses)
            labelled = dataclasses.replace(
                labelled, used=labelled.used + self.num_rollouts
            )
            return networks, labelled, trainings + useful.astype(jnp.int32), losses

        start = (state.networks, labelled, jnp.zeros((), jnp.int32), Losses.none())
        return jax.lax.while_loop(due, training, start)


@struct.dataclass
class GoalGANState:
    """The curriculum's state."""

    networks: GANState
    proposals: Float[Array, "proposal dim"]  # of the generator, context units
    labelled: Labelled
    successes: Successes
    space: ContextSpace = struct.field(pytree_node=False)
