"""Does a schedule that was learned on a surrogate beat a constant zeta? The 3-D point mass, and 20 constants.

    python -m benchmarks.meta_schedule [--seeds 20] [--iterations 400] [--steps 60] [--runs runs/meta-schedule]
        [--results benchmarks/results/studies.json]

learns zeta, K_alpha and the width of the onset by gradients through a surrogate (`spjax.meta`), no step of the task among
them; then trains PPO with SPDL on the point mass, with the learned schedule and with each of 20 constants, from the same seeds,
or resumes what was interrupted. Writes ``benchmarks/results/studies.json``, beside what the file has of other studies: the
return on the target at the end and on the average of a training, of every constant and of the learned schedule, and by how much
that is better than the best constant. The best constant is chosen with the very returns that it is compared by, which favours
it; what the surrogate knows of the task is two distributions and the three numbers below, none of which was fitted.
"""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

import spjax
from benchmarks import command_line
from spjax import meta
from spjax.analysis.records import record_of_group
from spjax.runs.read import Group, Run, load_run, read_summary
from spjax.runs.results import Record, write_records_beside
from spjax.self_paced.smooth import SmoothProportion
from spjax.training.config import RunConfig

EXPERIMENT = "studies"
RESULTS = Path(__file__).parent / "results" / f"{EXPERIMENT}.json"
TASK, AGENT, TEACHER = "point-mass-3d", "ppo", "self-paced"
ZETA = "teacher.schedule.zeta"
GRID = tuple(round(float(zeta), 3) for zeta in np.geomspace(0.1, 20.0, 20))
LEARNED = ("schedule.zeta", "schedule.offset", "schedule.width")
RATE, BEST = 0.05, 8.0  # of the surrogate's learner: share an iteration, return
NUM_ITERATIONS = 150  # of the surrogate: so many, the trust region needs 50
NUM_EPISODES = 20  # of an iteration, as in a training
LEARNING_RATE = 0.1
METRICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "return at the end": lambda curves: curves[:, -1],
    "return, mean over a training": lambda curves: curves.mean(axis=1),
}


def config_of_grid(seeds: int, iterations: int | None = None) -> RunConfig:
    """Returns the preset with all constants, in one sweep; its own length where none is given."""
    return _shortened(spjax.preset(TASK, AGENT, TEACHER), seeds, iterations, GRID)


def learn_schedule(steps: int) -> meta.Fitted:
    """Returns the preset's teacher with the schedule that the surrogate's gradients lead to from the preset's settings."""
    preset = spjax.preset(TASK, AGENT, TEACHER)
    task = preset.task
    published = preset.teacher.schedule
    start = SmoothProportion(published.zeta, float(published.offset))
    teacher = preset.teacher.bound_to(task).changed(
        schedule=start, buffer_size=5 * NUM_EPISODES
    )
    summary = teacher.starts_at.summary()
    learner = meta.Follower(summary.mean, summary.std, rate=RATE, best=BEST)
    surrogate = meta.Surrogate(
        learner, task.context_space, NUM_ITERATIONS, NUM_EPISODES
    )
    return meta.fit(
        surrogate,
        teacher,
        jax.random.key(0),
        meta.performance_missed_on_the_way,
        learn=LEARNED,
        num_steps=steps,
        learning_rate=LEARNING_RATE,
    )


def config_of_learned(
    fitted: meta.Fitted, seeds: int, iterations: int | None = None
) -> RunConfig:
    """Returns the preset with the learned schedule."""
    preset = spjax.preset(TASK, AGENT, TEACHER)
    teacher = preset.teacher.changed(schedule=fitted.teacher.schedule)
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


def records_of(grid: Run, learned: Run) -> list[Record]:
    """Returns the records of both runs: every schedule, and the learned one less the best constant, seed by seed."""
    records = []
    (group,) = learned.groups()
    schedule = learned.config.settings["teacher"]["schedule"]
    spelled = {f"teacher.schedule.{name}": schedule[name] for name in _names()}
    for metric, of in METRICS.items():
        constants = {
            one.settings[ZETA]: of(_curves(grid, one)) for one in grid.groups()
        }
        best = max(constants, key=lambda zeta: constants[zeta].mean())
        found = of(_curves(learned, group))
        records += [
            _record(
                grid, one, f"{metric}, constant zeta", constants[one.settings[ZETA]]
            )
            for one in grid.groups()
        ]
        records += [
            _with_settings(_record(learned, group, name, values), settings)
            for name, values, settings in (
                (f"{metric}, learned schedule", found, spelled),
                (
                    f"{metric}, learned less the best constant",
                    found - constants[best],
                    {"constants": len(constants)},
                ),
            )
        ]
    return records


def _names() -> tuple[str, ...]:
    return tuple(name.rpartition(".")[2] for name in LEARNED)


def _curves(run: Run, group: Group) -> np.ndarray:
    """Returns the returns on the target, [seed, evaluation]."""
    return run.evaluation_curves("discounted_return", group).values


def _record(run: Run, group: Group, metric: str, values: np.ndarray) -> Record:
    return record_of_group(run, group, EXPERIMENT, metric, values)


def _with_settings(record: Record, settings: dict[str, float]) -> Record:
    return Record(**{**record, "settings": settings})


def main() -> None:
    """Learns, trains and writes the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--iterations", type=int, help="of a training; the preset's")
    parser.add_argument("--steps", type=int, default=60, help="of learning")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "meta-schedule")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    seeds, iterations = arguments.seeds, arguments.iterations
    command = command_line("benchmarks.meta_schedule")

    def learned_config() -> RunConfig:
        fitted = learn_schedule(arguments.steps)
        config = config_of_learned(fitted, seeds, iterations)
        first, last = float(fitted.losses[0]), float(fitted.losses[-1])
        print(
            f"loss on the surrogate {first:.3f} -> {last:.3f}: {config.teacher.schedule}"
        )
        return config

    learned = trained(learned_config, arguments.runs / "learned", command)
    grid = trained(
        lambda: config_of_grid(seeds, iterations), arguments.runs / "grid", command
    )
    records = records_of(grid, learned)
    write_records_beside(arguments.results, records)
    for record in records:
        if "constant zeta" not in record["metric"]:
            print(f"{record['metric']}: {record['mean']} of {record['values']}")


if __name__ == "__main__":
    main()
