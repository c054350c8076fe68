"""Every context of the box counts alike: DORAEMON's kind of problem on the point mass, and who else solves it.

    python -m benchmarks.wide_tasks [--task point-mass-3d] [--methods doraemon random] [--seeds 20] [--iterations 400]
        [--runs runs/wide-tasks] [--results benchmarks/results/wide-tasks.json]

trains PPO with each curriculum, or resumes what was interrupted, one run folder after another; all are measured on the
uniform distribution over the context space. Writes ``benchmarks/results/wide-tasks.json``, beside what the file has of other
tasks and methods: return and success rate at the end, and of DORAEMON whether its constraint was kept on fresh episodes. An
update's estimate is held against the episodes that follow it, which come from the distribution that it made.
"""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

import spjax
from benchmarks import command_line
from spjax import catalogue
from spjax.analysis.records import record_of_group, records_of_run
from spjax.envs.base import Task
from spjax.runs.read import Run, load_run, read_summary
from spjax.runs.results import Record, write_records_beside
from spjax.self_paced.schedules import Bound
from spjax.teachers import ALPGMM, CURROT, DORAEMON, Random, SelfPaced, Teacher
from spjax.training.config import RunConfig
from spjax.training.following import Callback

EXPERIMENT = "wide-tasks"
RESULTS = Path(__file__).parent / "results" / f"{EXPERIMENT}.json"
AGENT = "ppo"
PERFORMANCE_BOUND = 3.5  # V_LB of the published curricula on the point mass


def config_of(
    task: str, method: str, seeds: int, iterations: int | None = None
) -> RunConfig:
    """Returns the preset of a method with the uniform distribution for a target; its own length where none is given."""
    named = catalogue.name_of(METHODS[method])
    preset = spjax.preset(task, AGENT, named)
    return dataclasses.replace(
        preset,
        teacher=_TEACHERS[method](preset.teacher, preset.task),
        seeds=tuple(range(1, seeds + 1)),
        num_iterations=iterations or preset.num_iterations,
    )


def trained(
    config: RunConfig, folder: Path, command: str, callback: Callback | None = None
) -> Run:
    """Returns the finished run, which is trained, resumed, or there already."""
    if not (folder / "config.json").is_file():
        spjax.train(config, folder, command=command, callback=callback)
    elif read_summary(folder) is None:
        spjax.resume(folder, callback=callback)
    return load_run(folder)


def records_of(run: Run) -> list[Record]:
    """Returns the records of a run; three more of DORAEMON."""
    records = records_of_run(run, EXPERIMENT)
    if run.config.teacher != "doraemon":
        return records
    (group,) = run.groups()
    return records + [
        record_of_group(run, group, EXPERIMENT, metric, values)
        for metric, values in kept_constraint(run).items()
    ]


def kept_constraint(run: Run) -> dict[str, np.ndarray]:
    """Returns, for each seed, what the success rates of fresh episodes were, of the updates that had kept the rate."""
    (group,) = run.groups()

    def metric(name: str) -> np.ndarray:
        return np.asarray(run.metric_curves(f"teacher.{name}", group).values)

    kept, observed = metric("constraint_kept"), metric("observed_success")
    due = np.isfinite(kept)
    rate = run.config.settings["teacher"]["success_rate"]
    return {
        "share of updates whose constraint fresh episodes keep": _means(kept, due),
        "success rate of fresh episodes, less the constraint": _means(
            observed - rate, due
        ),
        "KL to the uniform distribution at the end": metric("kl_to_target")[:, -1],
    }


def _means(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Returns the mean of every row over the entries that count, NaN where there is none."""
    with np.errstate(invalid="ignore"):
        return np.where(where, values, 0.0).sum(axis=1) / where.sum(axis=1)


def _itself(teacher: Teacher, task: Task) -> Teacher:
    return teacher


def _measured_everywhere(teacher: Teacher, task: Task) -> Teacher:
    return teacher.changed(target=DORAEMON().bound_to(task).target)


def _from_the_middle(teacher: Teacher, task: Task) -> Teacher:
    wide = DORAEMON().bound_to(task)
    return teacher.changed(initial=wide.initial, target=wide.target)


def _self_paced(teacher: Teacher, task: Task) -> Teacher:
    """Returns SPDL (V_LB) from DORAEMON's start to its target: of value in place of success, and without a backup."""
    return _from_the_middle(teacher, task).changed(
        std_floor=None, schedule=Bound(PERFORMANCE_BOUND)
    )


METHODS: dict[str, type[Teacher]] = {
    "doraemon": DORAEMON,
    "self-paced": SelfPaced,
    "currot": CURROT,
    "alp-gmm": ALPGMM,
    "random": Random,
}
_TEACHERS: dict[str, Callable[[Teacher, Task], Teacher]] = {
    "doraemon": _itself,
    "self-paced": _self_paced,
    "currot": _from_the_middle,
    "alp-gmm": _measured_everywhere,
    "random": _measured_everywhere,
}


def main() -> None:
    """Trains and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="point-mass-3d")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--iterations", type=int, help="of a training; the preset's")
    parser.add_argument("--runs", type=Path, default=Path("runs") / EXPERIMENT)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    command = command_line("benchmarks.wide_tasks")
    for method in arguments.methods:
        config = config_of(
            arguments.task, method, arguments.seeds, arguments.iterations
        )
        folder = arguments.runs / f"{arguments.task}_{AGENT}_{method}"
        run = trained(config, folder, command)
        write_records_beside(arguments.results, records_of(run))


if __name__ == "__main__":
    main()
