"""The curriculum of SPRL (Klink et al., 2021, Section 6): its distribution is fitted together with the policy.

The agent weighs its samples for both, so this teacher says what the fit aims at (`problem`) and takes what came out. The
published results differ from the printed text in the following; all of it can be set:

    alpha is zero for       K_alpha + 1 iterations (``schedule.offset``)    K_alpha iterations
    alpha is computed from  the whole buffer, KL by Monte Carlo             the new batch, KL in closed form (``alpha_from``)
    alpha is capped         yes (``schedule.max_alpha``)                    no
"""

from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float, Int, PyTree

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian, kl_divergence
from spjax.episodes import ContextFit, Episodes
from spjax.self_paced.joint import JointAim, JointProblem, log_ratios
from spjax.self_paced.schedules import (
    Evidence,
    Proportion,
    Schedule,
    gives_alpha,
)
from spjax.settings import setting
from spjax.teachers.base import Teacher, Value
from spjax.teachers.moving import START_HELP, check_floor


@part("teacher", "self-paced-joint")
@struct.dataclass
class SelfPacedJoint(Teacher):
    """SPRL's contexts, which move with the policy from the initial distribution to the target."""

    collects = ("rollouts",)
    fits_contexts = True

    start: Literal["initial", "target"] = setting(
        "initial", static=True, help=START_HELP
    )
    schedule: Schedule = setting(
        Proportion(zeta=0.02, offset=141, max_alpha=1e6, negative_return="absolute"),
        help="alpha",
    )
    std_floor: float | tuple[float, ...] | None = setting(
        None,
        least=0,
        unit="context units",
        help="sigma_LB of the standard deviations; one number serves all dimensions",
    )
    floor_kl: float = setting(
        0.0,
        least=0,
        unit="nats",
        help="D_KL_LB: the floor holds while KL(p || mu) is above",
    )
    alpha_from: Literal["buffer", "batch"] = setting(
        "buffer", static=True, help="rollouts that alpha is computed from"
    )

    def init(self, key: Array, space: ContextSpace) -> "JointState":
        """Returns the initial distribution."""
        return JointState(
            distribution=self.starts_at,
            updates=jnp.zeros((), jnp.int32),
            memory=self.schedule.init(self.starts_at),
        )

    @property
    def starts_at(self) -> Gaussian:
        """The distribution before any update."""
        return _gaussian(super().starts_at if self.start == "initial" else self.aims_at)

    def sample(
        self, state: "JointState", key: Array, space: ContextSpace
    ) -> Float[Array, " dim"]:
        """Returns a context of the current distribution."""
        return state.distribution.sample(key, space)

    def sample_many(
        self, state: "JointState", key: Array, space: ContextSpace, count: int
    ) -> Float[Array, "count dim"]:
        """Returns contexts of the current distribution."""
        return state.distribution.sample_many(key, space, count)

    def problem(self, state: "JointState") -> JointProblem:
        """Returns what the joint fit of policy and contexts is about."""
        target = _gaussian(self.aims_at)

        def aim(
            buffered: Float[Array, "N dim"],
            rewards: Float[Array, " N"],
            new_rewards: Float[Array, " M"],
        ) -> JointAim:
            if self.alpha_from == "buffer":
                mean_reward = rewards.mean()
                kl = -log_ratios(target, state.distribution, buffered).mean()
            else:
                mean_reward, kl = (
                    new_rewards.mean(),
                    kl_divergence(state.distribution, target),
                )
            evidence = Evidence(
                contexts=buffered,
                values=rewards,
                mask=jnp.ones(len(rewards), bool),
                mean_return=mean_reward,
                kl_to_target=kl,
                update=state.updates + 1,
                distribution=state.distribution,
                target=target,
                memory=state.memory,
            )
            schedule_aim = self.schedule.aim(evidence)
            alpha = schedule_aim.alpha
            assert alpha is not None  # see `check`
            dim = state.distribution.mean.size
            floor = (
                jnp.zeros(dim)
                if self.std_floor is None
                else jnp.broadcast_to(jnp.asarray(self.std_floor), (dim,))
            )
            return JointAim(
                alpha=alpha,
                kl_to_target=kl,
                std_floor=jnp.where(kl > self.floor_kl, floor, 0.0),
                memory=schedule_aim.memory,
            )

        return JointProblem(old=state.distribution, target=target, aim=aim)

    def still(self, iteration: int, mean_return: float) -> str | None:
        """Returns what the schedule says of the update in the iteration."""
        return self.schedule.still(iteration, mean_return)

    def update(
        self, state: "JointState", key: Array, episodes: Episodes, value: Value
    ) -> tuple["JointState", "JointMetrics"]:
        """Returns the state with the distribution that the agent fitted."""
        fit = episodes.fit
        if not isinstance(fit, ContextFit):
            raise ValueError(
                "self-paced-joint needs an agent that fits the contexts together with its policy, such as sprl"
            )
        metrics = JointMetrics(
            alpha=fit.alpha,
            kl_to_target=fit.kl_to_target,
            context_mean=fit.distribution.mean,
            context_covariance=fit.distribution.covariance.reshape(-1),
        )
        state = JointState(
            distribution=fit.distribution, updates=state.updates + 1, memory=fit.memory
        )
        return state, metrics

    def check(self, space: ContextSpace) -> None:
        """Checks the distributions and the length of the floor."""
        super().check(space)
        check_floor(self.std_floor, space)
        _gaussian(self.starts_at)
        _gaussian(self.aims_at, "target")
        if not gives_alpha(self.schedule, self.starts_at, self.aims_at):
            raise ValueError(
                f"teacher.schedule must be one that gives alpha, such as proportion, got {self.schedule!r}"
            )


@struct.dataclass
class JointState:
    """The curriculum's state."""

    distribution: Gaussian
    updates: Int[Array, ""]  # so far
    memory: PyTree = ()  # of the schedule


@struct.dataclass
class JointMetrics:
    """Of one iteration."""

    alpha: Float[Array, ""]
    kl_to_target: Float[Array, ""]  # KL(p || mu) as alpha's rule takes it, nats
    context_mean: Float[Array, " dim"]  # of the new distribution, context units
    context_covariance: Float[Array, " dim_squared"]  # row by row


def _gaussian(distribution: object, which: str = "initial") -> Gaussian:
    if not isinstance(distribution, Gaussian):
        raise ValueError(
            f"self-paced-joint fits Gaussian distributions, got {type(distribution).__name__} for teacher.{which}"
        )
    return distribution
