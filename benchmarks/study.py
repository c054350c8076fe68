"""The alpha-schedule study: zeta, K_alpha, V_LB and epsilon over thousands of runs of the point mass, in one command.

    python -m benchmarks.study [--task point-mass-3d] [--seeds 20] [--iterations 400] [--sweeps NAME]
        [--runs runs/study] [--results benchmarks/results/study.json] [--pictures benchmarks/results/pictures/study]

TRPO, the learner of the paper's figure of zeta and K_alpha, is trained with every zeta and K_alpha at three values of epsilon,
and with every V_LB and epsilon: 2,100 runs of 20 seeds. A sweep that was interrupted resumes, and one that is finished is read;
a sweep is written when it is through, beside what the file has of the others. Offsets are in updates, one less than the K_alpha
of the published results.

Beside the returns, what successive halving would have done: its cuts follow from the evaluations of the full grid, since on CPU
a run has the same bits whatever its neighbours do. A quarter of the seeds chooses a setting, with halving and with the whole
grid, and the other seeds judge both choices.
"""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

import spjax
from benchmarks import command_line
from benchmarks.wide_tasks import trained
from spjax.analysis.records import measured_here, record_of_group
from spjax.analysis.statistics import iterations_to_threshold
from spjax.analysis.style import save
from spjax.analysis.sweep import sweep_picture
from spjax.runs.read import Run
from spjax.runs.results import Record, read_records, write_records_beside
from spjax.runs.schema import Lane, Setting
from spjax.training.config import RunConfig
from spjax.training.halving import Halving, cuts

