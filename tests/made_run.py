"""A run folder made of plausible numbers instead of training, for the tests of reading and drawing."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spjax.runs.folder import write_record, write_summary
from spjax.runs.read import Run, load_run
from spjax.runs.schema import (
    Contexts,
    Estimate,
    Frozen,
    Lane,
    Moments,
    Preset,
    Reference,
    RunRecord,
    Summary,
)

REFERENCE = Reference(
    Estimate(8.45, 0.42), Estimate(165.0, 14.0), 400, 395, "Someone (2021)"
)


@dataclass(frozen=True)
class Task:
    """Contexts and curriculum of an environment; arrays have an entry a context dimension."""

    env: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    initial_mean: np.ndarray
    initial_std: np.ndarray
    target_mean: np.ndarray
    target_std: np.ndarray
    hold_position: bool = False


def point_mass(dim: int) -> Task:
    """Returns the point mass in two or three context dimensions."""
    return Task(
        env=f"point-mass-{dim}d",
        names=("gate position", "gate width", "friction")[:dim],
        units=("m", "m", "1/s")[:dim],
        lower=np.array([-4.0, 0.5, 0.0])[:dim],
        upper=np.array([4.0, 8.0, 4.0])[:dim],
        initial_mean=np.array([0.0, 4.25, 2.0])[:dim],
        initial_std=np.array([2.0, 1.875, 1.0])[:dim],
        target_mean=np.array([2.5, 0.5, 0.0])[:dim],
        target_std=np.array([0.004, 0.00375, 0.002])[:dim],
    )


BALL_CATCHING = Task(
    env="ball-catching",
    names=("angle", "radius", "distance"),
    units=("rad", "m", "m"),
    lower=np.array([np.pi / 8, 0.6, 0.75]),
    upper=np.array([np.pi / 2, 1.1, 4.0]),
    initial_mean=np.array([0.68, 0.9, 0.85]),
    initial_std=np.array([0.03, 0.03, 0.3]),
    target_mean=np.array([1.06, 0.85, 2.375]),
    target_std=np.array([0.8, 0.38, 1.0]),
    hold_position=True,
)


@dataclass(frozen=True)
class Scenario:
    """What the synthetic run looks like."""

    env: str = "point-mass"
    dim: int = 3  # of the point mass
    start: str | None = "initial"
    cloned: bool = True  # whether the policy was, where the task asks for it
    seeds: tuple[int, ...] = (1, 2, 3, 4)
    swept: tuple[dict[str, float], ...] = ({},)
    agent: str = "ppo"
    teacher: str = "self-paced"
    schedule: str | None = "proportion"
    zeta: float = 1.6
    num_iterations: int = 20
    evaluate_every: int = 5
    finished: bool = True
    frozen: tuple[int, ...] = ()  # lanes
    reference: Reference | None = None

    @property
    def task(self) -> Task:
        """The contexts."""
        return BALL_CATCHING if self.env == "ball-catching" else point_mass(self.dim)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Returns a function that writes a run folder; its arguments are the fields of `Scenario`."""
    numbers = itertools.count()
    return lambda **scenario: write_run(
        tmp_path / f"run-{next(numbers)}", Scenario(**scenario)
    )


def record_of(scenario: Scenario) -> RunRecord:
    """Returns the content of config.json."""
    task = scenario.task
    return RunRecord(
        task=task.env,
        agent=scenario.agent,
        teacher=scenario.teacher,
        settings={
            "task": {},
            "agent": {"max_grad_norm": float("inf")},
            "teacher": {
                "schedule": {"schedule": scenario.schedule, "zeta": scenario.zeta}
            }
            if scenario.schedule
            else {},
        },
        num_iterations=scenario.num_iterations,
        evaluate_every=scenario.evaluate_every,
        evaluation_episodes=50,
        hold_position=task.hold_position and scenario.cloned,
        seeds=scenario.seeds,
        over={
            name: _distinct([swept[name] for swept in scenario.swept])
            for name in scenario.swept[0]
        },
        lanes=tuple(
            Lane(seed, swept) for swept in scenario.swept for seed in scenario.seeds
        ),
        steps_per_iteration=2048,
        rollouts_per_iteration=None,
        context_space=Contexts(
            task.names,
            task.units,
            tuple(task.lower.tolist()),
            tuple(task.upper.tolist()),
        ),
        target=Moments(
            tuple(task.target_mean.tolist()), tuple(task.target_std.tolist())
        ),
        initial=Moments(
            tuple(task.initial_mean.tolist()), tuple(task.initial_std.tolist())
        ),
        scenery=(((-4.0, 0.0), (2.25, 0.0)), ((2.75, 0.0), (4.0, 0.0))),
        goal=(0.0, -3.0),
        plane=("x", "y"),
        scenery_name="wall",
        versions={"jax": "0.10.2"},
        device="2 CPU cores",
        commit="0123abc",
        command="spjax train",
        created="2026-01-01T00:00:00+00:00",
        preset=Preset(scenario.schedule, "published", scenario.start),
        reference=scenario.reference,
    )


def _distinct(values: list) -> tuple:
    """Returns the values, each once."""
    return tuple(v for i, v in enumerate(values) if v not in values[:i])


