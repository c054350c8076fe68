"""What a distribution over tasks is: the context space and the Gaussian over it."""

from spjax.contexts.base import ContextDistribution, Summary
from spjax.contexts.gaussian import Gaussian, kl_divergence
from spjax.contexts.space import ContextSpace

__all__ = ["ContextDistribution", "ContextSpace", "Summary", "Gaussian", "kl_divergence"]
