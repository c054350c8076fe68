"""The ant experiments (Klink et al., 2021, Section 7.2 and the appendix "Experimental Details").

Neither environment nor scripts were released, so "published" is our completion of the printed text:

    minibatches, epochs     library defaults 4, 4       16, 6
    learning rate           library default 2.5e-4      3e-4
    value coefficient       library default 0.5         1.0
    gradient clipping       library default 0.5         none
    rewards in training     as they are                 divided by the running spread of the return
    armature of the joints  0                           0.03 kg m^2
    observation             as it is                    all entries of the order of 1
    trust region            KL(new || old)              KL(old || new)
    alpha is zero for       K_alpha updates             K_alpha - 1 updates

With the printed 16 gradient steps an update, a policy's spread hardly moves and the critic does not get from 0 to returns of
hundreds. The epsilon of the context update, the number of iterations and the success rule of GoalGAN are not printed either: 0.05
as in the other tasks, 400, and whether the ant is behind the wall at the end. The values of contexts are sample returns, as
printed. Nothing but PPO was run in the paper.
"""

from typing import Any

from spjax.presets.table import Names, Settings, Table

NUM_ITERATIONS = 400
K_ALPHA, ZETA, V_LB = 15, 1.6, 600.0
K_OFFSET = 10
STD_FLOOR = (1.0, 0.5)  # m
FLOOR_KL = 11_000.0
ALP_GMM = (0.1, 50, 500)  # p_RAND, n_ROLLOUT, s_BUFFER
GOAL_GAN = (0.05, 125, 0.2)  # delta_NOISE, n_ROLLOUT, p_SUCCESS
BUFFER_SIZE = 1000  # episodes of an update at most
SLOTS, SLOT_STEPS = 40, 2048  # of an iteration


def settings(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    printed: Settings = {"armature": 0.0, "scaled_observation": False}
    return {
        "task": printed if names.article else {},
        "agent": _agent(names),
        "teacher": _teacher(names),
        "run": {"num_iterations": NUM_ITERATIONS, "evaluation_episodes": 50},
    }


def _agent(names: Names) -> Settings:
    shared: Settings = {"hidden": (64, 64), "discount": 0.995}
    slots: Settings = {"num_envs": SLOTS, "num_steps": SLOT_STEPS, "gae_lambda": 0.95}
    if names.agent == "sac":
        return {**shared, "num_envs": SLOTS, "num_steps": SLOT_STEPS}
    if names.agent == "trpo":
        return {**shared, **slots}
    if names.article:
        return {
            **shared,
            **slots,
            "num_minibatches": 4,
            "num_epochs": 4,
            "value_coefficient": 0.5,
            "max_grad_norm": 0.5,
        }
    return {
        **shared,
        **slots,
        "num_minibatches": 16,
        "num_epochs": 6,
        "learning_rate": 3e-4,
    }


def _teacher(names: Names) -> Settings:
    if names.teacher == "alp-gmm":
        settings = ("random_fraction", "num_rollouts", "buffer_size")
        return dict(zip(settings, ALP_GMM, strict=True))
    if names.teacher == "goal-gan":
        settings = ("noise", "num_rollouts", "success_fraction")
        return dict(zip(settings, GOAL_GAN, strict=True))
    if names.teacher not in ("self-paced", "spgl"):
        return {}
    moving: dict[str, Any] = {
        "buffer_size": BUFFER_SIZE,
        "warmup": K_OFFSET,
        "std_floor": STD_FLOOR,
        "floor_kl": FLOOR_KL,
        "value_source": "return",
    }
    if names.teacher == "spgl":
        return {**moving, "performance_bound": V_LB}
    if names.article:
        moving["kl_direction"] = "new-old"
    if names.schedule == "bound":
        moving["schedule.performance_bound"] = V_LB
    if names.schedule == "proportion":
        moving["schedule.zeta"] = ZETA
        moving["schedule.offset"] = K_ALPHA - (not names.article)
    return moving


_TEACHERS = ("self-paced", "spgl", "alp-gmm", "goal-gan", "default", "random")
TABLE = Table(
    agents={"ppo": _TEACHERS, "trpo": _TEACHERS, "sac": _TEACHERS},
    settings=settings,
)
