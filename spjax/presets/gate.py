"""The gate experiments (Klink et al., 2021, Section 6.2 and the appendix "Experimental Details").

The printed text ("article") differs from the published results in these points:

    parameters              14                          16, two of them without effect
    alpha is zero for       K_alpha iterations          K_alpha + 1 iterations
    alpha is capped         no                          2.5 ("precision") or 1e6 ("global")
    alpha is computed from  the new rollouts            the whole buffer
    GoalGAN trains          every 5th iteration         every 3rd in "precision"
    SAGG-RIAC               split at 100 samples,       split at 200 ("precision") or 500 ("global"),
                            interest over 200 or 500    interest over 100

The paper prints neither the cap nor the range of the value features' centres; in the "global" setting these span half-widths
up to 1.0, twice the bound, and both variants use that. CMA-ES learns at the mean of the target contexts, an iteration is a
generation of 12, and it has as many rollouts as the others; the paper has it in the "precision" setting alone.
"""

from spjax.presets import episodic
from spjax.presets.table import Names, Settings, Table

NUM_ITERATIONS = {"global": 600, "precision": 350}
NUM_SAMPLES = 100  # rollouts an iteration
BUFFER_SIZE = 10  # iterations
MAX_KL = {"global": 0.25, "precision": 0.4}
ZETA = {"global": 0.002, "precision": 0.02}
K_ALPHA = 140
MAX_ALPHA = {"global": 1e6, "precision": 2.5}
WIDEST_CENTRE = {
    "global": 1.0,
    "precision": 0.5,
}  # upper end of the centres' range of half-widths, m
TRAIN_EVERY = {"global": 5, "precision": 3}  # iterations between trainings of GoalGAN
MAX_GOALS = {
    "global": 500,
    "precision": 200,
}  # samples at which SAGG-RIAC splits a region
MAX_HISTORY = 100  # samples that a region's interest is computed from
EVALUATE_EVERY = 10  # iterations of NUM_SAMPLES rollouts


PARAMETERS = {"published": 16, "article": 14}


def settings(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    from spjax.agents.episodic.features import RadialBasis

    case = names.task.removeprefix("gate-")
    num_parameters = PARAMETERS["article" if names.article else "published"]
    features = RadialBasis(
        (-5.0, 0.1), (5.0, WIDEST_CENTRE[case]), (10, 5), (0.6, 150.0)
    )
    length = episodic.run(
        names,
        num_parameters,
        NUM_ITERATIONS[case],
        NUM_SAMPLES,
        BUFFER_SIZE,
        EVALUATE_EVERY,
    )
    return {
        "task": {"num_parameters": num_parameters},
        "agent": episodic.learner(
            names, MAX_KL[case], NUM_SAMPLES, BUFFER_SIZE, features
        ),
        "teacher": _teacher(names, case),
        "run": {**length, "evaluation_episodes": 100},
    }


def _teacher(names: Names, case: str) -> Settings:
    if names.teacher == "self-paced-joint":
        return episodic.self_paced(names, ZETA[case], K_ALPHA, MAX_ALPHA[case])
    if names.teacher == "goal-gan-episodic":
        return {
            "noise": 0.05,
            "label_capacity": 512,
            "pretrain_iterations": 1000,
            "train_every": 5 if names.article else TRAIN_EVERY[case],
        }
    if names.teacher == "sagg-riac":
        return episodic.sagg_riac(names, MAX_GOALS[case], MAX_HISTORY)
    return {}


TABLE = Table(agents=episodic.AGENTS, settings=settings)
