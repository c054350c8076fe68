"""What a distribution over tasks is: the context space, the families of distributions over it, and their charts."""

from spjax.contexts.base import ContextDistribution, Summary
from spjax.contexts.chart import Chart, KlDirection
from spjax.contexts.discrete import Discrete
from spjax.contexts.gaussian import Gaussian, kl_divergence
from spjax.contexts.parametric import Parametric
from spjax.contexts.space import ContextSpace

__all__ = [
    "Chart",
    "ContextDistribution",
    "ContextSpace",
    "Discrete",
    "Gaussian",
    "KlDirection",
    "Parametric",
    "Summary",
    "kl_divergence",
]
