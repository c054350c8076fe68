"""How far the critic's value is from the return over contexts, and what that does to V_LB: ``python -m benchmarks.critic``.

    python -m benchmarks.critic [--tasks point-mass-3d point-mass-2d] [--seeds 20] [--iterations 400] [--contexts 200]
        [--runs runs/critic] [--results benchmarks/results/studies.json]

SPDL with V_LB moves on while the mean over the contexts of what the critic says of their first observations is at least V_LB
(Klink et al., 2021, Section 8). What should be is the expected return, J. PPO trains, and every `EVERY` iterations the policy
plays one episode in each of many contexts of the current distribution. Recorded, a value a seed:

    the mean error      V - J, over contexts and the measured iterations of each third of the training
    its spread          standard deviation of V - J over contexts, in that of the returns
    other decisions     share of the measured iterations in which mean V and mean J are on different sides of V_LB

and, since the released code offers both, how training with the returns of the episodes in place of the critic ends
(`value_source=return`). A training that was interrupted resumes. Writes ``benchmarks/results/studies.json``, beside what the
file has of other studies, and a picture of the errors over the training.
"""

import argparse
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree
from matplotlib.figure import Figure

import spjax
from benchmarks import command_line
from benchmarks.wide_tasks import trained
from spjax.analysis.records import record_of_group, records_of_run
from spjax.analysis.style import NEUTRAL, PALETTE, save, styled
from spjax.runs.read import Run
from spjax.runs.results import Record, write_records_beside
from spjax.training.config import RunConfig
from spjax.training.experiment import Experiment
from spjax.training.following import Report

STUDY = "critic"
RESULTS = Path(__file__).parent / "results" / "studies.json"
PICTURE = Path(__file__).parent / "results" / "pictures" / STUDY
TASKS = ("point-mass-3d", "point-mass-2d")
SOURCES = ("critic", "return")
EVERY = 20  # iterations between two measurements
THIRDS = ("first", "second", "last")
THRESHOLD = 5.0  # discounted return
ROWS = "critic.jsonl"  # in the run folder


def config_of(
    task: str, source: str, seeds: int, iterations: int | None = None
) -> RunConfig:
    """Returns PPO with SPDL (V_LB), whose V is the critic's or the mean return."""
    preset = spjax.preset(task, "ppo", "self-paced", "bound")
    return dataclasses.replace(
        preset,
        teacher=preset.teacher.changed(value_source=source),
        seeds=tuple(range(1, seeds + 1)),
        num_iterations=iterations or preset.num_iterations,
    )


class Measuring:
    """A callback that plays episodes in contexts of the current distribution, and writes what came of it to a file."""

    def __init__(self, file: Path, config: RunConfig, contexts: int) -> None:
        """Takes where to write, what is trained, and how many contexts to play."""
        self.file, self.contexts = file, contexts
        self.experiments = [config.experiment(lane) for lane in config.lanes()]
        self.measure = jax.jit(self._measure)

    def __call__(self, report: Report) -> None:
        """Measures all lanes, now and then."""
        if report.iteration % EVERY:
            return
        agents, teachers = report.agent_states(), report.teacher_states()
        with self.file.open("a", encoding="utf-8") as file:
            for place, lane in enumerate(report.going_on):
                agent, teacher = (
                    jax.tree.map(lambda leaf, place=place: leaf[place], states)
                    for states in (agents, teachers)
                )
                key = jax.random.fold_in(jax.random.key(lane), report.iteration)
                found = self.measure(self.experiments[lane], agent, teacher, key)
                row = {name: float(value) for name, value in found.items()}
                row |= {"lane": lane, "iteration": report.iteration}
                file.write(json.dumps(row) + "\n")

    def _measure(
        self, experiment: Experiment, agent: PyTree, teacher: PyTree, key: Array
    ) -> dict[str, Float[Array, ""]]:
        key_contexts, key_reset, key_play = jax.random.split(key, 3)
        task, collector = experiment.task, experiment.collector
        contexts = experiment.teacher.sample_many(
            teacher, key_contexts, task.context_space, self.contexts
        )
        keys = jax.random.split(key_reset, self.contexts)
        first = jax.vmap(task.reset)(keys, contexts).observation
        values = collector.value(agent)(first)
        outcome, _ = collector.play(agent, key_play, contexts)
        return numbers_of(values, outcome.discounted_return)


