"""DORAEMON, domain randomization via entropy maximization (Tiboni et al., ICLR 2024).

Contexts come from independent Beta distributions on the context space, narrow at first. An update widens them as far as
the agent keeps up: with the success s_i, 0 or 1, of the M episodes since the last one,

    maximise H(new)  subject to  KL(old || new) <= max_kl,  P(new) = mean_i [p_new(c_i) / p_old(c_i)] s_i >= success_rate.

Where P(old) is below the rate, the backup problem maximises P(new) within the trust region; where that reaches the rate, the
entropy is maximised from there. Since H(p) = log(volume) - KL(p || uniform), this is the bound rule of
`spjax.self_paced.context_update` with the uniform distribution for a target, success for a value and a backup.

From the released code are: KL(old || new), where its comments write KL(new || old); the start at Beta(100, 100) in the middle
of the space, where everything stays until the success rate is reached for the first time (``train_first``); a and b of at
least 1; a success rate of 0.5 in all experiments. What differs: the released a and b are at most 110 too; it updates after a
fixed number of environment steps, 75 times in a training, here an update waits for ``min_episodes``; its solver may return
a worse success rate by 1e-4, here all constraints hold after rounding. A context that a slot was given before an update may
finish after it, and counts as one of the new distribution.
"""

import dataclasses
from typing import Literal, Self

import jax
import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from spjax.catalogue import part
from spjax.contexts import Beta, ContextSpace
from spjax.envs.base import Task
from spjax.episodes import Episodes, Maybe, masked_mean
from spjax.self_paced.context_update import Mode, update_context
from spjax.self_paced.schedules import Evidence
from spjax.settings import setting
from spjax.teachers.base import Value
from spjax.teachers.moving import Moving, MovingMetrics, MovingState, Step


