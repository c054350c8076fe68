"""What self-paced regularizers make of a loss, for several alpha: the transformed loss and the weight, which is its slope."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from spjax.analysis.style import MARK, NEUTRAL, styled
from spjax.analysis.text import setting_text

BINARY_LOOK: dict[str, Any] = {"linestyle": (0, (3, 2)), "linewidth": 1.2}
PLAIN_LOOK: dict[str, Any] = {"color": MARK, "linestyle": "dotted", "linewidth": 1.4}
LIGHTEST = 0.82  # of the colour scale; beyond it lines fade on white


class Curves(NamedTuple):
    """One regularizer at one alpha, at every loss of the axis."""

    loss: Float[np.ndarray, " point"]  # F_alpha(l)
    weight: Float[np.ndarray, " point"]  # nu*(alpha, l)


@styled
def regularizer_figure(
    losses: Float[np.ndarray, " point"],
    kl: Mapping[float, Curves],
    binary: Mapping[float, Curves],
) -> Figure:
    """Returns the transformed loss (left) and the weight (right) against the loss, a colour an alpha.

    Solid is f_KL, dashed f_Bin. The dots are at a loss of alpha, where the binary weight drops from 1 to 0 and the other has
    fallen to 1 / e. The dotted line is what both come to for alpha to infinity.

    Args:
        losses: increasing, from 0.
        kl: alpha -> the curves of f_KL for one sample with mu = 1; alphas increase.
        binary: the same alphas -> the curves of f_Bin.
    """
    figure = Figure(figsize=(10.4, 4.3), layout="constrained")
    left, right = figure.subplots(1, 2)
    colors = dict(
        zip(
            kl,
            matplotlib.colormaps["viridis"](np.linspace(0, LIGHTEST, len(kl))),
            strict=True,
        )
    )
    left.plot(losses, losses, **PLAIN_LOOK)
    right.plot(losses, np.ones_like(losses), **PLAIN_LOOK)
    for alpha in reversed(
        list(kl)
    ):  # where binary curves coincide, each shows as far as it alone goes
        for axes, smooth, capped in zip(
            (left, right), kl[alpha], binary[alpha], strict=True
        ):
            axes.plot(losses, capped, color=colors[alpha], **BINARY_LOOK)
            axes.plot(losses, smooth, color=colors[alpha])
            axes.plot(
                alpha,
                np.interp(alpha, losses, smooth),
                "o",
                color=colors[alpha],
                markersize=5.5,
            )
    _finish(
        left,
        losses,
        1.12 * max(kl),
        "transformed loss $F_\\alpha(l)$",
        "what a loss counts as: $\\alpha$ at most",
    )
    _finish(
        right,
        losses,
        1.08,
        "weight $\\nu^*(\\alpha, l)$",
        "its slope, the weight of the sample: 1/e at the dots",
    )
    handles = [
        Line2D([], [], color=colors[alpha], label=f"$\\alpha$ = {setting_text(alpha)}")
        for alpha in kl
    ]
    handles.append(Line2D([], [], label="$\\alpha \\to \\infty$", **PLAIN_LOOK))
    handles.append(Line2D([], [], color=NEUTRAL, label="$f_{\\mathrm{KL}}$"))
    handles.append(
        Line2D([], [], color=NEUTRAL, label="$f_{\\mathrm{Bin}}$", **BINARY_LOOK)
    )
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(handles),
        columnspacing=1.6,
    )
    return figure


def _finish(
    axes: Axes, losses: Float[np.ndarray, " point"], top: float, label: str, title: str
) -> None:
    axes.set_xlim(losses[0], losses[-1])
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.set_xlabel("loss $l$")
    axes.set_ylabel(label)
    axes.set_title(title, loc="left", color=NEUTRAL, fontsize=10)
