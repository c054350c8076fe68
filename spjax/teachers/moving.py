"""What the self-paced teachers share: a distribution that moves at most once an iteration, by the newest episodes."""

import abc
import dataclasses
from typing import Any, Literal, Self

import jax
import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax import catalogue
from spjax.contexts import (
    Components,
    ContextDistribution,
    ContextSpace,
    KlDirection,
)
from spjax.envs.base import Env, Task
from spjax.episodes import Episodes, Maybe, masked_mean
from spjax.self_paced.context_update import ContextUpdate, update_context
from spjax.self_paced.schedules import Aim, Evidence
from spjax.self_paced.statement import Family
from spjax.settings import setting
from spjax.teachers.base import Teacher, Value
from spjax.teachers.buffer import EpisodeBuffer, add, clear, init_buffer

START_HELP = "distribution that contexts start from"


@struct.dataclass
class Moving(Teacher):
    """Settings of every teacher that moves a distribution step by step towards the target."""

    start: Literal["initial", "target"] = setting(
        "initial", static=True, help=START_HELP
    )
    value_source: Literal["critic", "return"] = setting(
        "critic", static=True, help="where the value V of a context comes from"
    )
    buffer_size: int = setting(
        256,
        static=True,
        least=1,
        unit="episodes",
        help="newest ones that one update may use",
    )
    sliding_window: bool = setting(
        False, static=True, help="keep episodes from before the last update"
    )
    warmup: int = setting(
        5,
        least=0,
        infinite=True,
        unit="iterations",
        help="K_offset, before the first update",
    )
    max_kl: float = setting(0.05, above=0, unit="nats", help="epsilon of an update")
    std_floor: float | tuple[float, ...] | None = setting(
        None,
        least=0,
        unit="context units",
        help="sigma_LB of the Cholesky diagonal; one number serves all dimensions",
    )
    floor_kl: float = setting(
        8000.0,
        unit="nats",
        infinite=True,
        help="D_KL_LB: the floor holds while KL(current || target) is above",
    )

    observation_size: int = struct.field(
        pytree_node=False, default=0
    )  # of the task that it is bound to

    def bound_to(self, task: Task) -> Self:
        """Returns the teacher with the distributions that were left open, and the size of the observations it keeps."""
        bound = super().bound_to(task)
        size = task.observation_size if isinstance(task, Env) else 0
        return dataclasses.replace(bound, observation_size=size)

    @property
    def fewest_episodes(self) -> ArrayLike:
        """How many new ones an update waits for."""
        return 1

    @property
    def starts_at(self) -> ContextDistribution:
        """The distribution before any update."""
        return super().starts_at if self.start == "initial" else self.aims_at

    def init(self, key: Array, space: ContextSpace) -> "MovingState":
        """Returns the initial distribution and an empty buffer."""
        return MovingState(
            distribution=self.starts_at,
            buffer=init_buffer(self.buffer_size, space.size, self.observation_size),
            iteration=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
            reached=jnp.asarray(False),
            memory=self.first_memory(),
        )

    def first_memory(self) -> PyTree:
        """Returns what is kept between updates beside the distribution, before the first; nothing by default."""
        return ()

    def sample(
        self, state: "MovingState", key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns a context of the current distribution."""
        return state.distribution.sample(key, space)

    def sample_many(
        self, state: "MovingState", key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns contexts of the current distribution."""
        return state.distribution.sample_many(key, space, count)

    def update(
        self, state: "MovingState", key: Array, episodes: Episodes, value: Value
    ) -> tuple["MovingState", "MovingMetrics"]:
        """Returns the state with the next distribution; it stays while nothing was seen or K_offset lasts."""
        buffer = add(state.buffer, episodes)
        due = (state.iteration >= self.warmup) & (buffer.count >= self.fewest_episodes)
        updates = state.updates + due.astype(jnp.int32)
        evidence = self._evidence(state, buffer, due, updates, episodes, value)
        evidence = dataclasses.replace(evidence, key=key)
        step = self.move(state, evidence)
        distribution, record = step.distribution, step.record
        summary = distribution.summary()
        metrics = MovingMetrics(
            kl_to_target=distribution.kl_to(self.aims_at),
            alpha=step.alpha,
            step_kl=record.kl,
            solver_result=record.result,
            solver_iterations=record.iterations,
            effective_sample_size=record.effective_sample_size,
            kl_price=record.kl_price,
            bound_price=record.bound_price,
            mode=record.mode,
            dropped_episodes=jnp.maximum(
                self._unused(buffer, episodes) - self.buffer_size, 0
            ),
            context_mean=summary.mean,
            context_covariance=summary.covariance.reshape(-1),
            learning_progress=step.learning_progress,
            components=distribution.mixed(),
        )
        state = MovingState(
            distribution=distribution,
            buffer=buffer if self.sliding_window else clear(buffer, due),
            iteration=state.iteration + 1,
            updates=updates,
            reached=record.reached,
            memory=jax.tree.map(
                lambda new, old: jnp.where(due, new, old), step.memory, state.memory
            ),
        )
        return state, metrics

    @abc.abstractmethod
    def move(self, state: "MovingState", evidence: Evidence) -> "Step":
        """Returns the next distribution, exactly the current one where the mask is empty, and how it came about."""

    def check(self, space: ContextSpace) -> None:
        """Checks the distributions, that they go together, and the length of the floor."""
        super().check(space)
        self.check_families(space)

    def check_families(self, space: ContextSpace) -> None:
        """Checks that initial and target distribution are of one family, and what that has of a floor."""
        check_floor(self.std_floor, space)
        if self.std_floor is not None and not self.starts_at.chart.has_floors:
            family = catalogue.name_of(self.starts_at)
            raise ValueError(
                f"teacher.std_floor is for gaussian contexts, {family} ones have no floors; set it to None"
            )
        try:
            self.starts_at.check_target(self.aims_at)
        except ValueError as problem:
            raise ValueError(
                f"teacher.initial and teacher.target do not go together: {problem}"
            ) from None

    def floor(self, evidence: Evidence, space_size: int) -> Float[Array, " dim"] | None:
        """Returns the lower bounds of the standard deviations that hold now, context units; 0 or None for none."""
        if self.std_floor is None:
            return None
        floor = jnp.broadcast_to(jnp.asarray(self.std_floor), (space_size,))
        return jnp.where(evidence.kl_to_target > self.floor_kl, floor, 0.0)

    def _unused(self, buffer: EpisodeBuffer, episodes: Episodes) -> Int[Array, ""]:
        """Returns how many episodes are new to this update."""
        return episodes.mask.sum() if self.sliding_window else buffer.count

    def _evidence(
        self,
        state: "MovingState",
        buffer: EpisodeBuffer,
        due: Bool[Array, ""],
        updates: Int[Array, ""],
        episodes: Episodes,
        value: Value,
    ) -> Evidence:
        returns = buffer.discounted_return
        recent = masked_mean(episodes.discounted_return, episodes.mask)
        return Evidence(
            contexts=buffer.context,
            values=value(buffer.first_observation)
            if self.value_source == "critic"
            else returns,
            mask=buffer.mask & due,
            mean_return=jnp.where(
                episodes.mask.any(), recent, masked_mean(returns, buffer.mask)
            ),
            kl_to_target=state.distribution.kl_to(self.aims_at),
            update=updates,
            distribution=state.distribution,
            target=self.aims_at,
            memory=state.memory,
            returns=returns,
            count=buffer.count,
        )


@struct.dataclass
class Step:
    """What an update came to."""

    distribution: ContextDistribution
    record: ContextUpdate
    alpha: Float[Array, ""] | None = None  # None under a rule that has none
    memory: PyTree = ()  # what is kept for the next update
    learning_progress: Maybe | None = None  # mean ALP; None where it plays no part


@struct.dataclass
class MovingState:
    """The curriculum's state."""

    distribution: ContextDistribution
    buffer: EpisodeBuffer
    iteration: Int[Array, ""]
    updates: Int[Array, ""]  # of the distribution so far
    reached: Bool[Array, ""]  # whether V_LB was ever reached
    memory: PyTree = ()  # of the schedule


@struct.dataclass
class MovingMetrics:
    """Of one iteration."""

    kl_to_target: Float[Array, ""]  # KL(new || target), nats
    alpha: Float[Array, ""] | None  # None under the V_LB rule, which has none
    step_kl: Float[Array, ""]  # nats, in the constrained direction
    solver_result: Int[Array, ""]  # `Result`
    solver_iterations: Int[Array, ""]
    effective_sample_size: Float[Array, ""]  # episodes
    kl_price: (
        Float[Array, ""] | None
    )  # what the update gains by more max_kl, a nat; None where none is known
    bound_price: Float[Array, ""] | None  # nats from the target by more V_LB, a unit
    mode: Int[Array, ""]  # `Mode`
    dropped_episodes: Int[Array, ""]  # new ones that found no room in the buffer
    context_mean: Float[Array, " dim"]
    context_covariance: Float[Array, " dim_squared"]  # row by row
    learning_progress: (
        Maybe | None
    )  # mean ALP of an update's episodes; None where it plays no part
    components: Components | None  # of a mixture, for pictures; None of other families


Samples = tuple[
    Float[Array, "row dim"], Float[Array, " row"], Bool[Array, " row"]
]  # contexts, values, mask


def solve_aim(
    aim: Aim,
    old: Family,
    target: Family,
    samples: Samples,
    reached: Bool[Array, ""],
    *,
    max_kl: ArrayLike,
    kl_direction: KlDirection,
    std_floor: Float[Array, " dim"] | None = None,
) -> tuple[Family, ContextUpdate, Float[Array, ""] | None]:
    """Returns the next distribution by what a schedule aims at, the record of the update, and alpha, None where there is none.

    Args:
        aim: of the schedule; with neither alpha nor a bound the distribution stays.
        old: the current distribution.
        target: mu, of the same family, where the aim has none of its own.
        samples: of the old distribution.
        reached: whether V_LB was reached before.
        max_kl: epsilon, nats.
        kl_direction: of the trust region.
        std_floor: as of `update_context`.
    """
    contexts, values, mask = samples
    bound, alpha = aim.performance_bound, aim.alpha
    if bound is None and alpha is None:
        alpha, mask = jnp.zeros(()), jnp.zeros_like(mask)
    approached: Any = target if aim.target is None else aim.target
    new, record = update_context(
        old,
        approached,
        contexts,
        values,
        mask,
        alpha=alpha,
        performance_bound=bound,
        reached=None if bound is None else reached,
        max_kl=max_kl,
        std_floor=std_floor,
        kl_direction=kl_direction,
    )
    return new, record, alpha


def check_floor(
    std_floor: float | tuple[float, ...] | None, space: ContextSpace
) -> None:
    """Raises ValueError where a floor of the standard deviations has the wrong length."""
    if isinstance(std_floor, tuple) and len(std_floor) != space.size:
        values = f"{space.size} value{'s' if space.size > 1 else ''} ({', '.join(space.names)})"
        raise ValueError(
            f"teacher.std_floor needs {values} or one for all, got {len(std_floor)}"
        )
