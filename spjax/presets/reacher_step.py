"""PPO on the reacher (Klink et al., 2021, the appendix "Experimental Details"), with as many control steps as the others.

It learns in one context, that of ``task.case``, and does not observe it. The printed text ("article") differs from the
published results in this point:

    reward                  of the distance in x and y  of the distance in space

What the text leaves open were the defaults of the library: the change of a value is clipped like a probability ratio, and
observations and rewards are normalised by running statistics. Adam's epsilon stands before the bias correction there.
"""

from spjax.presets.reacher import TOTAL
from spjax.presets.table import Names, Settings, Table

CONTROL_STEPS = 150  # of a rollout
SLOTS, SLOT_STEPS = 8, 450  # of an iteration


def settings(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    return {
        "task": {"distance": "plane"} if names.article else {},
        "agent": {
            "num_envs": SLOTS,
            "num_steps": SLOT_STEPS,
            "num_minibatches": 5,
            "num_epochs": 15,
            "hidden": (164, 164),
            "discount": 0.999,
            "gae_lambda": 1.0,
            "entropy_coefficient": 1e-3,
            "value_coefficient": 0.5,
            "max_grad_norm": 0.5,
            "bootstrap_time_limit": False,
            "normalize_observations": True,
            "normalize_rewards": True,
            "clip_value": 0.2,
            "adam_epsilon": "before-correction",
        },
        "run": {
            "num_iterations": TOTAL * CONTROL_STEPS // (SLOTS * SLOT_STEPS),
            "evaluate_every": 20,
            "evaluation_episodes": 50,
        },
    }


TABLE = Table(agents={"ppo": ("target-mean",)}, settings=settings)
