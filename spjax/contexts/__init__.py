"""What a distribution over tasks is: the context space, the families of distributions over it, and their charts."""

from spjax.contexts.base import Components, ContextDistribution, Summary
from spjax.contexts.beta import Beta
from spjax.contexts.chart import Chart, KlDirection
from spjax.contexts.discrete import Discrete
from spjax.contexts.gaussian import Gaussian, kl_divergence
from spjax.contexts.mixture import Mixture
from spjax.contexts.parametric import Parametric
from spjax.contexts.product import DiscreteGaussian
from spjax.contexts.space import ContextSpace
from spjax.contexts.truncated import TruncatedGaussian

__all__ = [
    "Beta",
    "Chart",
    "Components",
    "ContextDistribution",
    "ContextSpace",
    "Discrete",
    "DiscreteGaussian",
    "Gaussian",
    "KlDirection",
    "Mixture",
    "Parametric",
    "Summary",
    "TruncatedGaussian",
    "kl_divergence",
]
