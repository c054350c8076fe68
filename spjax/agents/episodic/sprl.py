"""SPRL: Klink et al. (2021), Section 5 and Algorithm "Self-Paced Episodic Reinforcement Learning".

An iteration draws contexts from the learner's own distribution p(c | nu), parameters from the policy and
rollouts from the task; the dual weighs the buffered samples, and the KL-regularised fit moves policy and contexts.

The published results differ from the printed text in the following; all of it can be set:

    alpha is zero for       K_alpha + 1 iterations (``offset``)         K_alpha iterations
    alpha is computed from  the whole buffer, KL by Monte Carlo         the new batch, KL in closed form (``alpha_from``)
    alpha is capped         yes (``max_alpha``)                         no
"""

from typing import Literal

import jax
import jax.numpy as jnp
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from spjax.agents.episodic.base import CurriculumMetrics, Data, EpisodicLearner, State
from spjax.agents.episodic.buffer import Batch
from spjax.agents.episodic.dual import Weights, sprl_weights
from spjax.agents.episodic.fit import Fit, Part, fit, raise_floor
from spjax.agents.episodic.policy import LinearGaussian
from spjax.checks import check_at_least
from spjax.contexts import ContextSpace, Gaussian, kl_divergence


def alpha_of(
    iteration: Int[Array, ""],
    mean_reward: Float[Array, ""],
    kl_to_target: Float[Array, ""],
    zeta: ArrayLike,
    offset: ArrayLike,
    cap: ArrayLike,
) -> Float[Array, ""]:
    """Returns 0 up to iteration K_alpha = offset, then min(cap, zeta |mean reward| / KL), or the cap where KL <= 0.

    As in the released code the absolute value is taken (alpha is never negative, but a failing learner with negative rewards is
    drawn to the target); rewards should be shifted so that doing nothing is worth zero or more.
    """
    positive = kl_to_target > 0
    proportion = zeta * jnp.abs(mean_reward) / jnp.where(positive, kl_to_target, 1.0)
    return jnp.where(iteration > offset, jnp.where(positive, jnp.minimum(proportion, cap), cap), 0.0)


@struct.dataclass
class SPRL(EpisodicLearner):
    """Self-paced episodic reinforcement learning."""

    kl_proportion: float = 0.02  # zeta
    offset: int = 140  # K_alpha: alpha is 0 in iterations 0, 1, ... K_alpha
    max_alpha: float = 1e6  # also alpha where KL(p || mu) is not positive
    std_floor: tuple[float, ...] = ()  # sigma_LB, context units; () for none
    floor_kl: float = 0.0  # D_KL_LB: the floor holds while KL(p || mu), before the update, is larger
    alpha_from: Literal["buffer", "batch"] = struct.field(pytree_node=False, default="buffer")  # batch: new rollouts

    _num_temperatures = 2

    def check(self) -> None:
        """Checks the settings, outside jit; see `EpisodicLearner.check`."""
        super().check()
        check_at_least("agent", self, 0, "kl_proportion", "offset", "max_alpha", "floor_kl")
        if not all(0 <= std < float("inf") for std in self.std_floor):
            raise ValueError(f"agent.std_floor needs finite values of at least 0, got {self.std_floor}")

    def check_contexts(self, space: ContextSpace) -> None:
        """Checks that the floor and all features are for contexts of this space."""
        super().check_contexts(space)
        if self.std_floor and len(self.std_floor) != space.size:
            raise ValueError(f"agent.std_floor needs {space.size} values, got {self.std_floor}")

    def _start(self, initial: Gaussian, target: Gaussian) -> Gaussian:
        return initial

    def _curriculum(self, metrics: CurriculumMetrics) -> CurriculumMetrics | None:
        return metrics

    def _schedule(
        self, state: State, samples: Batch, batch: Batch
    ) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, " dim"]]:
        if self.alpha_from == "buffer":
            mean_reward, kl = (
                samples.rewards.mean(),
                -_log_ratios(state.target, state.contexts, samples.contexts).mean(),
            )
        else:
            mean_reward, kl = batch.rewards.mean(), kl_divergence(state.contexts, state.target)
        alpha = alpha_of(state.iteration, mean_reward, kl, self.kl_proportion, self.offset, self.max_alpha)
        floor = jnp.asarray(self.std_floor) if self.std_floor else jnp.zeros_like(state.contexts.mean)
        return alpha, kl, jnp.where(kl > self.floor_kl, floor, 0.0)

    def _update(self, data: Data) -> tuple[LinearGaussian, Gaussian, Weights, Fit]:
        samples = data.samples
        weights = sprl_weights(
            samples.rewards,
            samples.features,
            _log_ratios(data.target, data.contexts, samples.contexts),
            alpha=data.alpha,
            max_kl=data.max_kl,
            ridge=data.ridge,
            start=data.minimiser,
        )
        constant = jnp.ones_like(samples.contexts[:, :1])
        policy_part = Part(data.policy, self.policy_features(samples.contexts), samples.thetas, weights.policy)
        context_part = Part(LinearGaussian.from_gaussian(data.contexts), constant, samples.contexts, weights.context)
        (policy, contexts), record = fit([policy_part, context_part], data.fit_max_kl)
        return policy, raise_floor(contexts.to_gaussian(), data.std_floor), weights, record


def _log_ratios(target: Gaussian, current: Gaussian, contexts: Float[Array, "N dim"]) -> Float[Array, " N"]:
    """Returns log mu(c) - log p(c), of the densities without regard to the bounds."""
    return jax.vmap(lambda context: target.log_prob(context) - current.log_prob(context))(contexts)
