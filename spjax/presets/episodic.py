"""What the published experiments of the episodic methods share: SPRL, C-REPS with three curricula, CMA-ES. Needs no JAX."""

from collections.abc import Mapping, Sequence

from spjax.presets.table import Names, Settings

AGENTS: Mapping[str, Sequence[str]] = {
    "sprl": ("self-paced-joint",),
    "c-reps": ("default", "goal-gan-episodic", "sagg-riac"),
    "cma-es": ("target-mean",),
}
NO_CAP = 1e6  # on alpha


def run(
    names: Names,
    num_parameters: int,
    num_iterations: int,
    num_samples: int,
    buffer_size: int,
    evaluate_every: int,
) -> dict[str, int]:
    """Returns the length of a run: CMA-ES has as many rollouts as the others, in generations of its own size.

    Args:
        names: of the experiment.
        num_parameters: of the task.
        num_iterations: of SPRL and C-REPS.
        num_samples: rollouts of such an iteration.
        buffer_size: iterations of rollouts that an update sees; all but one are played beforehand.
        evaluate_every: iterations of `num_samples` rollouts.
    """
    if names.agent != "cma-es":
        return {"num_iterations": num_iterations, "evaluate_every": evaluate_every}
    from spjax.agents.episodic.cma_es import population_size

    rollouts = population_size(num_parameters)
    total = (num_iterations + buffer_size - 1) * num_samples
    return {
        "num_iterations": total // rollouts,
        "evaluate_every": evaluate_every * num_samples // rollouts,
    }


def learner(
    names: Names, max_kl: float, num_samples: int, buffer_size: int, features: object
) -> Settings:
    """Returns the settings of SPRL and C-REPS; CMA-ES has none.

    Args:
        names: of the experiment.
        max_kl: epsilon, of dual and fit.
        num_samples: rollouts of an iteration.
        buffer_size: iterations of rollouts that an update sees.
        features: that the value function is linear in.
    """
    if names.agent == "cma-es":
        return {}
    found = {
        "max_kl": max_kl,
        "value_features": features,
        "num_samples": num_samples,
        "buffer_size": buffer_size,
        "ridge_unit": "reward",
    }
    if names.agent == "c-reps" and names.teacher != "default":
        found["mean_features_of"] = "buffer"
    return found


def self_paced(
    names: Names, zeta: float, k_alpha: int, max_alpha: float
) -> dict[str, object]:
    """Returns the settings of SPRL's curriculum; the printed one has no cap, and alpha one iteration earlier.

    Args:
        names: of the experiment.
        zeta: of the schedule.
        k_alpha: as printed.
        max_alpha: the cap that is not printed.
    """
    found: dict[str, object] = {"alpha_from": "batch" if names.article else "buffer"}
    if names.schedule in (None, "proportion"):
        found["schedule.zeta"] = zeta
        found["schedule.offset"] = k_alpha + (not names.article)
        found["schedule.max_alpha"] = NO_CAP if names.article else max_alpha
    return found


def sagg_riac(names: Names, max_goals: int, max_history: int) -> Settings:
    """Returns the settings of SAGG-RIAC, which the paper prints the other way round."""
    if names.article:
        max_goals, max_history = max_history, max_goals
    return {"max_goals": max_goals, "max_history": max_history}
