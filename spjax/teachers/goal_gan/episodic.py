"""GoalGAN for episodic learners: a GAN proposes the contexts of whole iterations, as in Klink et al. (2021), Section 6.2.

Of the n rollouts of an iteration int(0.2 n) replay contexts of the success buffer; the generator proposes int(0.4 of the rest)
contexts, each played twice, and the first of them two more times until n is full (100 rollouts: 20, 32 and 8; 50: 10, 16 and 4).
A proposed context gets label 1 if more than a tenth and less than nine tenths of its rollouts succeed; where all do it enters
the success buffer, if it is farther than 0.01 times the length of the diagonal of the bounds from all that are in it. Every
`train_every` iterations the GAN is trained on the labels of the last `history` iterations, unless none of them is 1. Before
the first iteration it learned to propose uniform contexts. The noise delta is added to proposed and to replayed contexts.

While the success buffer has fewer entries than are replayed, each is replayed once and uniform contexts, without noise, fill up;
else they are drawn with replacement.

What differs from the published implementation, or is not known of it. Replayed contexts are clipped to the bounds after noise was
added; there only proposed ones were. An odd rest is cut, so that n rollouts are exactly n (16 rollouts: 3, 5, and 2 of which
one is played three times; there they became 17). Trainings take place at the end of iterations train_every, 2 train_every,
... counted from 1. The success buffer has a fixed size; what finds no room is dropped and counted.
"""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int

from spjax.catalogue import part
from spjax.contexts import ContextSpace
from spjax.episodes import Episodes
from spjax.settings import setting
from spjax.teachers.base import Value
from spjax.teachers.goal_gan.base import Found, GANTeacher, GoalGANMetrics, remember
from spjax.teachers.goal_gan.gan import GANState, Losses
from spjax.teachers.goal_gan.goal_sets import Labelled, Successes

PRETRAIN_CONTEXTS = 10_000  # uniform
REPLAYED = 0.2  # of the rollouts
PROPOSED = 0.4  # contexts, of the rollouts that are left
NO_CONTEXT = -1  # the ticket of rollouts that are not in a proposed context


