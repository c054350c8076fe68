"""What learning to walk through a wide gate needs: ``python -m benchmarks.ant ablation --iterations 80``.

PPO trains on one gate straight ahead, 10 m wide, as the preset has it and with one thing changed at a time; the last variant has
all that the paper prints. Resumes what was cut, and writes what is finished to ``benchmarks/results/ant-ablation.json`` and
``.md``. Whether an ant is behind the wall or at the goal at the end, the two rules of success, is read off the same episodes.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float

from benchmarks import command_line
from benchmarks.paper.blocks import time_left
from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.curricula import CURRICULA
from benchmarks.paper.records import (
    Runs,
    finished_runs,
    records_of,
    settings_of,
    write_report,
)
from benchmarks.paper.runner import Plan, status_lines, train
from spjax.analysis.records import record_of_group
from spjax.analysis.tables import estimate_text, markdown
from spjax.contexts import Gaussian
from spjax.envs.ant import BEHIND, GOAL_X, TARGET_STD
from spjax.runs.read import Run
from spjax.runs.results import Record
from spjax.runs.schema import Setting
from spjax.training.config import RunConfig
from spjax.training.train import Interrupted

NAME = "ant-ablation"
RESULTS = Path(__file__).parents[1] / "results"
GATE = (0.0, 10.0)  # m, position and width
DEFAULT = next(one for one in CURRICULA if one.teacher == "default")
VARIANTS: dict[str, tuple[str, dict[str, Setting]]] = {
    # name of the folder -> what is changed of the preset, in words and in settings
    "preset": ("nothing", {}),
    "armature-0": ("armature 0 (printed)", {"task.armature": 0.0}),
    "armature-0.01": ("armature 0.01", {"task.armature": 0.01}),
    "step-0.005x8": (
        "time step 0.005 s x 8, 25 Hz as before",
        {"task.timestep": 0.005, "task.substeps": 8},
    ),
    "step-0.01x2": ("time step 0.01 s x 2, 50 Hz", {"task.substeps": 2}),
    "observation-raw": (
        "observation without scales",
        {"task.scaled_observation": False},
    ),
    "observation-running": (
        "observation by its running mean and spread",
        {"task.scaled_observation": False, "agent.normalize_observations": True},
    ),
    "reward-raw": ("rewards as they are", {"agent.normalize_rewards": False}),
    "updates-4x4": (
        "4 minibatches x 4 epochs (printed)",
        {"agent.num_minibatches": 4, "agent.num_epochs": 4},
    ),
    "updates-32x10": (
        "32 minibatches x 10 epochs",
        {"agent.num_minibatches": 32, "agent.num_epochs": 10},
    ),
    "time-limit-ends": ("time limit as an end", {"agent.bootstrap_time_limit": False}),
    "printed": (
        "all as printed",
        {
            "task.armature": 0.0,
            "task.scaled_observation": False,
            "agent.num_minibatches": 4,
            "agent.num_epochs": 4,
            "agent.learning_rate": 2.5e-4,
            "agent.value_coefficient": 0.5,
            "agent.max_grad_norm": 0.5,
            "agent.bootstrap_time_limit": False,
            "agent.normalize_rewards": False,
        },
    ),
}
HEADER = (
    "changed",
    "seeds",
    "iterations",
    "discounted return",
    "return",
    "behind the wall [%]",
    "at the goal [%]",
    "exploded [%]",
)
UNDISCOUNTED, AT_THE_GOAL = "episode_return", "success_rate_at_the_goal"
BEHIND_THE_WALL, EXPLODED = "success_rate_behind_the_wall", "exploded_fraction"
NOTES = f"""
PPO on one gate straight ahead, {GATE[1]:g} m wide: mean ± one standard error over the seeds. Returns are of 50 episodes after
the last iteration. Of 10 episodes of each seed, "behind the wall" have the torso wholly behind it at the end, as the task's rule
of success asks, "at the goal" have it where the reward is full. "Exploded" are the training episodes that the guard ended.
"""


@dataclasses.dataclass(frozen=True)
class WideGate(Cell):
    """Training on one wide gate."""

    def config(self, seeds: Sequence[int]) -> RunConfig:
        """Returns what to train: the cell's preset, with the wide gate in place of its target."""
        config = super().config(seeds)
        gate = Gaussian.from_std(GATE, TARGET_STD)
        return dataclasses.replace(config, teacher=config.teacher.changed(target=gate))


def cells_of(iterations: int) -> list[Cell]:
    """Returns the cells of all variants."""
    return [
        WideGate(
            "ant",
            "ppo",
            DEFAULT,
            suffix=f"wide-gate_{name}",
            settings=settings,
            num_seeds=3,
            num_iterations=iterations,
        )
        for name, (_, settings) in VARIANTS.items()
    ]