@part("teacher", "doraemon")
@struct.dataclass
class DORAEMON(Moving):
    """The widest Beta distribution that the agent succeeds in often enough."""

    success_rate: float = setting(
        0.5, above=0, most=1, unit="1", help="alpha, expected share of successes"
    )
    success_return: float | None = setting(
        None,
        unit="return",
        help="undiscounted return that makes an episode a success; None for the task's own success",
    )
    concentration: float = setting(
        100.0,
        static=True,
        least=1,
        unit="1",
        help="a and b of every dimension that contexts start from, where initial is None",
    )
    min_episodes: int = setting(
        100, least=1, unit="episodes", help="that an update waits for"
    )
    train_first: bool = setting(
        True,
        static=True,
        help="stay at the start until the success rate is reached for the first time",
    )
    kl_direction: Literal["old-new", "new-old"] = setting(
        "old-new",
        static=True,
        help="what max_kl constrains: KL(old || new) or KL(new || old)",
    )

    # settings of `Moving` that there is no choice of here
    start: Literal["initial", "target"] = struct.field(
        pytree_node=False, default="initial"
    )
    value_source: Literal["critic", "return"] = struct.field(
        pytree_node=False, default="return"
    )
    sliding_window: bool = struct.field(pytree_node=False, default=False)
    warmup: int = struct.field(pytree_node=False, default=0)
    std_floor: float | tuple[float, ...] | None = struct.field(
        pytree_node=False, default=None
    )
    floor_kl: float = struct.field(pytree_node=False, default=0.0)

    task_has_success: bool = struct.field(pytree_node=False, default=True)

    def bound_to(self, task: Task) -> Self:
        """Returns the teacher with Beta distributions on the task's context space where none were given."""
        space = task.context_space
        initial, target = self.initial, self.target
        if initial is None:
            initial = Beta.on(space, self.concentration, least=1.0)
        if target is None:
            target = Beta.on(space, least=1.0)
        chosen = dataclasses.replace(
            self,
            initial=initial,
            target=target,
            task_has_success=task.has_success,
        )
        return super(DORAEMON, chosen).bound_to(task)

    @property
    def fewest_episodes(self) -> ArrayLike:
        """How many new ones an update waits for."""
        return self.min_episodes

    def first_memory(self) -> "Promise":
        """Returns that nothing was promised yet."""
        return Promise.none()

    def update(
        self, state: MovingState, key: Array, episodes: Episodes, value: Value
    ) -> tuple[MovingState, "DoraemonMetrics"]:
        """Returns the state with the next distribution; what an episode is worth is its success."""
        judged = dataclasses.replace(
            episodes, discounted_return=self._succeeded(episodes).astype(float)
        )
        new, metrics = super().update(state, key, judged, value)
        updated = new.updates > state.updates
        promise: Promise = new.memory
        return new, DoraemonMetrics(
            **vars(metrics),
            observed_success=Maybe.where(updated, promise.observed),
            expected_success=Maybe.where(updated, promise.expected),
            constraint_kept=Maybe.where(
                updated & promise.due, promise.kept.astype(float)
            ),
        )

    def move(self, state: MovingState, evidence: Evidence) -> Step:
        """Returns the widest distribution that keeps the constraints, or the one that succeeds most."""
        observed = masked_mean(evidence.values, evidence.mask)
        begun = state.reached | (observed >= self.success_rate)
        mask = evidence.mask & (begun | (not self.train_first))
        new, record = update_context(
            state.distribution,
            self.aims_at,
            evidence.contexts,
            evidence.values,
            mask,
            performance_bound=self.success_rate,
            reached=state.reached,
            max_kl=self.max_kl,
            kl_direction=self.kl_direction,
            backup=True,
        )
        log_ratios = jax.vmap(
            lambda context: new.log_prob(context) - state.distribution.log_prob(context)
        )(evidence.contexts)
        weighted = jnp.where(evidence.mask, jnp.exp(log_ratios) * evidence.values, 0.0)
        promise = Promise(
            made=(record.mode == Mode.TARGET) | (record.mode == Mode.RESTORED),
            due=state.memory.made,
            expected=masked_mean(weighted, evidence.mask),
            observed=observed,
            kept=observed >= self.success_rate,
        )
        return Step(new, record, memory=promise)

    def check(self, space: ContextSpace) -> None:
        """Checks, beside the rest, that there is a success, that the distributions are Beta, and the number of episodes."""
        if self.success_return is None and not self.task_has_success:
            raise ValueError(
                "doraemon goes by success, which the task does not have; "
                "set teacher.success_return to the return that makes an episode a success"
            )
        for what in ("initial", "target"):
            distribution = getattr(self, what)
            if not isinstance(distribution, Beta | None):
                raise ValueError(
                    f"doraemon moves Beta distributions, got {type(distribution).__name__} for teacher.{what}"
                )
        super().check(space)
        if self.min_episodes > self.buffer_size:
            raise ValueError(
                f"teacher.min_episodes must be at most buffer_size = {self.buffer_size}, got {self.min_episodes}"
            )

    def _succeeded(self, episodes: Episodes) -> Bool[Array, " row"]:
        if self.success_return is None:
            return episodes.success
        return episodes.episode_return >= self.success_return


@struct.dataclass
class Promise:
    """What updates said of the success rate, and what came of it."""

    made: Bool[Array, ""]  # whether the last update kept the success rate
    due: Bool[Array, ""]  # whether the one before it had
    expected: Float[Array, ""]  # importance-weighted rate of the new distribution
    observed: Float[Array, ""]  # rate of the episodes, of the distribution before it
    kept: Bool[Array, ""]  # whether that is enough

    @classmethod
    def none(cls) -> "Promise":
        """Returns what there is before the first update."""
        no, zero = jnp.asarray(False), jnp.zeros(())
        return cls(made=no, due=no, expected=zero, observed=zero, kept=no)


@struct.dataclass
class DoraemonMetrics(MovingMetrics):
    """Of one iteration. What concerns success is there where an update was due."""

    observed_success: (
        Maybe  # share of successes among the episodes since the last update
    )
    expected_success: Maybe  # importance-weighted share, of the new distribution
    constraint_kept: (
        Maybe  # 1 where the observed share is what the last update kept, 0 where not
    )
