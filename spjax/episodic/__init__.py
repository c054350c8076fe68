"""Black-box learners of Klink et al. (2021), Section 5: the parameters of a controller, drawn anew for each rollout."""

from spjax.episodic.base import EpisodicLearner
from spjax.episodic.cma_es import CMAES
from spjax.episodic.features import Polynomial, RadialBasis
from spjax.episodic.learners import CREPS, SPRL
from spjax.episodic.promp import ProMP

__all__ = ["CMAES", "CREPS", "SPRL", "EpisodicLearner", "Polynomial", "ProMP", "RadialBasis"]
