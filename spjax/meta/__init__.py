"""Curricula as differentiable programs: gradients of what a curriculum comes to in its settings, and settings learned by them."""

from spjax.meta.fit import Fitted, fit
from spjax.meta.learners import Follower, Learner, Timed
from spjax.meta.unroll import (
    Surrogate,
    Trace,
    Unrolled,
    divergence_left,
    loss_and_gradient,
    performance_missed,
    performance_missed_on_the_way,
    unroll,
)

__all__ = [
    "Fitted",
    "Follower",
    "Learner",
    "Surrogate",
    "Timed",
    "Trace",
    "Unrolled",
    "divergence_left",
    "fit",
    "loss_and_gradient",
    "performance_missed",
    "performance_missed_on_the_way",
    "unroll",
]
