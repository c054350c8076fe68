"""The gate experiments (Klink et al., 2021, Section 5 and the appendix "Experimental Details").

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

from typing import Any

from spjax import envs
from spjax.agents.episodic import CMAES, CREPS, SPRL, RadialBasis
from spjax.envs.gate import Gate, Setting
from spjax.teachers import SAGGRIAC, EpisodicGoalGAN
from spjax.training.config import RunConfig
from spjax.training.episodic import SelfPacedContexts, TargetContexts

STARTS = ("initial",)  # where the curricula start
NUM_ITERATIONS = {"global": 600, "precision": 350}
NUM_SAMPLES = 100  # rollouts an iteration
BUFFER_SIZE = 10  # iterations
MAX_KL = {"global": 0.25, "precision": 0.4}
ZETA = {"global": 0.002, "precision": 0.02}
K_ALPHA = 140
MAX_ALPHA = {"global": 1e6, "precision": 2.5}
WIDEST_CENTRE = {"global": 1.0, "precision": 0.5}  # upper end of the centres' range of half-widths, m
TRAIN_EVERY = {"global": 5, "precision": 3}  # iterations between trainings of GoalGAN
MAX_GOALS = {"global": 500, "precision": 200}  # samples at which SAGG-RIAC splits a region
MAX_HISTORY = 100  # samples that a region's interest is computed from
EVALUATE_EVERY = 10  # iterations of NUM_SAMPLES rollouts


def config(env_name: str, agent: str, teacher: str, schedule: str | None, variant: str, start: str) -> RunConfig:
    """Returns one experiment of the gate; the names are checked by `spjax.presets.preset`."""
    article = variant == "article"
    setting = envs.make(env_name).setting
    task = Gate(setting, num_parameters=14 if article else 16)
    learner = _learner(setting, agent, teacher, article)
    total = (NUM_ITERATIONS[setting] + BUFFER_SIZE - 1) * NUM_SAMPLES
    num_iterations = total // learner.num_rollouts(task) if agent == "cma-es" else NUM_ITERATIONS[setting]
    return RunConfig(
        env=task,
        agent=learner,
        teacher=_teacher(task, agent, teacher, article),
        agent_name=agent,
        teacher_name=teacher,
        variant=variant,
        num_iterations=num_iterations,
        evaluate_every=EVALUATE_EVERY * NUM_SAMPLES // learner.num_rollouts(task),
        evaluation_episodes=100,
    )


def _learner(setting: Setting, agent: str, teacher: str, article: bool) -> Any:
    if agent == "cma-es":
        return CMAES()
    shared: dict[str, Any] = {
        "max_kl": MAX_KL[setting],
        "value_features": RadialBasis((-5.0, 0.1), (5.0, WIDEST_CENTRE[setting]), (10, 5), (0.6, 150.0)),
        "num_samples": NUM_SAMPLES,
        "buffer_size": BUFFER_SIZE,
        "ridge_unit": "reward",
    }
    if agent == "creps":
        return CREPS(**shared, mean_features_of="target" if teacher == "default" else "buffer")
    return SPRL(
        **shared,
        kl_proportion=ZETA[setting],
        offset=K_ALPHA - article,
        max_alpha=1e6 if article else MAX_ALPHA[setting],
        alpha_from="batch" if article else "buffer",
    )


def _teacher(task: Gate, agent: str, teacher: str, article: bool) -> Any:
    if agent == "sprl":
        return SelfPacedContexts(task.initial_mean, task.initial_std)
    if teacher == "goal-gan":
        return EpisodicGoalGAN(noise=0.05, train_every=5 if article else TRAIN_EVERY[task.setting])
    if teacher == "sagg-riac":
        goals, history = MAX_GOALS[task.setting], MAX_HISTORY
        if article:
            goals, history = history, goals
        return SAGGRIAC(max_goals=goals, max_history=history)
    return TargetContexts()
