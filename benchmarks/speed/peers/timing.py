"""What a run of the peer took, as text and as the values of records."""

import dataclasses
import tempfile
from pathlib import Path

import spjax
from spjax.runs.read import load_run


@dataclasses.dataclass(frozen=True)
class PeerTiming:
    """Wall time of one run of the peer; construction and imports are not in it."""

    seed: int
    agent_seconds: tuple[float, ...]  # rollout and update, one an iteration
    teacher_seconds: tuple[
        float, ...
    ]  # values and context update, one an iteration; next to 0 before K_offset
    total_seconds: float
    mean_returns: tuple[
        float, ...
    ]  # discounted, on the training contexts of each iteration

    def seconds(self, iterations: int) -> float:
        """Returns the seconds of a whole run of these iterations, at this run's mean seconds an iteration."""
        return self.total_seconds / len(self.agent_seconds) * iterations

    def seconds_of_agent(self, iterations: int) -> float:
        """Returns the part of it that is the learner's."""
        return sum(self.agent_seconds) / len(self.agent_seconds) * iterations

    def report(self, name: str) -> str:
        """Returns the timings as text: a line an iteration, then the sums."""
        rows = zip(
            self.agent_seconds, self.teacher_seconds, self.mean_returns, strict=True
        )
        lines = [
            f"{i:9d} {agent:8.3f} {teacher:10.3f} {mean:12.2f}"
            for i, (agent, teacher, mean) in enumerate(rows)
        ]
        agent_total, teacher_total = sum(self.agent_seconds), sum(self.teacher_seconds)
        return "\n".join(
            [
                f"seed {self.seed}, {name} on one thread",
                f"{'iteration':>9} {'agent s':>8} {'teacher s':>10} {'mean return':>12}",
                *lines,
                f"total {self.total_seconds:.2f} s: agent {agent_total:.2f} s, teacher {teacher_total:.2f} s",
            ]
        )


def metric_names(peer_iterations: int, iterations: int) -> tuple[str, str, str]:
    """Returns the metrics of the peer, of its learner alone and of the ratio; an extrapolated one says so."""
    if peer_iterations == iterations:
        what, basis = "wall seconds a seed", ""
    else:
        what = f"seconds an iteration (first {peer_iterations}) x {iterations}"
        basis = (
            f", peer's seconds an iteration (first {peer_iterations}) x {iterations}"
        )
    return (
        f"stable-baselines3 + scipy: {what}",
        f"stable-baselines3 alone: {what}",
        f"ratio{basis}",
    )


def run_ours(name: str, iterations: int, num_seeds: int) -> tuple[float, float]:
    """Trains a sweep of ``spjax`` and returns its wall seconds, everything included, and of these the compile seconds."""
    config = dataclasses.replace(
        spjax.preset("point-mass-3d", agent=name),
        seeds=tuple(range(1, num_seeds + 1)),
        num_iterations=iterations,
    )
    with tempfile.TemporaryDirectory() as folder:
        summary = load_run(
            spjax.train(config, Path(folder) / "run", progress=False)
        ).summary
    assert summary is not None
    return summary.wall_seconds, summary.compile_seconds
