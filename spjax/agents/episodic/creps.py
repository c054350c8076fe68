"""C-REPS: Klink et al. (2021), Section 5; contextual relative entropy policy search.

An iteration draws contexts, from the target or from a teacher, parameters from the policy and rollouts from the task; the dual
weighs the buffered samples, and the KL-regularised fit moves the policy.
"""

from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Float

from spjax.agents.episodic.base import CurriculumMetrics, Data, EpisodicLearner, State
from spjax.agents.episodic.buffer import Batch
from spjax.agents.episodic.dual import Weights, creps_weights
from spjax.agents.episodic.fit import Fit, Part, fit
from spjax.agents.episodic.policy import LinearGaussian
from spjax.contexts import Gaussian


@struct.dataclass
class CREPS(EpisodicLearner):
    """Contextual relative entropy policy search: contexts from the target distribution or, with `learn`, from a teacher."""

    mean_features_of: Literal["target", "buffer"] = struct.field(pytree_node=False, default="target")

    _num_temperatures = 1

    def _start(self, initial: Gaussian, target: Gaussian) -> Gaussian:
        return target

    def _curriculum(self, metrics: CurriculumMetrics) -> CurriculumMetrics | None:
        return None

    def _schedule(
        self, state: State, samples: Batch, batch: Batch
    ) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, " dim"]]:
        zero = jnp.zeros_like(samples.rewards[0])
        return zero, zero, jnp.zeros_like(state.contexts.mean)

    def _update(self, data: Data) -> tuple[LinearGaussian, Gaussian, Weights, Fit]:
        samples = data.samples
        mean_features = samples.features.mean(axis=0) if self.mean_features_of == "buffer" else data.mean_features
        weights = creps_weights(
            samples.rewards,
            samples.features,
            mean_features,
            max_kl=data.max_kl,
            ridge=data.ridge,
            start=data.minimiser,
        )
        policy_part = Part(data.policy, self.policy_features(samples.contexts), samples.thetas, weights.policy)
        (policy,), record = fit([policy_part], data.fit_max_kl)
        return policy, data.contexts, weights, record
