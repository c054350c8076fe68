"""Black-box learners of Klink et al. (2021), Section 6: the parameters of a controller, drawn anew for each rollout."""

from spjax.agents.episodic.base import EpisodicLearner
from spjax.agents.episodic.cma_es import CMAES
from spjax.agents.episodic.creps import CREPS
from spjax.agents.episodic.features import Polynomial, RadialBasis
from spjax.agents.episodic.promp import ProMP
from spjax.agents.episodic.sprl import SPRL

__all__ = [
    "CMAES",
    "CREPS",
    "SPRL",
    "EpisodicLearner",
    "Polynomial",
    "ProMP",
    "RadialBasis",
]
