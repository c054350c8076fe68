"""What the self-paced teachers share: a Gaussian that moves at most once an iteration, by the newest episodes."""

import abc
import math
from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.checks import check_at_least
from spjax.contexts import ContextSpace, Gaussian, kl_divergence
from spjax.episodes import Episodes
from spjax.self_paced.context_update import ContextUpdate
from spjax.teachers.base import Teacher, Value
from spjax.teachers.buffer import EpisodeBuffer, add, clear, init_buffer, masked_mean
from spjax.teachers.target import check_gaussian


@struct.dataclass
class GaussianCurriculum(Teacher):
    """Settings of every self-paced teacher. Static fields shape the program, the others are traced."""

    target_mean: tuple[float, ...]  # mu, context units
    target_std: tuple[float, ...]
    initial_mean: tuple[float, ...]
    initial_std: tuple[float, ...]
    value_source: Literal["critic", "return"] = struct.field(pytree_node=False, default="critic")  # V of a context
    buffer_size: int = struct.field(pytree_node=False, default=256)  # newest episodes that one update may use
    sliding_window: bool = struct.field(pytree_node=False, default=False)  # False: only episodes since the last update
    warmup: int = 5  # K_offset, iterations before the first update
    performance_bound: float = 3.5  # V_LB, discounted return; not used by the schedule "proportion"
    max_kl: float = 0.05  # epsilon, nats an update
    std_floor: tuple[float, ...] | None = None  # sigma_LB on the Cholesky diagonal, context units; None for no floor
    floor_kl: float = 8000.0  # D_KL_LB, nats: the floor holds while KL(current || target) is above

    def init(self, key: Array, space: ContextSpace, observation_size: int) -> "CurriculumState":
        """Returns the initial distribution and an empty buffer."""
        return CurriculumState(
            distribution=self.initial,
            buffer=init_buffer(self.buffer_size, space.size, observation_size),
            iteration=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
            reached=jnp.asarray(False),
        )

    def sample(self, state: "CurriculumState", key: Array, space: ContextSpace) -> Float[Array, " dim"]:
        """Returns a context of the current distribution, clipped to the bounds."""
        return space.clip(state.distribution.sample(key))

    def update(
        self, state: "CurriculumState", key: Array, episodes: Episodes, value: Value
    ) -> tuple["CurriculumState", "CurriculumMetrics"]:
        """Returns the state with the next distribution; the distribution stays while nothing was seen or K_offset lasts."""
        buffer = add(state.buffer, episodes)
        due = (state.iteration >= self.warmup) & (buffer.count > 0)
        updates = state.updates + due
        distribution, record, alpha = self.move(state, self._evidence(state, buffer, due, updates, episodes, value))
        metrics = CurriculumMetrics(
            kl_to_target=kl_divergence(distribution, self.target),
            alpha=alpha,
            step_kl=record.kl,
            solver_result=record.result,
            solver_iterations=record.iterations,
            effective_sample_size=record.effective_sample_size,
            mode=record.mode,
            dropped_episodes=jnp.maximum(self._unused(buffer, episodes) - self.buffer_size, 0),
            context_mean=distribution.mean,
            context_chol=distribution.chol.reshape(-1),
        )
        state = CurriculumState(
            distribution=distribution,
            buffer=buffer if self.sliding_window else clear(buffer, due),
            iteration=state.iteration + 1,
            updates=updates,
            reached=record.reached,
        )
        return state, metrics

    @property
    @abc.abstractmethod
    def initial(self) -> Gaussian:
        """The distribution before any update."""

    @abc.abstractmethod
    def move(self, state: "CurriculumState", evidence: "Evidence") -> tuple[Gaussian, ContextUpdate, Float[Array, ""]]:
        """Returns the next distribution, exactly the current one where the mask is empty; the record; and alpha or NaN."""

    @property
    def target(self) -> Gaussian:
        """The target distribution mu."""
        return Gaussian.from_std(self.target_mean, self.target_std)

    def check(self, space: ContextSpace) -> None:
        """Checks distributions, floor and counts."""
        check_gaussian(space, "target", self.target_mean, self.target_std)
        check_gaussian(space, "initial", self.initial_mean, self.initial_std)
        floor = self.std_floor
        if floor is not None and (len(floor) != space.size or not all(0 <= std < math.inf for std in floor)):
            raise ValueError(f"teacher.std_floor needs {space.size} finite values of at least 0, got {floor}")
        if not math.isfinite(self.performance_bound):
            raise ValueError(f"teacher.performance_bound must be finite, got {self.performance_bound}")
        check_at_least("teacher", self, 1, "buffer_size")
        check_at_least("teacher", self, 0, "max_kl")
        check_at_least("teacher", self, 0, "warmup", infinite=True)

    def _unused(self, buffer: EpisodeBuffer, episodes: Episodes) -> Int[Array, ""]:
        """Returns how many episodes are new to this update."""
        return episodes.mask.sum() if self.sliding_window else buffer.count

    def _evidence(
        self,
        state: "CurriculumState",
        buffer: EpisodeBuffer,
        due: Bool[Array, ""],
        updates: Int[Array, ""],
        episodes: Episodes,
        value: Value,
    ) -> "Evidence":
        returns = buffer.discounted_return
        kl_to_target = kl_divergence(state.distribution, self.target)
        recent = masked_mean(episodes.discounted_return, episodes.mask)
        floor = jnp.zeros_like(state.distribution.mean)
        if self.std_floor is not None:
            floor = jnp.where(kl_to_target > self.floor_kl, jnp.asarray(self.std_floor), 0.0)
        return Evidence(
            contexts=buffer.context,
            values=value(buffer.first_observation) if self.value_source == "critic" else returns,
            mask=buffer.mask & due,
            mean_return=jnp.where(episodes.mask.any(), recent, masked_mean(returns, buffer.mask)),
            kl_to_target=kl_to_target,
            update=updates,
            std_floor=floor,
        )


@struct.dataclass
class Evidence:
    """What an update may use."""

    contexts: Float[Array, "capacity dim"]
    values: Float[Array, " capacity"]  # V of each context
    mask: Bool[Array, " capacity"]  # empty where no update is due
    mean_return: Float[Array, ""]  # of this iteration's episodes, else of those in the buffer; discounted
    kl_to_target: Float[Array, ""]  # KL(current || target), nats
    update: Int[Array, ""]  # its number, the first is 1; counts on where an update is due
    std_floor: Float[Array, " dim"]  # in force, context units; 0 for none


@struct.dataclass
class CurriculumState:
    """The curriculum's state."""

    distribution: Gaussian
    buffer: EpisodeBuffer
    iteration: Int[Array, ""]
    updates: Int[Array, ""]  # of the distribution so far
    reached: Bool[Array, ""]  # whether V_LB was ever reached


@struct.dataclass
class CurriculumMetrics:
    """Of one iteration."""

    kl_to_target: Float[Array, ""]  # KL(new || target), nats
    alpha: Float[Array, ""]  # NaN under the V_LB rule, which has none
    step_kl: Float[Array, ""]  # nats, in the constrained direction
    solver_result: Int[Array, ""]  # `Result`
    solver_iterations: Int[Array, ""]
    effective_sample_size: Float[Array, ""]  # episodes
    mode: Int[Array, ""]  # `Mode`
    dropped_episodes: Int[Array, ""]  # new ones that found no room in the buffer
    context_mean: Float[Array, " dim"]
    context_chol: Float[Array, " dim_squared"]  # row by row