@part("teacher", "goal-gan-episodic")
@struct.dataclass
class EpisodicGoalGAN(GANTeacher):
    """Contexts of intermediate difficulty, for agents that run an iteration's rollouts at once."""

    collects = ("rollouts",)

    history: int = setting(
        10, static=True, least=1, unit="iterations", help="whose labels a training sees"
    )
    train_every: int = setting(
        5, least=1, unit="iterations", help="n_ROLLOUT, between trainings"
    )

    def init(self, key: Array, space: ContextSpace) -> "EpisodicGoalGANState":
        """Returns a GAN that proposes uniform contexts, and empty buffers."""
        key_networks, key_contexts, key_training = jax.random.split(key, 3)
        uniform = jax.vmap(space.sample_uniform)(
            jax.random.split(key_contexts, PRETRAIN_CONTEXTS)
        )
        return EpisodicGoalGANState(
            networks=self._pretrain(
                self._gan(space).init(key_networks), key_training, space, uniform
            ),
            labelled=Labelled.empty(self.label_capacity, space.size),
            collected=jnp.zeros(self.history, jnp.int32),
            successes=Successes.empty(self.success_capacity, space.size),
            iteration=jnp.zeros((), jnp.int32),
            space=space,
        )

    def sample(
        self, state: "EpisodicGoalGANState", key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns one proposed context, inside the bounds."""
        key_proposal, key_noise = jax.random.split(key)
        return self._blur(
            key_noise, space, self._propose(state.networks, key_proposal, space, 1)[0]
        )

    def batch(
        self, state: "EpisodicGoalGANState", key: Array, space: ContextSpace, count: int
    ) -> tuple[Float[Array, "count dim"], Int[Array, " count"]]:
        """Returns the contexts of an iteration and, as tickets, which proposed context each of them is.

        Raises:
            ValueError: fewer than 3 rollouts.
        """
        key_proposals, key_noise, key_replay = jax.random.split(key, 3)
        replayed, proposed, more = composition(count)
        proposals = self._blur(
            key_noise,
            space,
            self._propose(state.networks, key_proposals, space, proposed),
        )
        attempts = np.concatenate(
            [np.arange(proposed), np.arange(proposed), np.arange(more), np.arange(more)]
        )
        attempts = attempts[: count - replayed]
        tickets = jnp.concatenate(
            [jnp.full(replayed, NO_CONTEXT), jnp.asarray(attempts)]
        )
        contexts = jnp.concatenate(
            [
                self._replay(state.successes, key_replay, space, replayed),
                proposals[attempts],
            ]
        )
        return contexts, tickets.astype(jnp.int32)

    def update(
        self,
        state: "EpisodicGoalGANState",
        key: Array,
        episodes: Episodes,
        value: Value,
    ) -> tuple["EpisodicGoalGANState", GoalGANMetrics]:
        """Returns the state with the new labels and successes, after a training if one was due."""
        found = _found(episodes)
        place = state.iteration % self.history
        before = dataclasses.replace(
            state.labelled,
            used=jnp.maximum(state.labelled.used, state.collected[place]),
        )
        sets = remember(before, state.successes, state.space, found)
        iteration = state.iteration + 1
        useful = (iteration % self.train_every == 0) & sets.labelled.any_positive(
            sets.labelled.waiting
        )
        networks, losses = self._train(
            state, key, sets.labelled, jnp.where(useful, self.train_iterations, 0)
        )
        state = EpisodicGoalGANState(
            networks=networks,
            labelled=sets.labelled,
            collected=state.collected.at[place].set(sets.labelled.collected),
            successes=sets.successes,
            iteration=iteration,
            space=state.space,
        )
        return state, sets.metrics(found, useful.astype(jnp.int32), losses)

    def check_batch(self, count: int) -> None:
        """Checks that there are contexts to play twice, and room for their labels."""
        _, proposed, _ = composition(count)
        if self.history * proposed > self.label_capacity:
            raise ValueError(
                f"teacher.label_capacity must be at least {self.history * proposed} for the labels of {self.history} "
                f"iterations with {count} rollouts, got {self.label_capacity}"
            )

    def _replay(
        self, successes: Successes, key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns contexts of the success buffer with noise, and uniform ones in place of those that it lacks."""
        key_row, key_noise, key_uniform = jax.random.split(key, 3)
        number = jnp.arange(count)
        drawn = jax.random.randint(
            key_row, (count,), 0, jnp.maximum(successes.count, 1)
        )
        row = jnp.where(successes.count < count, number, drawn)
        replayed = self._blur(key_noise, space, successes.context[row])
        uniform = jax.vmap(space.sample_uniform)(jax.random.split(key_uniform, count))
        return jnp.where((number < successes.count)[:, None], replayed, uniform)

    def _train(
        self,
        state: "EpisodicGoalGANState",
        key: Array,
        labelled: Labelled,
        iterations: Int[Array, ""],
    ) -> tuple[GANState, Losses]:
        """Returns the networks after so many steps on all labels kept; nothing is computed for none."""
        return self._gan(state.space).train(
            state.networks,
            key,
            labelled.context,
            labelled.label,
            first=labelled.used,
            count=jnp.maximum(labelled.waiting, 1),
            iterations=iterations,
            learning_rate=self.learning_rate,
        )


@struct.dataclass
class EpisodicGoalGANState:
    """The curriculum's state."""

    networks: GANState
    labelled: Labelled  # those that are too old count as used
    collected: Int[
        Array, " history"
    ]  # labels so far after each of the last iterations; iteration n in place n modulo them
    successes: Successes
    iteration: Int[Array, ""]  # iterations completed
    space: ContextSpace = struct.field(pytree_node=False)


def composition(count: int) -> tuple[int, int, int]:
    """Returns how many contexts of an iteration are replayed, how many proposed, and how many of these played two more times.

    Raises:
        ValueError: fewer than 3 rollouts, in which no proposed context can be played twice.
    """
    if count < 3:
        raise ValueError(
            f"goal-gan-episodic needs at least 3 rollouts an iteration, got {count}; "
            "they are agent.num_samples, or agent.population_size of cma-es"
        )
    replayed = int(REPLAYED * count)
    proposed = int(PROPOSED * (count - replayed))
    return replayed, proposed, math.ceil((count - replayed - 2 * proposed) / 2)


def _found(episodes: Episodes) -> Found:
    """Returns the proposed contexts that were played, in the order of their tickets."""
    rows = episodes.mask.size
    number = jnp.where(
        episodes.mask & (episodes.ticket != NO_CONTEXT), episodes.ticket, rows
    )  # past the end: dropped

    def count(which: Array) -> Int[Array, " row"]:
        return (
            jnp.zeros(rows, jnp.int32)
            .at[number]
            .add(which.astype(jnp.int32), mode="drop")
        )

    rollouts = count(jnp.ones(rows))
    rate = count(episodes.success) / jnp.maximum(rollouts, 1)
    return Found(
        mask=rollouts > 0,
        context=jnp.zeros_like(episodes.context)
        .at[number]
        .set(episodes.context, mode="drop"),
        label=((rate > 0.1) & (rate < 0.9)).astype(float),
        mastered=rate == 1,
    )
