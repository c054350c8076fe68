"""The point-mass experiments (Klink et al., 2021, Section 6 and the appendix "Experimental Details").

The printed text ("article") differs from the published results in these points:

    dynamics                a = F - mu v                a = 1.5 F - mu v + noise
    trust region            KL(new || old)              KL(old || new)
    alpha is zero for       K_alpha updates             K_alpha - 1 updates
    PPO value coefficient   library default 0.5         1.0
    PPO gradient clipping   library default 0.5         none
    ALP-GMM, GoalGAN        the tables' settings        those of the released code, below

SAC's critic estimates the soft value, so its "bound" schedule reads sample returns, as published. Its episodes come from 5
slots, each control step of all slots followed by one gradient step: one step in five, as published; an iteration has
2,050 environment steps instead of 2,048.

The paper prints no epsilon; both variants use the released 0.05. The published learner steps a single environment 2048 times
an iteration; here 4 slots take 512 steps each, which gives the same number of steps, episodes and updates. Shorter rollouts
are a little faster and end lower: with 16 slots of 128 steps an eighth of the advantages are cut off at the end of a rollout,
and the final return of the 2-D task falls from about 8.8 to 8.7.
"""

import dataclasses
from typing import Any

from spjax import envs
from spjax.agents.step_based import PPO, SAC, TRPO
from spjax.teachers import ALPGMM, SAGGRIAC, GoalGAN, Random, SelfPaced, SelfPacedGaussian, Target, Teacher
from spjax.training.config import RunConfig

STARTS = ("initial",)  # where the curricula start
K_ALPHA = {"ppo": 10, "trpo": 20, "sac": 25}
ZETA = {"ppo": 1.6, "trpo": 1.6, "sac": 1.1}

# p_RAND, n_ROLLOUT, s_BUFFER: printed, then released
ALP_GMM = {
    ("point-mass-3d", "trpo"): ((0.1, 100, 1000), (0.2, 50, 500)),
    ("point-mass-3d", "ppo"): ((0.1, 100, 500), (0.3, 100, 500)),
    ("point-mass-3d", "sac"): ((0.1, 200, 1000), (0.1, 200, 500)),
    ("point-mass-2d", "trpo"): ((0.3, 100, 500), (0.2, 200, 2000)),
    ("point-mass-2d", "ppo"): ((0.2, 100, 500), (0.3, 100, 500)),
    ("point-mass-2d", "sac"): ((0.2, 200, 1000), (0.2, 200, 1000)),
}
# delta_NOISE, n_ROLLOUT, p_SUCCESS: printed, then released
GOAL_GAN = {
    ("point-mass-3d", "trpo"): ((0.05, 200, 0.2), (0.1, 50, 0.2)),
    ("point-mass-3d", "ppo"): ((0.025, 200, 0.1), (0.025, 100, 0.1)),
    ("point-mass-3d", "sac"): ((0.1, 100, 0.1), (0.1, 100, 0.3)),
    ("point-mass-2d", "trpo"): ((0.1, 200, 0.2), (0.05, 25, 0.2)),
    ("point-mass-2d", "ppo"): ((0.1, 200, 0.3), (0.1, 50, 0.2)),
    ("point-mass-2d", "sac"): ((0.025, 50, 0.2), (0.05, 25, 0.1)),
}


def config(env_name: str, agent: str, teacher: str, schedule: str | None, variant: str, start: str) -> RunConfig:
    """Returns one experiment of the point mass; the names are checked by `spjax.presets.preset`."""
    article = variant == "article"
    env = envs.make(env_name)
    assert isinstance(env, envs.PointMass)
    if article:
        env = dataclasses.replace(env, force_gain=1.0, noise_std=0.0)
    return RunConfig(
        env=env,
        agent=_learner(agent, article),
        teacher=_teacher(env, agent, teacher, schedule, article),
        agent_name=agent,
        teacher_name=teacher,
        variant=variant,
    )


def _learner(agent: str, article: bool) -> Any:
    if agent == "sac":
        return SAC(bootstrap_time_limit=False)
    shared: dict[str, Any] = {"num_envs": 4, "num_steps": 512, "bootstrap_time_limit": False}
    if agent == "trpo":
        return TRPO(**shared)
    return PPO(**shared, value_coefficient=0.5 if article else 1.0, max_grad_norm=0.5 if article else float("inf"))


def _teacher(env: envs.PointMass, agent: str, teacher: str, schedule: str | None, article: bool) -> Teacher:
    if teacher == "random":
        return Random()
    if teacher == "default":
        return Target(env.target_mean, env.target_std)
    if teacher == "alp-gmm":
        random_fraction, num_rollouts, buffer_size = ALP_GMM[env.name, agent][not article]
        return ALPGMM(random_fraction=random_fraction, num_rollouts=num_rollouts, buffer_size=buffer_size)
    if teacher == "sagg-riac":
        return SAGGRIAC()  # not published with step-based learners
    if teacher == "goal-gan":
        noise, num_rollouts, success_fraction = GOAL_GAN[env.name, agent][not article]
        return GoalGAN(
            noise=noise,
            num_rollouts=num_rollouts,
            success_fraction=success_fraction,
            initial_mean=env.initial_mean,
            initial_std=env.initial_std,
        )
    shared: dict[str, Any] = {
        "target_mean": env.target_mean,
        "target_std": env.target_std,
        "initial_mean": env.initial_mean,
        "initial_std": env.initial_std,
        "warmup": 5,
        "performance_bound": 3.5,
        "max_kl": 0.05,
        "std_floor": (0.2, 0.1875, 0.1)[: env.dimensions],
        "floor_kl": 8000.0,
    }
    if teacher == "self-paced-gaussian":
        return SelfPacedGaussian(**shared, value_source="return" if agent == "sac" else "critic")
    return SelfPaced(
        **shared,
        schedule="bound" if schedule == "bound" else "proportion",
        value_source="return" if agent == "sac" and schedule == "bound" else "critic",
        kl_direction="new-old" if article else "old-new",
        offset=K_ALPHA[agent] + article,
        kl_proportion=ZETA[agent],
    )
