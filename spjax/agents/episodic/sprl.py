"""SPRL: Klink et al. (2021), Section 6 and Algorithm "Self-Paced Episodic Reinforcement Learning".

An iteration draws contexts from the teacher's distribution p(c | nu), parameters from the policy and rollouts from the task;
the dual weighs the buffered samples, and one KL-regularised fit moves policy and contexts. How much the target counts in it is
the teacher's to say: `spjax.teachers.self_paced_joint`.
"""

import dataclasses

import jax.numpy as jnp
from flax import struct

from spjax.agents.episodic.base import Data, EpisodicLearner
from spjax.agents.episodic.dual import Weights, sprl_weights
from spjax.agents.episodic.fit import Fit, Part, fit, raise_floor
from spjax.agents.episodic.policy import LinearGaussian
from spjax.catalogue import part
from spjax.contexts import Gaussian
from spjax.self_paced.joint import log_ratios


@part("agent", "sprl")
@struct.dataclass
class SPRL(EpisodicLearner):
    """Self-paced episodic reinforcement learning."""

    fits_contexts = True

    _num_temperatures = 2

    def _update(self, data: Data) -> tuple[LinearGaussian, Gaussian, Weights, Fit]:
        samples, contexts = data.samples, data.contexts
        if contexts is None:
            raise ValueError(
                "SPRL needs a teacher whose contexts are fitted together with the policy: self-paced-joint"
            )
        weights = sprl_weights(
            samples.rewards,
            samples.features,
            log_ratios(contexts.target, contexts.old, samples.contexts),
            alpha=contexts.alpha,
            max_kl=data.max_kl,
            ridge=data.ridge,
            start=data.minimiser,
        )
        constant = jnp.ones_like(samples.contexts[:, :1])
        policy_part = Part(
            data.policy,
            self.policy_features(samples.contexts),
            samples.thetas,
            weights.policy,
        )
        context_part = Part(
            LinearGaussian.from_gaussian(contexts.old),
            constant,
            samples.contexts,
            weights.context,
        )
        (policy, fitted), record = fit([policy_part, context_part], data.fit_max_kl)
        new = dataclasses.replace(
            contexts.old, mean=fitted.gain[:, 0], chol=fitted.chol
        )
        return policy, raise_floor(new, contexts.std_floor), weights, record
