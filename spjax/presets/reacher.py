"""The reacher experiments (Klink et al., 2021, Section 6.2 and the appendix "Experimental Details").

The printed text ("article") differs from the published results in these points:

    least std of contexts   0.005                       sqrt(3e-5)
    alpha is zero for       K_alpha iterations          K_alpha + 1 iterations
    alpha is capped         no                          5
    alpha is computed from  the new rollouts            the whole buffer
    SAGG-RIAC               split at 80 samples,        split at 300,
                            interest over 300           interest over 80

CMA-ES learns at the mean of the target contexts, an iteration is a generation of 15, and it has as many rollouts as the
others. PPO is in `spjax.presets.reacher_step`.
"""

from typing import Any

from spjax.presets.table import Names, Settings, Table

NUM_ITERATIONS = 400
NUM_SAMPLES = 50  # rollouts an iteration
BUFFER_SIZE = 10  # iterations
MAX_KL = 0.5
ZETA = 0.15
K_ALPHA = 90
MAX_ALPHA = 5.0
VARIANCE_FLOOR = 3e-5  # m^2
ARTICLE_STD_FLOOR = 0.005  # m
FLOOR_KL = 20.0
CONTEXTS_LOWER, CONTEXTS_UPPER = (0.01, 0.01), (0.09, 0.09)  # m
LABELS = 256  # room for those of 10 iterations, 16 in each
MAX_GOALS = 300  # samples at which SAGG-RIAC splits a region
MAX_HISTORY = 80  # samples that a region's interest is computed from
EVALUATE_EVERY = 10  # iterations of NUM_SAMPLES rollouts
TOTAL = (NUM_ITERATIONS + BUFFER_SIZE - 1) * NUM_SAMPLES  # rollouts of each method


def settings(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    from spjax.agents.episodic.cma_es import population_size
    from spjax.envs.reacher import NUM_BASES

    evolves = names.agent == "cma-es"
    rollouts = population_size(2 * NUM_BASES) if evolves else NUM_SAMPLES
    return {
        "agent": _agent(names),
        "teacher": _teacher(names),
        "run": {
            "num_iterations": TOTAL // rollouts if evolves else NUM_ITERATIONS,
            "evaluate_every": EVALUATE_EVERY * NUM_SAMPLES // rollouts,
            "evaluation_episodes": NUM_SAMPLES,
        },
    }


def _agent(names: Names) -> Settings:
    if names.agent == "cma-es":
        return {}
    from spjax.agents.episodic.features import RadialBasis

    found: dict[str, Any] = {
        "max_kl": MAX_KL,
        "value_features": RadialBasis(
            CONTEXTS_LOWER, CONTEXTS_UPPER, (8, 8), (800.0, 800.0)
        ),
        "num_samples": NUM_SAMPLES,
        "buffer_size": BUFFER_SIZE,
        "ridge_unit": "reward",
    }
    if names.agent == "c-reps" and names.teacher != "default":
        found["mean_features_of"] = "buffer"
    return found


def _teacher(names: Names) -> Settings:
    if names.teacher == "self-paced-joint":
        schedule: Settings = {
            "schedule.zeta": ZETA,
            "schedule.offset": K_ALPHA + (not names.article),
            "schedule.max_alpha": 1e6 if names.article else MAX_ALPHA,
        }
        return {
            **(schedule if names.schedule in (None, "proportion") else {}),
            "alpha_from": "batch" if names.article else "buffer",
            "std_floor": ARTICLE_STD_FLOOR if names.article else VARIANCE_FLOOR**0.5,
            "floor_kl": FLOOR_KL,
        }
    if names.teacher == "goal-gan-episodic":
        return {
            "noise": 0.1,
            "label_capacity": LABELS,
            "pretrain_iterations": 2000,
            "train_every": 5,
        }
    if names.teacher == "sagg-riac":
        goals, history = MAX_GOALS, MAX_HISTORY
        if names.article:
            goals, history = history, goals
        return {"max_goals": goals, "max_history": history}
    return {}


TABLE = Table(
    agents={
        "sprl": ("self-paced-joint",),
        "c-reps": ("default", "goal-gan-episodic", "sagg-riac"),
        "cma-es": ("target-mean",),
    },
    settings=settings,
)
