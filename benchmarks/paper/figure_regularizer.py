"""The figure of the regularizer: what F_KL makes of a loss for several alpha, and the weight, which is its slope.

Computed, not trained: there are no cells, no runs and no records, and what is written is always everything. The paper says
neither which alphas it took nor how far its axis goes. The binary regularizer is ours to add.
"""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.regularizers import Curves, regularizer_figure
from benchmarks.paper.records import Runs
from spjax.analysis.style import save
from spjax.self_paced.regularizers import BINARY, Regularizer, kl_regularizer

NAME = "figure-regularizer"
CELLS: list[Cell] = []
ALPHAS = (0.5, 1.0, 2.0, 4.0)
LARGEST_LOSS = 6.0
NUM_POINTS = 1201
CAPTION = """![F_KL and its slope against the loss, for several alpha](pictures/figure-regularizer/regularizer.png)

One sample of loss l, with mu = 1. Left, the loss as the regularised objective counts it: with f_KL (solid) it is
F(l) = alpha (1 - exp(-l / alpha)), which grows like l while l is well below alpha and never exceeds alpha; with f_Bin (dashed)
it is min(l, alpha). Right, its slope, which is the weight that self-paced learning gives the sample: exp(-l / alpha), and for
f_Bin 1 below alpha and 0 from there on. Dots are at l = alpha, where the smooth weight has fallen to 1 / e = 0.37. The larger
alpha, the more hard samples count.

As a distribution over samples, f_KL gives the same weights divided by their sum; f_Bin gives everything to the sample of
least loss, whatever alpha.
"""


def report(runs: Runs, results: Path) -> str:
    """Draws the picture, writes its caption, and returns it; ``runs`` is what other experiments have, and not used."""
    losses = jnp.linspace(0.0, LARGEST_LOSS, NUM_POINTS)
    kl, binary = (
        {alpha: _curves(regularizer, alpha, losses) for alpha in ALPHAS}
        for regularizer in (kl_regularizer(), BINARY)
    )
    save(
        regularizer_figure(np.asarray(losses), kl, binary),
        results / "pictures" / NAME / "regularizer.png",
    )
    (results / f"{NAME}.md").write_text(CAPTION, encoding="utf-8")
    return CAPTION


def _curves(
    regularizer: Regularizer, alpha: float, losses: Float[Array, " point"]
) -> Curves:
    return Curves(
        np.asarray(regularizer.loss(alpha, losses)),
        np.asarray(regularizer.weight(alpha, losses)),
    )