def write_run(folder: Path, scenario: Scenario) -> Path:
    """Writes the run folder and returns it."""
    record = record_of(scenario)
    write_record(folder, record)
    metrics, evaluation, trajectories = [], [], []
    for index, lane in enumerate(record.lanes):
        rng = np.random.default_rng(1000 * index + lane.seed)
        names = {"lane": index, "seed": lane.seed, **lane.settings}
        speed = (
            rng.uniform(0.8, 1.2)
            * lane.settings.get("teacher.schedule.zeta", 1.6)
            / 1.6
        )
        metrics += [
            names | _metrics(rng, scenario, k, speed, index)
            for k in range(1, scenario.num_iterations + 1)
        ]
        evaluated = range(0, scenario.num_iterations + 1, scenario.evaluate_every)
        evaluation += [names | _evaluation(rng, scenario, k, speed) for k in evaluated]
        trajectories += [
            _trajectory(rng, index, lane.seed, episode, scenario.task)
            for episode in range(5)
        ]
    _write_parts(folder / "metrics", metrics)
    _write_parts(folder / "evaluation", evaluation)
    if scenario.finished:
        pq.write_table(
            pa.Table.from_pylist(trajectories), folder / "trajectories.parquet"
        )
        frozen = tuple(Frozen(i, record.lanes[i].seed, 17) for i in scenario.frozen)
        write_summary(folder, Summary(True, 81.0, 9.0, frozen))
    return folder


def _write_parts(folder: Path, rows: list[dict]) -> None:
    folder.mkdir()
    half = max(row["iteration"] for row in rows) // 2
    parts = [
        [row for row in rows if row["iteration"] <= half],
        [row for row in rows if row["iteration"] > half],
    ]
    for number, part in enumerate(parts):
        pq.write_table(pa.Table.from_pylist(part), folder / f"{number:06d}.parquet")


def _progress(k: int, speed: float) -> float:
    return float(1 / (1 + np.exp(-(k * speed - 60) / 12)))


def _distribution(k: int, speed: float, task: Task) -> tuple[np.ndarray, np.ndarray]:
    s = min(1.0, max(0.0, (k * speed - 15) / 100))
    mean = (1 - s) * task.initial_mean + s * task.target_mean
    std = np.exp((1 - s) * np.log(task.initial_std) + s * np.log(task.target_std))
    return mean, std


def _metrics(
    rng: np.random.Generator, scenario: Scenario, k: int, speed: float, lane: int
) -> dict:
    mean, std = _distribution(k, speed, scenario.task)
    target_mean, target_std = scenario.task.target_mean, scenario.task.target_std
    kl = float(
        0.5
        * ((std / target_std) ** 2 + ((mean - target_mean) / target_std) ** 2 - 1).sum()
    )
    kl += float(np.log(target_std / std).sum())
    row = {
        "iteration": k,
        "environment_steps": 2048 * k,
        "episodes": 20,
        "episode_return": 5 + 30 * _progress(k, speed) + rng.normal(),
        "discounted_return": 3 + 5 * _progress(k, speed) + rng.normal(scale=0.5),
        "success_rate": _progress(k, speed) if k > 1 else float("nan"),
        "frozen": lane in scenario.frozen and k > 17,
    }
    if scenario.teacher == "self-paced":
        row["teacher.kl_to_target"] = kl * float(rng.uniform(0.9, 1.1)) + 1e-3
        row["teacher.alpha"] = (
            0.0
            if k <= 10
            else 1.6 * row["discounted_return"] / row["teacher.kl_to_target"]
        )
        row["teacher.context_mean"] = mean.tolist()
        row["teacher.context_covariance"] = np.diag(std**2).ravel().tolist()
    return row


def _evaluation(
    rng: np.random.Generator, scenario: Scenario, k: int, speed: float
) -> dict:
    mean, std = _distribution(k, speed, scenario.task)
    contexts = rng.normal(mean, std, size=(20, len(mean)))
    contexts = np.clip(contexts, scenario.task.lower, scenario.task.upper)
    progress = _progress(k, speed)
    return {
        "iteration": k,
        "discounted_return": 2.4 + 6 * progress + float(rng.normal(scale=0.3)),
        "episode_return": 10 + 40 * progress,
        "success_rate": min(1.0, 0.9 * progress),
        "contexts": contexts.ravel().tolist(),
    }


def _trajectory(
    rng: np.random.Generator, lane: int, seed: int, episode: int, task: Task
) -> dict:
    success = bool(rng.uniform() < 0.8)
    t = np.linspace(0, 1, 101)
    y = 3 - 6 * np.minimum(1.0, 1.4 * t)
    bend = 2.5 + rng.normal(scale=0.06) - (0.0 if success else rng.uniform(0.4, 1.5))
    x = (
        bend * np.sin(np.pi * np.minimum(1.0, 1.4 * t))
        + rng.normal(scale=0.02, size=t.size).cumsum() * 0.1
    )
    end = t.size if success else int(np.argmax(y <= 0)) + 1
    return {
        "lane": lane,
        "seed": seed,
        "episode": episode,
        "x": [0.0, *x[1:end].tolist()],
        "y": y[:end].tolist(),
        "context": task.target_mean.tolist(),
        "success": success,
        "discounted_return": 9.0 if success else 2.3,
    }


def with_distances(folder: Path, distances: dict[int, list[float]]) -> Run:
    """Gives a run folder these KL divergences to the target, by seed; an entry an iteration, the first is iteration 1."""
    rows = [
        {"lane": lane, "seed": seed, "iteration": iteration, "teacher.kl_to_target": kl}
        for lane, (seed, values) in enumerate(distances.items())
        for iteration, kl in enumerate(values, start=1)
    ]
    for part in (folder / "metrics").iterdir():
        part.unlink()
    pq.write_table(pa.Table.from_pylist(rows), folder / "metrics" / "000001.parquet")
    return load_run(folder)
