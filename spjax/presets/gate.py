"""The gate experiments (Klink et al., 2021, Section 5 and the appendix "Experimental Details").

The printed text ("article") differs from the published results in these points:

    parameters              14                          16, two of them without effect
    alpha is zero for       K_alpha iterations          K_alpha + 1 iterations
    alpha is capped         no                          2.5 ("precision") or 1e6 ("global")
    alpha is computed from  the new rollouts            the whole buffer

The paper prints neither the cap nor the range of the value features' centres; in the "global" setting these span half-widths
up to 1.0, twice the bound, and both variants use that.
"""

from typing import Any, Literal

from spjax.envs.gate import Gate, Setting
from spjax.episodic import CREPS, SPRL, EpisodicLearner, RadialBasis

NUM_ITERATIONS = {"global": 600, "precision": 350}
MAX_KL = {"global": 0.25, "precision": 0.4}
ZETA = {"global": 0.002, "precision": 0.02}
K_ALPHA = 140
MAX_ALPHA = {"global": 1e6, "precision": 2.5}
WIDEST_CENTRE = {"global": 1.0, "precision": 0.5}  # upper end of the centres' range of half-widths, m


def gate(
    setting: Setting = "precision",
    method: Literal["sprl", "creps"] = "sprl",
    variant: Literal["published", "article"] = "published",
) -> tuple[EpisodicLearner, Gate]:
    """Returns learner and task of one experiment."""
    article = variant == "article"
    shared: dict[str, Any] = {
        "max_kl": MAX_KL[setting],
        "value_features": RadialBasis((-5.0, 0.1), (5.0, WIDEST_CENTRE[setting]), (10, 5), (0.6, 150.0)),
        "num_samples": 100,
        "buffer_size": 10,
        "ridge_unit": "reward",
    }
    task = Gate(setting, num_parameters=14 if article else 16)
    if method == "creps":
        return CREPS(**shared), task
    return SPRL(
        **shared,
        kl_proportion=ZETA[setting],
        offset=K_ALPHA - article,
        max_alpha=1e6 if article else MAX_ALPHA[setting],
        alpha_from="batch" if article else "buffer",
    ), task
