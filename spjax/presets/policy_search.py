"""SPRL on the step-based point mass (Klink et al., 2021, Section 7.2 and the appendix "Experimental Details").

The script was never released; the constants below are printed. "published" assumes the conventions of the released episodic
code, as in `spjax.presets.gate`, where the printed text ("article") has others:

    alpha is zero for       K_alpha iterations          K_alpha + 1 iterations
    alpha is computed from  the new rollouts            the whole buffer

Both have the dynamics of the published step-based results. What the paper leaves open was chosen by the return on the target
after 800 units of 2,048 environment steps (2-D, 3-D; mean and standard error of 20 seeds, but 12 and 4 for "tanh"):

    output of the network   linear, clipped to the bounds of the force: 8.3 +- 0.3, 8.2 +- 0.3; tanh: 7.8 +- 0.5, 6.4 +- 0.8
    reward of a rollout     discounted, as in the figures; undiscounted: 8.6 +- 0.3, 8.3 +- 0.4, not significantly different
    cap of alpha            none; alpha is below 1 until the contexts are at the target
    bounds of the weights   none
    noise on the actions    none

The mean return passes 5 after 506 (3-D) and 401 units (2-D); the paper needs up to 800. An iteration has 25 rollouts, 1,000 steps
while most of them crash and 2,300 in the end; 800 units are 820 iterations on average, and 960 in the longest of these runs.
"""

from spjax.presets.table import Names, Settings

NUM_ITERATIONS = 1000
EVALUATE_EVERY = 10
K_ALPHA = 40
ZETA = {"point-mass-2d": 1.5, "point-mass-3d": 2.0}
STD_FLOOR = {
    "point-mass-2d": (0.2, 0.1875),
    "point-mass-3d": (0.2, 0.1875, 0.1),
}  # context units


def of_sprl(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    schedule: Settings = {
        "schedule.zeta": ZETA[names.task],
        "schedule.offset": K_ALPHA + (not names.article),
    }
    return {
        "agent": {
            "max_kl": 0.5,
            "fit_max_kl": 0.2,
            "num_samples": 25,
            "buffer_size": 10,
            "ridge_unit": "reward",
        },
        "teacher": {
            **(schedule if names.schedule in (None, "proportion") else {}),
            "std_floor": STD_FLOOR[names.task],
            "floor_kl": 8000.0,
            "alpha_from": "batch" if names.article else "buffer",
        },
        "run": {"num_iterations": NUM_ITERATIONS, "evaluate_every": EVALUATE_EVERY},
    }
