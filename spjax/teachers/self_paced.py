"""Self-paced deep reinforcement learning, SPDL (Klink et al., 2021, Section 6 and Section 8.2).

Two schedules for how fast the context distribution may approach the target: "proportion" weighs the KL divergence to the
target by alpha = zeta * return / KL, zero for the first K_alpha updates; "bound" approaches the target as long as the
expected performance stays above V_LB. One update an iteration, from the episodes finished since the last one.

The published results count K_alpha differently from the paper (alpha is zero for the first K_alpha - 1 updates) and constrain
KL(old || new) where the paper prints KL(new || old); the presets come in both variants.
"""

from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Int

from spjax.agents.rollout import Episodes
from spjax.contexts import ContextSpace, Gaussian, kl_divergence
from spjax.self_paced.context_update import ContextUpdate, update_context
from spjax.self_paced.schedules import alpha_proportion
from spjax.teachers.base import Teacher, Value
from spjax.teachers.buffer import EpisodeBuffer, add, clear, init_buffer, masked_mean
from spjax.teachers.target import check_gaussian


@struct.dataclass
class SelfPaced(Teacher):
    """Settings of the curriculum. Static fields shape the program, the others are traced."""

    target_mean: tuple[float, ...]  # mu, context units
    target_std: tuple[float, ...]
    initial_mean: tuple[float, ...]
    initial_std: tuple[float, ...]
    schedule: Literal["proportion", "bound"] = struct.field(pytree_node=False, default="proportion")
    value_source: Literal["critic", "return"] = struct.field(pytree_node=False, default="critic")  # V of a context
    kl_direction: Literal["old-new", "new-old"] = struct.field(pytree_node=False, default="old-new")  # KL(old || new)
    buffer_size: int = struct.field(pytree_node=False, default=256)  # newest episodes that one update may use
    warmup: int = 5  # K_offset, iterations before the first update
    offset: int = 10  # K_alpha: alpha is 0 in the updates before this one; not used by "bound"
    kl_proportion: float = 1.6  # zeta; not used by "bound"
    performance_bound: float = 3.5  # V_LB, discounted return; not used by "proportion"
    max_kl: float = 0.05  # epsilon, nats an update
    std_floor: tuple[float, ...] | None = None  # sigma_LB on the Cholesky diagonal, context units; None for no floor
    floor_kl: float = 8000.0  # D_KL_LB, nats: the floor holds while KL(current || target) is above
    max_alpha: float = 1e5

    def init(self, key: Array, space: ContextSpace, observation_size: int) -> "SelfPacedState":
        """Returns the initial distribution and an empty buffer."""
        return SelfPacedState(
            distribution=Gaussian.from_std(self.initial_mean, self.initial_std),
            buffer=init_buffer(self.buffer_size, space.size, observation_size),
            iteration=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
            reached=jnp.asarray(False),
        )

    def sample(self, state: "SelfPacedState", key: Array, space: ContextSpace) -> Float[Array, " dim"]:
        """Returns a context of the current distribution, clipped to the bounds."""
        return space.clip(state.distribution.sample(key))

    def update(
        self, state: "SelfPacedState", key: Array, episodes: Episodes, value: Value
    ) -> tuple["SelfPacedState", "SelfPacedMetrics"]:
        """Returns the state with the next distribution; the distribution stays while nothing was seen or K_offset lasts."""
        buffer = add(state.buffer, episodes)
        due = (state.iteration >= self.warmup) & (buffer.count > 0)
        updates = state.updates + due
        kl_to_target = kl_divergence(state.distribution, self.target)
        recent = masked_mean(episodes.discounted_return, episodes.mask)
        mean_return = jnp.where(episodes.mask.any(), recent, masked_mean(buffer.discounted_return, buffer.mask))
        alpha = alpha_proportion(mean_return, kl_to_target, self.kl_proportion, self.max_alpha)
        alpha = jnp.where(due & (updates >= self.offset), alpha, 0.0)

        distribution, record = self._solve(state, buffer, buffer.mask & due, alpha, kl_to_target, value)
        metrics = SelfPacedMetrics(
            kl_to_target=kl_divergence(distribution, self.target),
            alpha=alpha if self.schedule == "proportion" else jnp.full_like(alpha, jnp.nan),
            step_kl=record.kl,
            solver_result=record.result,
            solver_iterations=record.iterations,
            effective_sample_size=record.effective_sample_size,
            mode=record.mode,
            dropped_episodes=jnp.maximum(buffer.count - self.buffer_size, 0),
            context_mean=distribution.mean,
            context_chol=distribution.chol.reshape(-1),
        )
        state = SelfPacedState(
            distribution=distribution,
            buffer=clear(buffer, due),
            iteration=state.iteration + 1,
            updates=updates,
            reached=record.reached,
        )
        return state, metrics

    @property
    def target(self) -> Gaussian:
        """The target distribution mu."""
        return Gaussian.from_std(self.target_mean, self.target_std)

    def check(self, space: ContextSpace) -> None:
        """Checks distributions, floor and counts."""
        check_gaussian(space, "target", self.target_mean, self.target_std)
        check_gaussian(space, "initial", self.initial_mean, self.initial_std)
        if self.std_floor is not None and (len(self.std_floor) != space.size or not min(self.std_floor) >= 0):
            raise ValueError(f"teacher.std_floor needs {space.size} values of at least 0, got {self.std_floor}")
        if self.buffer_size < 1:
            raise ValueError(f"teacher.buffer_size must be at least 1, got {self.buffer_size}")
        for field in ("max_kl", "kl_proportion", "max_alpha", "warmup", "offset"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"teacher.{field} must be at least 0, got {getattr(self, field)}")

    def _solve(
        self,
        state: "SelfPacedState",
        buffer: EpisodeBuffer,
        mask: Bool[Array, " capacity"],
        alpha: Float[Array, ""],
        kl_to_target: Float[Array, ""],
        value: Value,
    ) -> tuple[Gaussian, ContextUpdate]:
        """Returns the next distribution; exactly the current one where the mask is empty."""
        returns = buffer.discounted_return
        values = value(buffer.first_observation) if self.value_source == "critic" else returns
        floor = None
        if self.std_floor is not None:
            floor = jnp.where(kl_to_target > self.floor_kl, jnp.asarray(self.std_floor), 0.0)
        data = (state.distribution, self.target, buffer.context, values, mask)
        if self.schedule == "proportion":
            return update_context(
                *data, alpha=alpha, max_kl=self.max_kl, std_floor=floor, kl_direction=self.kl_direction
            )
        return update_context(
            *data,
            performance_bound=self.performance_bound,
            reached=state.reached,
            max_kl=self.max_kl,
            std_floor=floor,
            kl_direction=self.kl_direction,
        )


@struct.dataclass
class SelfPacedState:
    """The curriculum's state."""

    distribution: Gaussian
    buffer: EpisodeBuffer
    iteration: Int[Array, ""]
    updates: Int[Array, ""]  # of the distribution so far
    reached: Bool[Array, ""]  # whether V_LB was ever reached


@struct.dataclass
class SelfPacedMetrics:
    """Of one iteration."""

    kl_to_target: Float[Array, ""]  # KL(new || target), nats
    alpha: Float[Array, ""]  # NaN under "bound", which has none
    step_kl: Float[Array, ""]  # nats, in the constrained direction
    solver_result: Int[Array, ""]  # `Result`
    solver_iterations: Int[Array, ""]
    effective_sample_size: Float[Array, ""]  # episodes
    mode: Int[Array, ""]  # `Mode`
    dropped_episodes: Int[Array, ""]  # seen but no longer in the buffer
    context_mean: Float[Array, " dim"]
    context_chol: Float[Array, " dim_squared"]  # row by row
