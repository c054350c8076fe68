"""The ball-catching experiments (Klink et al., 2021, Section 7.3 and the appendix "Experimental Details").

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

import dataclasses
from typing import Any

from spjax import envs
from spjax.agents.step_based import PPO, SAC, TRPO
from spjax.teachers import ALPGMM, SAGGRIAC, GoalGAN, Random, SelfPaced, SelfPacedGaussian, Target, Teacher
from spjax.training.config import RunConfig

STARTS = ("target", "initial")
K_ALPHA = {"target": {"trpo": 70, "ppo": 50, "sac": 60}, "initial": {"trpo": 0, "ppo": 0, "sac": 0}}
ZETA = {"target": {"trpo": 0.4, "ppo": 0.45, "sac": 0.6}, "initial": {"trpo": 0.425, "ppo": 0.45, "sac": 0.6}}
V_LB = {"trpo": 42.5, "ppo": 42.5, "sac": 25.0}
ALP_GMM = {"trpo": (0.2, 200, 2000), "ppo": (0.3, 200, 2000), "sac": (0.3, 200, 1000)}  # p_RAND, n_ROLLOUT, s_BUFFER
ARTICLE_INITIAL_STD = (0.03, 0.03, 0.3)
ARTICLE_TARGET_STD = (0.8, 0.38, 1.0)


def config(env_name: str, agent: str, teacher: str, schedule: str | None, variant: str, start: str) -> RunConfig:
    """Returns one experiment of ball catching; the names are checked by `spjax.presets.preset`."""
    article = variant == "article"
    env = envs.make(env_name)
    assert isinstance(env, envs.BallCatching)
    initial, target = (env.initial_mean, env.initial_std), (env.target_mean, env.target_std)
    if article:
        env = dataclasses.replace(env, normal="axis", unit_velocity=False)
        initial, target = (env.initial_mean, ARTICLE_INITIAL_STD), (env.target_mean, ARTICLE_TARGET_STD)
    return RunConfig(
        env=env,
        agent=_learner(agent, article),
        teacher=_teacher(agent, teacher, schedule, article, start, initial, target),
        agent_name=agent,
        teacher_name=teacher,
        variant=variant,
        target_mean=target[0],
        target_std=target[1],
        num_iterations=500,
        evaluation_episodes=200,
        hold_position=True,
    )


def _learner(agent: str, article: bool) -> Any:
    shared: dict[str, Any] = {"hidden": (64, 64, 64), "discount": 0.995, "bootstrap_time_limit": False}
    if agent == "sac":
        return SAC(
            num_envs=5,
            num_steps=1000,
            updates_per_step=5,
            batch_size=512,
            replay_size=100_000,
            learning_starts=1000,
            **shared,
        )
    shared |= {"num_envs": 20, "num_steps": 250, "gae_lambda": 0.95}
    if agent == "trpo":
        return TRPO(**shared)
    return PPO(
        num_minibatches=25,
        num_epochs=10,
        value_coefficient=0.5 if article else 1.0,
        max_grad_norm=0.5 if article else float("inf"),
        **shared,
    )


Moments = tuple[tuple[float, ...], tuple[float, ...]]


def _teacher(
    agent: str, teacher: str, schedule: str | None, article: bool, start: str, initial: Moments, target: Moments
) -> Teacher:
    if teacher == "random":
        return Random()
    if teacher == "default":
        return Target(*target)
    if teacher == "alp-gmm":
        random_fraction, num_rollouts, buffer_size = ALP_GMM[agent]
        return ALPGMM(random_fraction=random_fraction, num_rollouts=num_rollouts, buffer_size=buffer_size)
    if teacher == "sagg-riac":
        return SAGGRIAC()  # not published with step-based learners
    if teacher == "goal-gan":
        mean, std = initial if start == "initial" else (None, None)
        return GoalGAN(noise=0.1, num_rollouts=200, success_fraction=0.3, initial_mean=mean, initial_std=std)
    mean, std = initial if start == "initial" else target
    shared: dict[str, Any] = {
        "target_mean": target[0],
        "target_std": target[1],
        "initial_mean": mean,
        "initial_std": std,
        "buffer_size": 100,
        "sliding_window": True,
        "warmup": 5,
        "performance_bound": V_LB[agent],
        "max_kl": 0.05,
    }
    if teacher == "self-paced-gaussian":
        return SelfPacedGaussian(**shared, value_source="return" if agent == "sac" else "critic")
    return SelfPaced(
        **shared,
        schedule="bound" if schedule == "bound" else "proportion",
        value_source="return" if agent == "sac" and schedule == "bound" else "critic",
        kl_direction="new-old" if article else "old-new",
        offset=K_ALPHA[start][agent] + article,
        kl_proportion=ZETA[start][agent],
    )
