"""C-REPS: Klink et al. (2021), Section 6; contextual relative entropy policy search.

An iteration draws contexts from the teacher, parameters from the policy and rollouts from the task; the dual weighs the
buffered samples, and the KL-regularised fit moves the policy.
"""

from typing import Literal

from flax import struct

from spjax.agents.episodic.base import Data, EpisodicLearner
from spjax.agents.episodic.dual import Weights, creps_weights
from spjax.agents.episodic.fit import Fit, Part, fit
from spjax.agents.episodic.policy import LinearGaussian
from spjax.catalogue import part
from spjax.settings import setting


@part("agent", "c-reps")
@struct.dataclass
class CREPS(EpisodicLearner):
    """Contextual relative entropy policy search."""

    mean_features_of: Literal["target", "buffer"] = setting(
        "target", static=True, help="contexts of the value constraint"
    )

    _num_temperatures = 1

    def _update(self, data: Data) -> tuple[LinearGaussian, None, Weights, Fit]:
        samples = data.samples
        mean_features = (
            samples.features.mean(axis=0)
            if self.mean_features_of == "buffer"
            else data.mean_features
        )
        weights = creps_weights(
            samples.rewards,
            samples.features,
            mean_features,
            max_kl=data.max_kl,
            ridge=data.ridge,
            start=data.minimiser,
        )
        policy_part = Part(
            data.policy,
            self.policy_features(samples.contexts),
            samples.thetas,
            weights.policy,
        )
        (policy,), record = fit([policy_part], data.fit_max_kl)
        return policy, None, weights, record
