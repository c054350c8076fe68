"""Does a schedule that was learned on a surrogate beat a constant zeta? The 3-D point mass, and 20 constants.

    python -m benchmarks.meta_schedule [--seeds 20] [--iterations 400] [--steps 60] [--surrogate-alone]
        [--runs runs/meta-schedule] [--results benchmarks/results/studies.json]

learns zeta, K_alpha and the width of the onset by gradients through a surrogate (`spjax.meta`), no step of the task among
them, and compares with each of 20 constants: on the surrogate itself, with noise that it was not learned on, and, unless that
is all that is asked for, with PPO and SPDL on the point mass, from the same seeds; what was interrupted is resumed. Writes
``benchmarks/results/studies.json``, beside what the file has of other studies: the return on the target at the end and on the
average of a training, of every constant and of the learned schedule, and by how much that is better than the best constant.
The best constant is chosen with the very returns that it is compared by, which favours it; what the surrogate knows of the
task is two distributions and the two numbers below, neither of which was fitted.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

import spjax
from benchmarks import command_line
from spjax import meta
from spjax.analysis.records import measured_here, record_of_group
from spjax.runs.read import Group, Run, load_run, read_summary
from spjax.runs.results import Record, write_records_beside
from spjax.self_paced.smooth import SmoothProportion
from spjax.teachers import SelfPaced
from spjax.training.config import RunConfig

EXPERIMENT = "studies"
RESULTS = Path(__file__).parent / "results" / f"{EXPERIMENT}.json"
TASK, AGENT, TEACHER = "point-mass-3d", "ppo", "self-paced"
ZETA = "teacher.schedule.zeta"
GRID = tuple(round(float(zeta), 3) for zeta in np.geomspace(0.1, 20.0, 20))
NAMES = ("zeta", "offset", "width")  # of the schedule's settings, learned
LEARNED = tuple(f"schedule.{name}" for name in NAMES)
RATE, BEST = 0.05, 8.0  # of the surrogate's learner: share an iteration, return
NUM_ITERATIONS = 150  # of the surrogate: so many, the trust region needs 50
NUM_EPISODES = 20  # of an iteration, as in a training
LEARNING_RATE = 0.1
STEP = 0.01  # updates; an onset so narrow is the published one
METRICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "return at the end": lambda curves: curves[:, -1],
    "return, mean over a training": lambda curves: curves.mean(axis=1),
}


def config_of_grid(seeds: int, iterations: int | None = None) -> RunConfig:
    """Returns the preset with all constants, in one sweep; its own length where none is given."""
    return _shortened(spjax.preset(TASK, AGENT, TEACHER), seeds, iterations, GRID)


def surrogate_and_teacher() -> tuple[meta.Surrogate, SelfPaced]:
    """Returns what the schedule is learned on, and the preset's teacher with an onset that has a derivative."""
    preset = spjax.preset(TASK, AGENT, TEACHER)
    task, published = preset.task, preset.teacher.schedule
    start = SmoothProportion(published.zeta, float(published.offset))
    teacher = preset.teacher.bound_to(task).changed(
        schedule=start, buffer_size=5 * NUM_EPISODES
    )
    summary = teacher.starts_at.summary()
    learner = meta.Follower(summary.mean, summary.std, rate=RATE, best=BEST)
    surrogate = meta.Surrogate(
        learner, task.context_space, NUM_ITERATIONS, NUM_EPISODES
    )
    return surrogate, teacher


def learn_schedule(steps: int) -> SmoothProportion:
    """Returns the schedule that the surrogate's gradients lead to from the preset's settings."""
    fitted = meta.fit(
        *surrogate_and_teacher(),
        jax.random.key(0),
        meta.performance_missed_on_the_way,
        learn=LEARNED,
        num_steps=steps,
        learning_rate=LEARNING_RATE,
    )
    schedule = fitted.teacher.schedule
    return schedule.changed(**{name: float(getattr(schedule, name)) for name in NAMES})


def surrogate_records(
    schedule: SmoothProportion, seeds: int, command: str
) -> list[Record]:
    """Returns the records of the comparison on the surrogate, a seed for each of so many keys."""
    surrogate, teacher = surrogate_and_teacher()
    keys = jax.random.split(jax.random.key(1), seeds)

    @jax.jit
    def returns(schedule: SmoothProportion) -> Array:
        changed = teacher.changed(schedule=schedule)
        return -jax.vmap(
            lambda key: meta.performance_missed_on_the_way(
                meta.unroll(surrogate, changed, key)
            )
        )(keys)

    learned = np.asarray(returns(schedule))
    compared: list[Compared] = []
    for where, offset in (
        ("published", teacher.schedule.offset),
        ("learned", schedule.offset),
    ):
        constants = {
            zeta: np.asarray(returns(SmoothProportion(zeta, offset, STEP)))
            for zeta in GRID
        }
        metric = f"return on the surrogate, constants at the {where} K_alpha"
        compared += comparison(metric, constants, learned, schedule)
    return [
        measured_here(
            command=command,
            experiment=EXPERIMENT,
            env=f"surrogate of {TASK}",
            agent="follower",
            teacher=TEACHER,
            seeds=range(seeds),
            iterations=NUM_ITERATIONS,
            metric=one.metric,
            values=one.values,
            settings=one.settings,
        )
        for one in compared
    ]


