"""Self-paced training on the 3-D point mass with today's usual tools: Stable-Baselines3, gymnasium and SciPy, on one thread.

The peer trains what ``spjax`` trains, one seed at a time: PPO, TRPO or SAC with the published constants of Klink et al. (2021),
the point mass in NumPy and one `trust-constr` solve an iteration. ``benchmarks.speed.peers.agents`` names what differs.

    python -m benchmarks.speed.peer --agent {ppo,trpo,sac} [--iterations 400] [--seeds 1] [--sweep 20]

trains the peer and then a sweep with ``spjax`` on the same machine, prints the wall time a seed of each and their ratio, and
writes ``benchmarks/results/peer-{agent}.json``, and the ratio beside those of other peers in ``peers.json``. An iteration has
2,048 environment steps on both sides, of SAC 2,050. ``--peer-iterations N`` stops the peer after N iterations; the records then
name the extrapolation in their metric.
"""

import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import tyro

from benchmarks import command_line
from benchmarks.speed.peers.timing import PeerTiming, metric_names, run_ours
from spjax.analysis.records import measured_here
from spjax.presets.point_mass import K_ALPHA, ZETA
from spjax.runs.results import Record, write_records, write_records_beside

try:
    import torch
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.logger import Logger

    from benchmarks.speed.peers.agents import DISCOUNT, PEERS, Peer
    from benchmarks.speed.peers.point_mass import PointMass
    from benchmarks.speed.peers.self_paced import Curriculum, SelfPacedTeacher
except ModuleNotFoundError as missing:
    raise SystemExit(
        f"the speed comparison needs {missing.name}: pip install 'spjax[bench]'"
    ) from None

RESULTS = Path(__file__).parents[1] / "results"
OVER = "stable-baselines3 and scipy over spjax"
FIRST_UPDATE = 5  # K_offset: the iteration, counted from 0, after which the teacher moves for the first time
PEER_PACKAGES = ("stable_baselines3", "sb3_contrib", "gymnasium", "torch")


def run_peer(name: str, iterations: int, seed: int) -> PeerTiming:
    """Trains one seed of the agent "ppo", "trpo" or "sac" and returns what each iteration took.

    Sets PyTorch to one thread for the whole process.
    """
    torch.set_num_threads(1)
    peer = PEERS[name]
    teacher = SelfPacedTeacher(offset=K_ALPHA[name], kl_proportion=ZETA[name])
    curriculum = Curriculum(PointMass(), teacher, DISCOUNT)
    agent = peer.agent(curriculum, seed)
    agent.set_logger(Logger(None, []))
    agent_seconds, teacher_seconds, mean_returns = [], [], []
    start = time.perf_counter()
    for iteration in range(iterations):
        began = time.perf_counter()
        agent.learn(peer.num_steps, reset_num_timesteps=False)
        learned = time.perf_counter()
        mean_returns.append(statistics.fmean(curriculum.returns))
        if iteration >= FIRST_UPDATE:
            _update_teacher(teacher, curriculum, peer, agent)
        curriculum.returns.clear()
        agent_seconds.append(learned - began)
        teacher_seconds.append(time.perf_counter() - learned)
    total = time.perf_counter() - start
    return PeerTiming(
        seed, tuple(agent_seconds), tuple(teacher_seconds), total, tuple(mean_returns)
    )


def main(
    agent: Literal["ppo", "trpo", "sac"],
    iterations: int = 400,
    seeds: tuple[int, ...] = (1,),
    sweep: int = 20,
    peer_iterations: int | None = None,
) -> None:
    """Trains the peer once a seed, then our sweep, prints both and their ratio, and writes the records.

    Args:
        agent: the learner of both sides.
        iterations: of both sides. The peer's teacher moves from the sixth on; its solves get dearer towards the target, so
            short runs flatter it.
        seeds: of the peer, one after the other.
        sweep: seeds of our sweep, all in one program.
        peer_iterations: stops the peer earlier; its seconds an iteration are then scaled up, which flatters it too.
    """
    ran = iterations if peer_iterations is None else peer_iterations
    if not 1 <= ran <= iterations:
        raise SystemExit(
            f"--peer-iterations must be from 1 to --iterations = {iterations}, got {ran}"
        )
    timings = []
    for seed in seeds:
        timings.append(run_peer(agent, ran, seed))
        print(timings[-1].report(PEERS[agent].name), flush=True)
    wall, compile_seconds = run_ours(agent, iterations, sweep)
    peer = [timing.seconds(iterations) for timing in timings]
    agent_alone = [timing.seconds_of_agent(iterations) for timing in timings]
    ours = wall / sweep
    ratio = statistics.fmean(peer) / ours
    peer_metric, agent_metric, ratio_metric = metric_names(ran, iterations)
    print(
        f"{peer_metric} {statistics.fmean(peer):.1f}; ours {wall:.1f} s for {sweep} seeds, {ours:.2f} s a seed"
    )
    print(f"spjax is {ratio:.0f} times faster a seed")
    write_records(
        RESULTS / f"peer-{agent}.json",
        [
            _record(agent, peer_metric, seeds, peer, ran),
            _record(agent, agent_metric, seeds, agent_alone, ran),
            _record(
                agent,
                "spjax: wall seconds a seed",
                [sweep],
                [ours],
                iterations,
                wall,
                compile_seconds,
            ),
            _record(agent, ratio_metric, [sweep], [ratio], iterations),
        ],
    )
    over = _record(
        agent, ratio_metric.replace("ratio", OVER), [sweep], [ratio], iterations
    )
    write_records_beside(RESULTS / "peers.json", [{**over, "experiment": "peers"}])


def _record(
    agent: str,
    metric: str,
    seeds: Sequence[int],
    values: Sequence[float],
    iterations: int,
    wall_seconds: float | None = None,
    compile_seconds: float | None = None,
) -> Record:
    return measured_here(
        experiment=f"peer-{agent}",
        env="point-mass-3d",
        agent=agent,
        teacher="self-paced",
        schedule="proportion",
        metric=metric,
        seeds=seeds,
        values=values,
        iterations=iterations,
        wall_seconds=wall_seconds,
        compile_seconds=compile_seconds,
        packages=PEER_PACKAGES,
        command=command_line("benchmarks.speed.peer"),
    )


def _update_teacher(
    teacher: SelfPacedTeacher, curriculum: Curriculum, peer: Peer, agent: BaseAlgorithm
) -> None:
    """Moves the teacher with all episodes since its last update, which are then forgotten."""
    first_observations, contexts, _ = zip(*curriculum.episodes, strict=True)
    values = peer.values_of(agent, np.stack(first_observations))
    teacher.update(np.stack(contexts), values, statistics.fmean(curriculum.returns))
    curriculum.episodes.clear()


if __name__ == "__main__":
    tyro.cli(main)