def numbers_of(
    values: Float[Array, " context"], returns: Float[Array, " context"]
) -> dict[str, Float[Array, ""]]:
    """Returns means of V and J over contexts, and the spread of V - J in units of the returns' own."""
    error = values - returns
    return {
        "value": values.mean(),
        "return": returns.mean(),
        "spread": error.std() / (returns.std() + 1e-6),
    }


def read_rows(file: Path, lanes: int) -> dict[str, Float[np.ndarray, "lane point"]]:
    """Returns the measured numbers; of what was measured again after a cut, the last."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found[row["lane"], row["iteration"]] = row
    iterations = sorted({iteration for _, iteration in found})
    blank = {"value": np.nan, "return": np.nan, "spread": np.nan}
    return {
        name: np.array(
            [
                [found.get((lane, k), blank)[name] for k in iterations]
                for lane in range(lanes)
            ]
        )
        for name in blank
    } | {"iteration": np.array(iterations, float)}


def records_of(run: Run, bound: float) -> Iterator[Record]:
    """Yields the records of a run."""
    (group,) = run.groups()
    rows = read_rows(run.path / ROWS, len(run.config.lanes))
    error = rows["value"] - rows["return"]
    other = np.where(
        np.isnan(error), np.nan, (rows["value"] >= bound) != (rows["return"] >= bound)
    )
    measured = {
        f"critic's value less the return, {third} third": part.mean(axis=1)
        for third, part in zip(THIRDS, np.array_split(error, 3, axis=1), strict=True)
    }
    measured |= {
        "spread of that over contexts, in that of the returns": rows["spread"].mean(
            axis=1
        ),
        "share of other decisions on V_LB": other.mean(axis=1),
    }
    source = run.config.settings["teacher"]["value_source"]
    how = {"study": STUDY, "teacher.value_source": source}
    records = [
        record_of_group(run, group, "studies", metric, values)
        for metric, values in measured.items()
    ]
    for one in [*records, *records_of_run(run, "studies", THRESHOLD)]:
        yield Record(**{**one, "settings": {**one["settings"], **how}})


@styled
def picture_of(runs: dict[str, Run], bound: float) -> Figure:
    """Returns a panel a source of V: V and J over the training, mean and two standard errors over the seeds; a line at V_LB."""
    figure = Figure(figsize=(4.2 * len(runs), 3.4), layout="constrained")
    panels = figure.subplots(1, len(runs), sharey=True, squeeze=False)[0]
    for axes, (source, run) in zip(panels, runs.items(), strict=True):
        rows = read_rows(run.path / ROWS, len(run.config.lanes))
        labels = {"value": "V of the critic", "return": "J, one episode a context"}
        for (name, label), color in zip(labels.items(), PALETTE, strict=False):
            mean = rows[name].mean(axis=0)
            error = 2 * rows[name].std(axis=0) / np.sqrt(len(rows[name]))
            axes.plot(rows["iteration"], mean, color=color, label=label)
            axes.fill_between(
                rows["iteration"], mean - error, mean + error, color=color, alpha=0.2
            )
        axes.axhline(bound, color=NEUTRAL, linewidth=0.8)
        axes.set_title(f"curriculum by the {source}", fontsize=9)
        axes.set_xlabel("iteration")
    panels[0].set_ylabel("over contexts of the curriculum")
    panels[0].legend(fontsize=8)
    return figure


def main() -> None:
    """Trains, writes the records and draws the pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--iterations", type=int, help="of a training; the preset's")
    parser.add_argument("--contexts", type=int, default=200, help="of a measurement")
    parser.add_argument("--runs", type=Path, default=Path("runs") / STUDY)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE, help="its folder")
    arguments = parser.parse_args()
    command = command_line("benchmarks.critic")
    for task in arguments.tasks:
        runs = {}
        for source in SOURCES:
            config = config_of(task, source, arguments.seeds, arguments.iterations)
            bound = float(config.teacher.schedule.performance_bound)
            folder = arguments.runs / f"{task}_{source}"
            measuring = Measuring(folder / ROWS, config, arguments.contexts)
            runs[source] = trained(config, folder, command, measuring)
            records = list(records_of(runs[source], bound))
            write_records_beside(arguments.results, records)
        save(picture_of(runs, bound), arguments.picture / f"{task}.png")


if __name__ == "__main__":
    main()
