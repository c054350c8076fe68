"""Self-paced PPO on the 3-D point mass with today's usual tools: Stable-Baselines3, gymnasium and SciPy, on one thread.

The peer trains what ``spjax`` trains, one seed at a time: the published PPO constants of Klink et al. (2021), the point
mass in NumPy and one `trust-constr` solve an iteration. ``python -m benchmarks.speed.peer_ppo`` trains one seed with the
peer and then a sweep with ``spjax`` on the same machine, both for the published 400 iterations, prints the wall time a seed of
each and their ratio, and writes ``benchmarks/results/peer-ppo.json``.
"""

import dataclasses
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tyro

import spjax
from spjax.analysis.results import Record, commit, device, record, versions, write_records
from spjax.analysis.run import load_run

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
RESULTS = Path(__file__).parents[1] / "results" / "peer-ppo.json"
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


def run_ours(iterations: int, num_seeds: int) -> tuple[float, float]:
    """Trains a sweep of ``spjax`` and returns its wall seconds, everything included, and of these the compile seconds."""
    config = dataclasses.replace(
        spjax.preset("point-mass-3d"), seeds=tuple(range(1, num_seeds + 1)), num_iterations=iterations
    )
    with tempfile.TemporaryDirectory() as folder:
        summary = load_run(spjax.train(config, Path(folder) / "run", progress=False)).summary
    assert summary is not None
    return summary.wall_seconds, summary.compile_seconds


def main(iterations: int = 400, seeds: tuple[int, ...] = (1,), sweep: int = 20) -> None:
    """Trains the peer once a seed, then our sweep, prints both and their ratio, and writes the records.

    Args:
        iterations: of 2048 environment steps. The peer's teacher moves from the sixth on; its solves get dearer towards
            the target, so short runs flatter it.
        seeds: of the peer, one after the other.
        sweep: seeds of our sweep, all in one program.
    """
    timings = [run_peer(iterations, seed) for seed in seeds]
    for seed, timing in zip(seeds, timings, strict=True):
        print(report(seed, timing))
    wall, compile_seconds = run_ours(iterations, sweep)
    peer = [timing.total_seconds for timing in timings]
    ratio = statistics.fmean(peer) / (wall / sweep)
    print(
        f"peer {statistics.fmean(peer):.1f} s a seed; ours {wall:.1f} s for {sweep} seeds, {wall / sweep:.2f} s a seed"
    )
    print(f"spjax is {ratio:.0f} times faster a seed")
    agents = [sum(timing.agent_seconds) for timing in timings]
    command = f"python -m benchmarks.speed.peer_ppo --iterations {iterations} --sweep {sweep}"
    write_records(
        RESULTS,
        [
            _record("stable-baselines3 + scipy: wall seconds a seed", seeds, peer, iterations, command),
            _record("stable-baselines3 alone: wall seconds a seed", seeds, agents, iterations, command),
            _record("spjax: wall seconds a seed", [sweep], [wall / sweep], iterations, command, wall, compile_seconds),
            _record("ratio", [sweep], [ratio], iterations, command),
        ],
    )


def _record(
    metric: str,
    seeds: Sequence[int],
    values: Sequence[float],
    iterations: int,
    command: str,
    wall_seconds: float | None = None,
    compile_seconds: float | None = None,
) -> Record:
    return record(
        experiment="peer-ppo",
        env="point-mass-3d",
        agent="ppo",
        teacher="self-paced",
        schedule="proportion",
        metric=metric,
        seeds=seeds,
        values=values,
        iterations=iterations,
        wall_seconds=wall_seconds,
        compile_seconds=compile_seconds,
        device=device(),
        versions=versions(),
        commit=commit(),
        command=command,
    )


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
