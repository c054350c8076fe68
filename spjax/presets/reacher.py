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

from spjax.presets import episodic
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
    from spjax.agents.episodic.features import RadialBasis
    from spjax.envs.reacher import NUM_BASES

    features = RadialBasis(CONTEXTS_LOWER, CONTEXTS_UPPER, (8, 8), (800.0, 800.0))
    length = episodic.run(
        names, 2 * NUM_BASES, NUM_ITERATIONS, NUM_SAMPLES, BUFFER_SIZE, EVALUATE_EVERY
    )
    return {
        "agent": episodic.learner(names, MAX_KL, NUM_SAMPLES, BUFFER_SIZE, features),
        "teacher": _teacher(names),
        "run": {**length, "evaluation_episodes": NUM_SAMPLES},
    }


def _teacher(names: Names) -> Settings:
    if names.teacher == "self-paced-joint":
        floor = ARTICLE_STD_FLOOR if names.article else VARIANCE_FLOOR**0.5
        schedule = episodic.self_paced(names, ZETA, K_ALPHA, MAX_ALPHA)
        return {**schedule, "std_floor": floor, "floor_kl": FLOOR_KL}
    if names.teacher == "goal-gan-episodic":
        return {
            "noise": 0.1,
            "label_capacity": LABELS,
            "pretrain_iterations": 2000,
            "train_every": 5,
        }
    if names.teacher == "sagg-riac":
        return episodic.sagg_riac(names, MAX_GOALS, MAX_HISTORY)
    return {}


TABLE = Table(agents=episodic.AGENTS, settings=settings)