def config_of_learned(
    schedule: SmoothProportion, seeds: int, iterations: int | None = None
) -> RunConfig:
    """Returns the preset with the learned schedule."""
    preset = spjax.preset(TASK, AGENT, TEACHER)
    teacher = preset.teacher.changed(schedule=schedule)
    preset = dataclasses.replace(preset, teacher=teacher)
    return _shortened(preset, seeds, iterations)


def _shortened(
    config: RunConfig,
    seeds: int,
    iterations: int | None,
    grid: tuple[float, ...] = (),
) -> RunConfig:
    return dataclasses.replace(
        config,
        seeds=tuple(range(1, seeds + 1)),
        over={ZETA: grid} if grid else {},
        num_iterations=iterations or config.num_iterations,
    )


def trained(make: Callable[[], RunConfig], folder: Path, command: str) -> Run:
    """Returns the finished run, which is trained, resumed, or there already; its settings are made where it is new."""
    if not (folder / "config.json").is_file():
        spjax.train(make(), folder, command=command)
    elif read_summary(folder) is None:
        spjax.resume(folder)
    return load_run(folder)


class Compared(NamedTuple):
    """What a record is made of."""

    metric: str
    values: np.ndarray  # one a seed
    settings: dict[str, float]


def comparison(
    metric: str,
    constants: Mapping[float, np.ndarray],
    learned: np.ndarray,
    schedule: SmoothProportion,
) -> list[Compared]:
    """Returns every constant, the learned schedule, and that less the best constant, seed by seed."""
    spelled = {f"teacher.schedule.{name}": getattr(schedule, name) for name in NAMES}
    best = max(constants, key=lambda zeta: constants[zeta].mean())
    return [
        *(
            Compared(f"{metric}, constant zeta", values, {ZETA: zeta})
            for zeta, values in constants.items()
        ),
        Compared(f"{metric}, learned schedule", learned, spelled),
        Compared(
            f"{metric}, learned less the best constant",
            learned - constants[best],
            {"constants": len(constants)},
        ),
    ]


def records_of(grid: Run, learned: Run) -> list[Record]:
    """Returns the records of both trainings."""
    (own,) = learned.groups()
    groups = {group.settings[ZETA]: group for group in grid.groups()}
    records = []
    for metric, of in METRICS.items():
        constants = {zeta: of(_returns(grid, group)) for zeta, group in groups.items()}
        found = of(_returns(learned, own))
        for one in comparison(metric, constants, found, schedule_of(learned)):
            run, group = (
                (grid, groups[one.settings[ZETA]])
                if one.metric.endswith("constant zeta")
                else (learned, own)
            )
            record = record_of_group(run, group, EXPERIMENT, one.metric, one.values)
            records.append(Record(**{**record, "settings": one.settings}))
    return records


def schedule_of(learned: Run) -> SmoothProportion:
    """Returns the schedule that a run was trained with."""
    spelled = learned.config.settings["teacher"]["schedule"]
    return SmoothProportion(**{name: spelled[name] for name in NAMES})


def _returns(run: Run, group: Group) -> np.ndarray:
    """Returns the returns on the target, [seed, evaluation]."""
    return run.evaluation_curves("discounted_return", group).values


def main() -> None:
    """Learns, trains and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--iterations", type=int, help="of a training; the preset's")
    parser.add_argument("--steps", type=int, default=60, help="of learning")
    parser.add_argument(
        "--surrogate-alone", action="store_true", help="compare there, train nothing"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs") / "meta-schedule")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    seeds, iterations = arguments.seeds, arguments.iterations
    command = command_line("benchmarks.meta_schedule")
    if arguments.surrogate_alone:
        schedule = learn_schedule(arguments.steps)
        records = surrogate_records(schedule, seeds, command)
    else:
        learned = trained(
            lambda: config_of_learned(
                learn_schedule(arguments.steps), seeds, iterations
            ),
            arguments.runs / "learned",
            command,
        )
        grid = trained(
            lambda: config_of_grid(seeds, iterations), arguments.runs / "grid", command
        )
        records = surrogate_records(schedule_of(learned), seeds, command)
        records += records_of(grid, learned)
    write_records_beside(arguments.results, records)
    for record in records:
        print(f"{record['metric']} {record['settings']}: {record['mean']}")


if __name__ == "__main__":
    main()
