"""What a distribution over tasks is: the context space and the Gaussian over it."""

from spjax.contexts.gaussian import Gaussian, kl_divergence
from spjax.contexts.space import ContextSpace

__all__ = ["ContextSpace", "Gaussian", "kl_divergence"]
