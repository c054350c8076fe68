"""Where an iteration's time goes: ``python -m benchmarks.speed.breakdown`` times learner, teacher and evaluation apart.

Trains a sweep of the 3-D point mass for a number of iterations, so that the curriculum is on its way, then times the parts
of the next iteration over all lanes, as the training program runs them. Writes ``benchmarks/results/breakdown.json``.
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import tyro

import spjax
from benchmarks import command_line
from spjax.analysis.records import measured_here
from spjax.runs.results import Record, write_records
from spjax.training.experiment import Experiment, RunState
from spjax.training.program import Program

RESULTS = Path(__file__).parents[1] / "results" / "breakdown.json"
REPETITIONS = 10


def main(seeds: int = 20, iterations: int = 60, results: Path = RESULTS) -> None:
    """Measures the parts of an iteration.

    Args:
        seeds: lanes of the sweep.
        iterations: trained before the measurement.
        results: file to write.
    """
    records: list[Record] = []
    for schedule in ("proportion", "bound"):
        config = dataclasses.replace(
            spjax.preset("point-mass-3d", schedule=schedule),
            seeds=tuple(range(1, seeds + 1)),
        )
        program = Program.of(config.experiments())
        chunk, _ = program.compile(iterations)
        states, _, _ = chunk(program.init(list(config.seeds)), iterations)
        episodes = program.layout.part(
            program.on_lanes(_learn, states), lambda lane: lane[1]
        )
        parts = {
            "learner": _timed(program, _learn, states),
            "teacher": _timed(program, _teach, states, episodes),
            "evaluation": _timed(program, _evaluate, states),
        }
        iteration = (
            parts["learner"]
            + parts["teacher"]
            + parts["evaluation"] / config.evaluate_every
        )
        parts["teacher share of an iteration"] = parts["teacher"] / iteration
        for name, value in parts.items():
            metric = name if "share" in name else f"{name}: ms a seed"
            records.append(
                _record(
                    schedule,
                    metric,
                    value if "share" in name else 1e3 * value / seeds,
                    seeds,
                )
            )
            print(f"{schedule:10}  {metric:32}  {records[-1]['mean']:.4g}")
    write_records(results, records)


def _learn(experiment: Experiment, state: RunState) -> Any:
    agent_state, _, episodes, _ = experiment.learn(state)
    return agent_state, episodes


def _teach(experiment: Experiment, state: RunState, episodes: Any) -> Any:
    return experiment.teach(state, state.agent_state, episodes)


def _evaluate(experiment: Experiment, state: RunState) -> Any:
    return experiment.evaluate(state, jax.random.fold_in(state.key, state.iteration))


def _timed(program: Program, function: Callable[..., Any], *lanes: Any) -> float:
    """Returns the median seconds of a call after the first."""
    compiled = program.compiled(function, *lanes)
    jax.block_until_ready(compiled(program.experiments, *lanes))
    seconds = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        jax.block_until_ready(compiled(program.experiments, *lanes))
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[REPETITIONS // 2]


def _record(schedule: str, metric: str, value: float, seeds: int) -> Record:
    return measured_here(
        experiment="breakdown",
        env="point-mass-3d",
        agent="ppo",
        teacher="self-paced",
        schedule=schedule,
        metric=metric,
        seeds=[seeds],
        values=[value],
        command=command_line("benchmarks.speed.breakdown"),
    )


if __name__ == "__main__":
    tyro.cli(main)
