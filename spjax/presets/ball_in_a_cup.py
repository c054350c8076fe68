"""The ball-in-a-cup experiment (Klink et al., 2021, Section 6.2 and the appendix "Experimental Details").

The printed text ("article") differs from the published results in these points:

    alpha is zero for       K_alpha iterations          K_alpha + 1 iterations
    alpha is capped         no                          10
    alpha is computed from  the new rollouts            the whole buffer
    SAGG-RIAC               split at 50 samples,        split at 120 samples,
                            interest over 120           interest over 50

The released fit accepts what is left of the divergence at eta = 10; ours keeps the bound. GoalGAN's learner keeps 10 iterations
of rollouts, those of the other curricula 5. CMA-ES learns at the mean of the target contexts, an iteration is a generation of
12, and it has as many rollouts as the others. The published string is a chain of links (`BallInACup.string`), and the published
evaluations play 16 rollouts every 5 iterations.
"""

from spjax.presets import episodic
from spjax.presets.table import Names, Settings, Table

NUM_ITERATIONS = 250
NUM_SAMPLES = 16  # rollouts an iteration
BUFFER_SIZE = 5  # iterations
GOAL_GAN_BUFFER_SIZE = 10
MAX_KL = 0.35
ZETA = 3.0
K_ALPHA = 15
MAX_ALPHA = 10.0
STD_FLOOR = 0.1
FLOOR_KL = 200.0
MAX_GOALS = 120  # samples at which SAGG-RIAC splits a region
MAX_HISTORY = 50  # samples that a region's interest is computed from
EVALUATE_EVERY = 10  # iterations of NUM_SAMPLES rollouts


def settings(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    from spjax.agents.episodic.features import RadialBasis
    from spjax.envs.ball_in_a_cup import BallInACup

    size = BallInACup().parameter_size
    features = RadialBasis((0.9,), (2.5,), (20,), (26.0,))
    length = episodic.run(
        names, size, NUM_ITERATIONS, NUM_SAMPLES, BUFFER_SIZE, EVALUATE_EVERY
    )
    goal_gan = names.teacher == "goal-gan-episodic"
    kept = GOAL_GAN_BUFFER_SIZE if goal_gan else BUFFER_SIZE
    return {
        "agent": episodic.learner(names, MAX_KL, NUM_SAMPLES, kept, features),
        "teacher": _teacher(names),
        "run": {**length, "evaluation_episodes": 32},
    }


def _teacher(names: Names) -> Settings:
    if names.teacher == "self-paced-joint":
        schedule = episodic.self_paced(names, ZETA, K_ALPHA, MAX_ALPHA)
        return {**schedule, "std_floor": STD_FLOOR, "floor_kl": FLOOR_KL}
    if names.teacher == "goal-gan-episodic":
        return {
            "noise": 0.05,
            "label_capacity": 64,
            "pretrain_iterations": 1000,
            "train_every": 3,
        }
    if names.teacher == "sagg-riac":
        return episodic.sagg_riac(names, MAX_GOALS, MAX_HISTORY)
    return {}


TABLE = Table(agents=episodic.AGENTS, settings=settings)
