"""When a curriculum gets to the target, and which of its iterations are worth a panel."""

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from spjax.analysis import statistics
from spjax.runs.read import Curves, Group, Run

AT_TARGET = 1e-3  # nats; contexts that are nearer are at the target
NUM_PANELS = 6
KL_TO_TARGET = "teacher.kl_to_target"


def evaluated_distances(run: Run, group: Group) -> Curves:
    """Returns KL(p || target) [nats] of the evaluated iterations, which are kept of every run."""
    curves = run.metric_curves(KL_TO_TARGET, group)
    evaluated = np.isin(curves.iterations, run.evaluation["iteration"].to_numpy())
    return Curves(curves.iterations[evaluated], curves.values[:, evaluated])


def iterations_to_target(run: Run, group: Group) -> statistics.ThresholdCrossing:
    """Returns from when on the contexts of each seed were at the target, to the end.

    There KL(p || target) <= `AT_TARGET`, so contexts that start there, leave and come back arrive
    when they come back. Linearly interpolated between evaluated iterations.
    """
    distances = evaluated_distances(run, group)
    farthest = np.maximum.accumulate(distances.values[:, ::-1], axis=1)[
        :, ::-1
    ]  # from then on
    return statistics.iterations_to_threshold(
        distances.iterations, -farthest, -AT_TARGET
    )


def panel_iterations(run: Run) -> list[int]:
    """Returns up to six evaluated iterations: start, half way and arrival of a curriculum, and the end.

    The arrival is the median over the lanes. Where nothing says how far the target is, or half of
    the lanes never get there, they are evenly spaced.
    """
    evaluated = np.unique(run.evaluation["iteration"].to_numpy())
    end = evaluated[-1]
    arrived = end
    if run.has_metric(KL_TO_TARGET):
        lanes = Group({}, tuple(range(len(run.config.lanes))))
        arrived = np.median(iterations_to_target(run, lanes).iterations)

    if _nearest(evaluated, arrived) < end:
        places = np.append(np.linspace(0, arrived, NUM_PANELS - 1), end)
    else:
        places = np.linspace(0, end, NUM_PANELS)

    panels: list[int] = np.unique(_nearest(evaluated, places)).tolist()
    return panels


def _nearest(
    iterations: Int[np.ndarray, " point"], places: ArrayLike
) -> Int[np.ndarray, " *place"]:
    """Returns the iteration that is nearest to each place."""
    distances = np.abs(iterations - np.asarray(places)[..., None])
    return np.asarray(iterations[distances.argmin(axis=-1)])
