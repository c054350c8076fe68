"""Self-paced PPO on the 3-D point mass with today's usual tools: Stable-Baselines3, gymnasium and SciPy, on one thread.

The peer trains what ``spjax`` trains, one seed at a time: the published PPO constants of Klink et al. (2021), the point
mass in NumPy and one `trust-constr` solve an iteration. ``python -m benchmarks.speed.peer_ppo --iterations 20`` prints
the seconds that it takes.
"""

import dataclasses
import math
import statistics
import time

import numpy as np
import tyro

try:
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv

    from benchmarks.speed.peers.point_mass import PointMass
    from benchmarks.speed.peers.self_paced import Curriculum, SelfPacedTeacher
except ModuleNotFoundError as missing:
    raise SystemExit(f"the speed comparison needs {missing.name}: pip install 'spjax[bench]'") from None

NUM_STEPS = 2048  # environment steps an iteration
DISCOUNT = 0.95
FIRST_UPDATE = 5  # K_offset: the iteration, counted from 0, after which the teacher moves for the first time


@dataclasses.dataclass(frozen=True)
class PeerTiming:
    """Wall time of one run of the peer; construction and imports are not in it."""

    agent_seconds: tuple[float, ...]  # rollout and update, one an iteration
    teacher_seconds: tuple[float, ...]  # values and context update, one an iteration; next to 0 before K_offset
    total_seconds: float
    mean_returns: tuple[float, ...]  # discounted, on the training contexts of each iteration


def run_peer(iterations: int, seed: int) -> PeerTiming:
    """Trains one seed for ``iterations`` of 2048 environment steps and returns what each took.

    Sets PyTorch to one thread for the whole process.
    """
    torch.set_num_threads(1)
    teacher = SelfPacedTeacher()
    curriculum = Curriculum(PointMass(), teacher, DISCOUNT)
    agent = _agent(curriculum, seed)
    agent_seconds, teacher_seconds, mean_returns = [], [], []
    start = time.perf_counter()
    for iteration in range(iterations):
        began = time.perf_counter()
        agent.learn(NUM_STEPS, reset_num_timesteps=False)
        learned = time.perf_counter()
        mean_returns.append(statistics.fmean(curriculum.returns))
        if iteration >= FIRST_UPDATE:
            _update_teacher(teacher, curriculum, agent)
        curriculum.returns.clear()
        agent_seconds.append(learned - began)
        teacher_seconds.append(time.perf_counter() - learned)
    total = time.perf_counter() - start
    return PeerTiming(tuple(agent_seconds), tuple(teacher_seconds), total, tuple(mean_returns))


def main(iterations: int = 20, seeds: tuple[int, ...] = (1,)) -> None:
    """Runs the peer once a seed, one after the other, and prints its timings.

    Args:
        iterations: of 2048 environment steps. The teacher moves from the sixth on, and is drawn to the target from the
            fifteenth on.
        seeds: of the generators of PyTorch and NumPy.
    """
    for seed in seeds:
        print(report(seed, run_peer(iterations, seed)))


def report(seed: int, timing: PeerTiming) -> str:
    """Returns the timings of one run as text: a line an iteration, then the sums."""
    rows = zip(timing.agent_seconds, timing.teacher_seconds, timing.mean_returns, strict=True)
    lines = [f"{i:9d} {agent:8.3f} {teacher:10.3f} {mean:12.2f}" for i, (agent, teacher, mean) in enumerate(rows)]
    agent_total, teacher_total = sum(timing.agent_seconds), sum(timing.teacher_seconds)
    return "\n".join(
        [
            f"seed {seed}, Stable-Baselines3 PPO on one thread",
            f"{'iteration':>9} {'agent s':>8} {'teacher s':>10} {'mean return':>12}",
            *lines,
            f"total {timing.total_seconds:.2f} s: agent {agent_total:.2f} s, teacher {teacher_total:.2f} s",
        ]
    )


def _agent(curriculum: Curriculum, seed: int) -> PPO:
    """Returns PPO with the published constants.

    ``vf_coef`` is half the published 1.0, since the published loss halves the mean squared error of the values and
    Stable-Baselines3 does not. The losses are equal.
    """
    agent = PPO(
        "MlpPolicy",
        DummyVecEnv([lambda: curriculum]),
        learning_rate=2.5e-4,
        n_steps=NUM_STEPS,
        batch_size=64,
        n_epochs=8,
        gamma=DISCOUNT,
        gae_lambda=0.99,
        clip_range=0.2,
        clip_range_vf=None,
        ent_coef=0.0,
        vf_coef=0.5,
        max_grad_norm=math.inf,
        policy_kwargs={
            "net_arch": {"pi": [64, 64], "vf": [64, 64]},
            "activation_fn": torch.nn.Tanh,
            "log_std_init": 0.0,
            "optimizer_kwargs": {"eps": 1e-5},
        },
        seed=seed,
        device="cpu",
    )
    agent.set_logger(Logger(None, []))
    return agent


def _update_teacher(teacher: SelfPacedTeacher, curriculum: Curriculum, agent: PPO) -> None:
    """Moves the teacher with all episodes since its last update, which are then forgotten."""
    first_observations, contexts, _ = zip(*curriculum.episodes, strict=True)
    with torch.no_grad():
        values = agent.policy.predict_values(torch.as_tensor(np.stack(first_observations)))
    teacher.update(np.stack(contexts), values.numpy().ravel().astype(np.float64), statistics.fmean(curriculum.returns))
    curriculum.episodes.clear()


if __name__ == "__main__":
    tyro.cli(main)