def ablation(
    iterations: int = 80,
    seeds: int = 3,
    only: tuple[str, ...] = tuple(VARIANTS),
    runs: Path = Path("runs/ant-ablation"),
    results: Path = RESULTS,
    report_only: bool = False,
) -> None:
    """Trains the variants that are not trained yet, and writes what is finished.

    Args:
        iterations: of each training.
        seeds: trains seeds 1 to this number.
        only: the variants to train.
        runs: where run folders are.
        results: where record and table go.
        report_only: train nothing.
    """
    unknown = sorted(set(only) - set(VARIANTS))
    if unknown:
        raise SystemExit(
            f"unknown variant {unknown[0]!r}; known: {', '.join(VARIANTS)}"
        )
    plan = Plan(cells_of(iterations), runs, seeds)
    wanted = {f"wide-gate_{name}" for name in only}
    try:
        blocks = plan.blocks()
        for line in status_lines(blocks):
            print(line, flush=True)
        left = [
            block
            for block in blocks
            if block.state != "finished" and block.cell.suffix in wanted
        ]
        print(f"{len(left)} to train; {time_left(left, blocks)}", flush=True)
        if not report_only:
            command = command_line("benchmarks.ant")
            train(plan, lambda cell: cell.suffix in wanted, command, print)
        print(report(finished_runs(plan.blocks()), plan.cells, results))
    except Interrupted as stopped:
        print(stopped)
        raise SystemExit(130) from None
    except ValueError as error:
        raise SystemExit(str(error)) from None


def report(runs: Runs, cells: Sequence[Cell], results: Path) -> str:
    """Writes the records and the table of what is finished, and returns the table in Markdown."""
    found = [(cell, runs[cell.name]) for cell in cells if cell.name in runs]
    more = {cell.name: list(_more(cell, run)) for cell, run in found}
    records = records_of(NAME, cells, runs)
    records += [entry for entries in more.values() for entry in entries]
    rows = [
        _row(
            cell, [entry for entry in records if entry["settings"] == settings_of(cell)]
        )
        for cell, _ in found
    ]
    return write_report(results, NAME, records, markdown(HEADER, 1, rows) + NOTES)


def _more(cell: Cell, run: Run) -> Iterator[Record]:
    """Yields the records of a finished cell beside discounted return and success rate."""
    (group,) = run.groups()
    measured = {
        UNDISCOUNTED: run.evaluation_curves(UNDISCOUNTED, group).values[:, -1],
        BEHIND_THE_WALL: _ending_beyond(run, BEHIND),
        AT_THE_GOAL: _ending_beyond(run, GOAL_X),
        EXPLODED: _exploded(run),
    }
    for metric, values in measured.items():
        entry = record_of_group(run, group, NAME, metric, values)
        yield Record(**{**entry, "settings": settings_of(cell)})


def _ending_beyond(run: Run, x: float) -> Float[np.ndarray, " seed"]:
    """Returns the share of each lane's stored episodes whose torso is beyond this x [m] at the end."""
    if run.trajectories is None:
        raise ValueError(f"{run.path} has no trajectories")
    ends: dict[int, list[bool]] = {}
    for row in run.trajectories.to_pylist():
        ends.setdefault(row["lane"], []).append(row["x"][-1] > x)
    return np.array([np.mean(ends[lane]) for lane in sorted(ends)])


def _exploded(run: Run) -> Float[np.ndarray, " seed"]:
    """Returns the share of each lane's training episodes that the guard ended."""
    (group,) = run.groups()
    failed, episodes = (
        run.metric_curves(name, group).values.sum(axis=1)
        for name in ("agent.num_failed", "episodes")
    )
    return np.divide(failed, episodes, out=np.zeros_like(failed), where=episodes > 0)


def _row(cell: Cell, records: Sequence[Record]) -> list[str]:
    by_metric = {entry["metric"]: entry for entry in records}
    words, _ = VARIANTS[cell.suffix.removeprefix("wide-gate_")]
    returns = by_metric["discounted_return"]

    def estimate(metric: str, decimals: int, scale: float = 1.0) -> str:
        value, error = (by_metric[metric][key] for key in ("mean", "standard_error"))
        return estimate_text(value and scale * value, error and scale * error, decimals)

    return [
        words,
        str(len(returns["seeds"])),
        str(returns["iterations"]),
        estimate("discounted_return", 0),
        estimate(UNDISCOUNTED, 0),
        estimate(BEHIND_THE_WALL, 0, 100.0),
        estimate(AT_THE_GOAL, 0, 100.0),
        estimate(EXPLODED, 2, 100.0),
    ]
