"""The ball-catching experiments (Klink et al., 2021, Section 7.2 and the appendix "Experimental Details").

The policy starts cloned to the zero action, "hold position". Self-paced curricula and GoalGAN come in two forms: their
contexts start at the target distribution (start "target", the default), or at an initial one whose balls fly
into the resting net (start "initial", the paper's SPDL* and GoalGAN*). The paper's Default* lacks the cloned policy.

The printed text ("article") differs from the published results in these points:

    reward: velocity        as it is                    normalised
    reward: surface normal  of the net                  third row of the net's rotation matrix
    initial std             0.03, 0.03, 0.3             sqrt(0.001), sqrt(0.001), sqrt(0.1)
    target std              0.8, 0.38, 1                sqrt(0.2 pi), sqrt(0.15), 1
    trust region            KL(new || old)              KL(old || new)
    alpha is zero for       K_alpha updates             K_alpha - 1 updates
    PPO value coefficient   library default 0.5         1.0
    PPO gradient clipping   library default 0.5         none

An update of the context distribution reads the newest 100 episodes, whatever distribution they come from, as published. The
published learners step one environment 5,000 times an iteration; here 20 slots take 250 steps each, of SAC 5 slots 1,000,
with as many gradient steps. GoalGAN is pre-trained on contexts clipped to the bounds, there they were not.
"""

from spjax.presets.table import BOUNDED, Names, Settings, Table

K_ALPHA = {
    "target": {"trpo": 70, "ppo": 50, "sac": 60},
    "initial": {"trpo": 0, "ppo": 0, "sac": 0},
}
ZETA = {
    "target": {"trpo": 0.4, "ppo": 0.45, "sac": 0.6},
    "initial": {"trpo": 0.425, "ppo": 0.45, "sac": 0.6},
}
V_LB = {"trpo": 42.5, "ppo": 42.5, "sac": 25.0}
FIRST_UPDATE = {
    "ppo": 6,
    "trpo": 5,
    "sac": 5,
}  # iterations after which the first update of the contexts comes
ALP_GMM = {
    "trpo": (0.2, 200, 2000),
    "ppo": (0.3, 200, 2000),
    "sac": (0.3, 200, 1000),
}  # p_RAND, n_ROLLOUT, s_BUFFER
ARTICLE_INITIAL_STD = (0.03, 0.03, 0.3)
ARTICLE_TARGET_STD = (0.8, 0.38, 1.0)


def settings(names: Names) -> dict[str, Settings]:
    """Returns what differs from the defaults of the parts."""
    printed: Settings = {"normal": "axis", "unit_velocity": False}
    return {
        "task": printed if names.article else {},
        "agent": _agent(names),
        "teacher": {**_distributions(names), **_teacher(names)},
        "run": {
            "num_iterations": 500,
            "evaluation_episodes": 200,
            "hold_position": True,
        },
    }


def _agent(names: Names) -> Settings:
    shared: Settings = {
        "hidden": (64, 64, 64),
        "discount": 0.995,
        "bootstrap_time_limit": False,
    }
    slots: Settings = {"num_envs": 20, "num_steps": 250, "gae_lambda": 0.95}
    printed: Settings = {"value_coefficient": 0.5, "max_grad_norm": 0.5}
    if names.agent == "sac":
        return {
            **shared,
            "num_envs": 5,
            "num_steps": 1000,
            "updates_per_step": 5,
            "batch_size": 512,
            "replay_size": 100_000,
            "learning_starts": 1000,
        }
    if names.agent == "trpo":
        return {**shared, **slots}
    epochs: Settings = {"num_minibatches": 25, "num_epochs": 10}
    return {**shared, **slots, **epochs, **(printed if names.article else {})}


def _distributions(names: Names) -> Settings:
    if not names.article:
        return {}
    from spjax.contexts import Gaussian
    from spjax.envs.ball_catching import INITIAL_MEAN, TARGET_MEAN

    return {
        "initial": Gaussian.from_std(INITIAL_MEAN, ARTICLE_INITIAL_STD),
        "target": Gaussian.from_std(TARGET_MEAN, ARTICLE_TARGET_STD),
    }


def _teacher(names: Names) -> Settings:
    if names.teacher == "alp-gmm":
        return dict(
            zip(
                ("random_fraction", "num_rollouts", "buffer_size"),
                ALP_GMM[names.agent],
                strict=True,
            )
        )
    if names.teacher == "goal-gan":
        return {"noise": 0.1, "num_rollouts": 200, "success_fraction": 0.3}
    first = FIRST_UPDATE[names.agent] - 1
    window: Settings = {"buffer_size": 100, "sliding_window": True, "warmup": first}
    if names.teacher == "spgl":
        from_returns: Settings = (
            {"value_source": "return"} if names.agent == "sac" else {}
        )
        return {**window, **from_returns, "performance_bound": V_LB[names.agent]}
    if names.teacher == "self-paced":
        return {**window, **_self_paced(names)}
    return {}


def _self_paced(names: Names) -> Settings:
    found: dict[str, object] = {}
    if names.article:
        found["kl_direction"] = "new-old"
    if names.schedule in BOUNDED:
        found["schedule.performance_bound"] = V_LB[names.agent]
        if names.agent == "sac":
            found["value_source"] = "return"  # its critic has the soft value
    if names.schedule == "proportion":
        start = names.start or STARTS[0]
        found["schedule.zeta"] = ZETA[start][names.agent]
        found["schedule.offset"] = max(
            0, K_ALPHA[start][names.agent] - (not names.article)
        )
    return found


STARTS = ("target", "initial")
_TEACHERS = (
    "self-paced",
    "spgl",
    "alp-gmm",
    "goal-gan",
    "sagg-riac",
    "default",
    "random",
)
TABLE = Table(
    agents={"ppo": _TEACHERS, "trpo": _TEACHERS, "sac": _TEACHERS},
    settings=settings,
    starts=STARTS,
)