EXPERIMENT = "study"
RESULTS = Path(__file__).parent / "results" / "study.json"
PICTURES = Path(__file__).parent / "results" / "pictures" / EXPERIMENT
TASKS = ("point-mass-3d", "point-mass-2d")
THRESHOLD = 5.0  # discounted return, as in the paper's figure
ZETA, OFFSET, BOUND, MAX_KL = (
    "teacher.schedule.zeta",
    "teacher.schedule.offset",
    "teacher.schedule.performance_bound",
    "teacher.max_kl",
)
ZETAS = (0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
OFFSETS = (0, 9, 19, 39, 79)
BOUNDS = (1.0, 2.0, 3.5, 5.0, 6.5)
MAX_KLS = (0.02, 0.05, 0.125)
RETURN, CROSSING = "discounted_return", "iterations_to_threshold"
RUNGS = (50, 100, 200)  # iterations between the rungs of halving
FOLDS = 4


class Sweep(NamedTuple):
    """Runs of one program: the schedule, what is swept, and what else differs from the preset."""

    schedule: str
    over: Mapping[str, tuple[float, ...]]
    settings: Mapping[str, float] = {}


SWEEPS: dict[str, Sweep] = {
    f"proportion-{max_kl:g}": Sweep(
        "proportion", {ZETA: ZETAS, OFFSET: OFFSETS}, {MAX_KL: max_kl}
    )
    for max_kl in MAX_KLS
} | {"bound": Sweep("bound", {BOUND: BOUNDS, MAX_KL: MAX_KLS})}


def config_of(
    name: str, task: str, seeds: int, iterations: int | None = None
) -> RunConfig:
    """Returns what a sweep trains; the preset's length where none is given."""
    sweep = SWEEPS[name]
    preset = spjax.preset(task, "trpo", "self-paced", sweep.schedule)
    settings = {path.removeprefix("teacher."): v for path, v in sweep.settings.items()}
    return dataclasses.replace(
        preset,
        teacher=preset.teacher.changed(**settings),
        seeds=tuple(range(1, seeds + 1)),
        num_iterations=iterations or preset.num_iterations,
        over=dict(sweep.over),
    )


class Curves(NamedTuple):
    """The returns on the target tasks of a whole grid."""

    settings: tuple[Mapping[str, Setting], ...]
    iterations: Int[np.ndarray, " evaluation"]
    returns: Float[np.ndarray, "setting seed evaluation"]


class Chosen(NamedTuple):
    """What halving leaves, and what it costs."""

    settings: tuple[int, ...]
    share_of_iterations: float  # of those that the whole grid takes


def halved(curves: Curves, seeds: Sequence[int], halving: Halving) -> Chosen:
    """Returns what successive halving leaves of a grid, decided by some of its seeds.

    Args:
        curves: of the whole grid.
        seeds: positions of the seeds that decide.
        halving: when settings stop, and how many.
    """
    last = int(curves.iterations[-1])
    left = list(range(len(curves.settings)))
    spent, before = 0, 0
    for place, iteration in enumerate(curves.iterations.tolist()):
        spent += len(left) * (iteration - before)
        before = iteration
        if not halving.is_rung(iteration, last):
            continue
        lanes = [
            Lane(seed=seed, settings=dict(curves.settings[setting]))
            for setting in left
            for seed in seeds
        ]
        of_lanes = curves.returns[left][:, list(seeds), place].ravel()
        stopped = cuts(halving, iteration, lanes, dict(enumerate(of_lanes.tolist())))
        gone = {left[cut.lanes[0] // len(seeds)] for cut in stopped}
        left = [setting for setting in left if setting not in gone]
    return Chosen(tuple(left), spent / (len(curves.settings) * last))


def best_of(curves: Curves, settings: Sequence[int], seeds: Sequence[int]) -> int:
    """Returns the setting with the highest mean final return of these seeds."""
    means = curves.returns[:, list(seeds), -1].mean(axis=1)
    return max(settings, key=lambda setting: means[setting])


def halving_outcomes(curves: Curves) -> dict[str, list[float]]:
    """Returns what halving costs and loses beside the whole grid, a value for each quarter of the seeds that decides."""
    count = curves.returns.shape[1]
    quarters = np.array_split(np.arange(count), min(FOLDS, count))
    everything = range(len(curves.settings))
    found: dict[str, list[float]] = {}
    for every in RUNGS:
        if every >= curves.iterations[-1]:
            continue
        shares, losses = [], []
        for quarter in quarters:
            others = [seed for seed in range(count) if seed not in quarter]
            chosen = halved(curves, quarter.tolist(), Halving(0.5, every))
            judged = curves.returns[:, others, -1].mean(axis=1)
            by_halving = best_of(curves, chosen.settings, quarter.tolist())
            by_grid = best_of(curves, everything, quarter.tolist())
            shares.append(chosen.share_of_iterations)
            losses.append(float(judged[by_grid] - judged[by_halving]))
        found[f"halving every {every}: share of the grid's iterations"] = shares
        found[f"halving every {every}: return below the whole grid's choice"] = losses
    return found


def curves_of(run: Run) -> Curves:
    """Returns the returns of a finished sweep."""
    groups = run.groups()
    curves = [run.evaluation_curves(RETURN, group) for group in groups]
    return Curves(
        tuple(group.settings for group in groups),
        curves[0].iterations,
        np.stack([curve.values for curve in curves]),
    )


def records_of(run: Run, name: str, command: str) -> list[Record]:
    """Returns final returns and iterations to the threshold of every setting, and what halving would have done."""
    records = []
    for group in run.groups():
        curves = run.evaluation_curves(RETURN, group)
        crossing = iterations_to_threshold(curves.iterations, curves.values, THRESHOLD)
        final = record_of_group(run, group, EXPERIMENT, RETURN, curves.values[:, -1])
        when = record_of_group(run, group, EXPERIMENT, CROSSING, crossing.iterations)
        records += [
            final,
            Record(
                **{
                    **when,
                    "threshold": THRESHOLD,
                    "never_reached": crossing.never_reached,
                }
            ),
        ]
    fixed = SWEEPS[name].settings
    records = [
        Record(**{**one, "settings": {**fixed, **one["settings"]}}) for one in records
    ]
    records += [
        measured_here(
            experiment=EXPERIMENT,
            env=run.config.task_name,
            agent=run.config.agent,
            teacher=run.config.teacher,
            schedule=run.config.schedule,
            settings={"sweep": name},
            metric=metric,
            seeds=range(len(values)),
            values=values,
            iterations=run.last_evaluated_iteration,
            command=command,
        )
        for metric, values in halving_outcomes(curves_of(run)).items()
    ]
    return records


def count_of(records: Sequence[Record], command: str) -> Record:
    """Returns the record of how many runs all sweeps have together."""
    runs = sum(len(record["seeds"]) for record in records if record["metric"] == RETURN)
    return measured_here(
        experiment=EXPERIMENT,
        metric="runs",
        env="point mass",
        agent="trpo",
        teacher="self-paced",
        seeds=[0],
        values=[runs],
        command=command,
    )


def main() -> None:
    """Trains, writes the records and draws the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--task", choices=TASKS, default=TASKS[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--iterations", type=int, help="of a training; the preset's")
    parser.add_argument("--sweeps", nargs="+", choices=SWEEPS, default=list(SWEEPS))
    parser.add_argument("--runs", type=Path, default=Path("runs") / EXPERIMENT)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    arguments = parser.parse_args()
    command = command_line("benchmarks.study")
    for name in arguments.sweeps:
        config = config_of(name, arguments.task, arguments.seeds, arguments.iterations)
        run = trained(config, arguments.runs / f"{arguments.task}_{name}", command)
        write_records_beside(arguments.results, records_of(run, name, command))
        records = read_records(arguments.results)
        write_records_beside(arguments.results, [count_of(records, command)])
        save(sweep_picture(run), arguments.pictures / f"{arguments.task}-{name}.png")


if __name__ == "__main__":
    main()
