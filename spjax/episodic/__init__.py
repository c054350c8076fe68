"""Black-box learners of Klink et al. (2021), Section 5: the parameters of a controller, drawn anew for each rollout."""

from spjax.episodic.base import EpisodicLearner, Evaluation
from spjax.episodic.features import Polynomial, RadialBasis
from spjax.episodic.learners import CREPS, SPRL

__all__ = ["CREPS", "SPRL", "EpisodicLearner", "Evaluation", "Polynomial", "RadialBasis"]
