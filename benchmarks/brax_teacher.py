"""Brax's PPO with a teacher in its program, and at the target: ``python -m benchmarks.brax_teacher``.

The 2-D point mass, as many environment steps as the paper's experiments have. Both are Brax's own learner with the same settings;
one of them in the contexts of SPDL, which is updated as often as an iteration of the published learner has steps. Returns and
successes are those of drawn actions in contexts of the target distribution.

A seed is kept in a file of its own as soon as it is trained, so a command that was cut goes on with the next. Writes
``benchmarks/results/brax-teacher.json``, and a picture.
"""

import functools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tyro
from brax.training.agents.ppo import networks
from brax.training.agents.ppo import train as ppo
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks import command_line
from spjax.analysis import statistics, style
from spjax.analysis.records import record
from spjax.cache import keep_compiled_programs
from spjax.envs.adapters import brax
from spjax.envs.point_mass import PointMass
from spjax.presets.point_mass import BUFFER_SIZE, STD_FLOOR, ZETA
from spjax.runs.files import write_json
from spjax.runs.provenance import commit, device, versions
from spjax.runs.results import Record, write_records
from spjax.self_paced.schedules import Proportion
from spjax.teachers import SelfPaced, Target, Teacher

RESULTS = Path(__file__).parent / "results"
NAME = "brax-teacher"
DISCOUNT = 0.95  # of the point mass
SLOTS = 32
UNROLL = 64  # control steps of each slot between two updates of the policy
ITERATION = SLOTS * UNROLL  # 2,048 environment steps, as published
ITERATIONS = 400
EVALUATIONS = 20  # after the first, of a policy that has not learnt
EPISODES = 128  # of an evaluation
METRICS = {  # of the record: Brax's name
    "discounted_return": "eval/episode_discounted_return",
    "success_rate": "eval/episode_success",
}
LABELS = {
    "discounted_return": "discounted return on the target",
    "success_rate": "success rate on the target",
}

TASK = PointMass(dimensions=2)
TEACHERS: Mapping[str, Teacher] = {
    "self-paced": SelfPaced(
        value_source="return",
        schedule=Proportion(zeta=ZETA["ppo"], offset=9),
        warmup=5,
        buffer_size=BUFFER_SIZE,
        std_floor=STD_FLOOR["point-mass-2d"],
    ),
    "default": Target(),
}
NAMES = {"self-paced": "Brax PPO with SPDL", "default": "Brax PPO at the target"}


class Trained(NamedTuple):
    """What is kept of a seed; everything that its numbers depend on is in it."""

    steps: list[int]  # environment steps at the evaluations
    values: dict[str, list[float]]  # metric -> one an evaluation
    wall_seconds: float  # compiling too
    device: str
    versions: dict[str, str | None]
    commit: str | None
    iterations: int


def main(
    seeds: int = 5,
    iterations: int = ITERATIONS,
    evaluations: int = EVALUATIONS,
    results: Path = RESULTS,
    runs: Path = Path("runs") / NAME,
) -> None:
    """Trains what is missing and writes the record.

    Args:
        seeds: of each of the two.
        iterations: of 2,048 environment steps.
        evaluations: after the first.
        results: folder to write to.
        runs: folder of the seeds that are trained.
    """
    if iterations % evaluations:
        raise SystemExit(
            f"evaluations must divide the {iterations} iterations, got {evaluations}"
        )
    keep_compiled_programs()
    for seed in range(1, seeds + 1):
        for name in TEACHERS:
            kept = _kept(runs, name, seed, iterations)
            if not kept.is_file():
                write_json(kept, _train(name, seed, iterations, evaluations)._asdict())
    found = {
        name: [
            Trained(
                **json.loads(_kept(runs, name, seed, iterations).read_text("utf-8"))
            )
            for seed in range(1, seeds + 1)
        ]
        for name in TEACHERS
    }
    records = [entry for name in TEACHERS for entry in _records(name, found[name])]
    write_records(results / f"{NAME}.json", records)
    print(style.save(picture(records), results / "pictures" / NAME / "curves.png"))


def _kept(runs: Path, name: str, seed: int, iterations: int) -> Path:
    return runs / f"{name}-{iterations}-{seed}.json"


def _train(name: str, seed: int, iterations: int, evaluations: int) -> Trained:
    """Trains one seed with Brax's PPO."""
    steps: list[int] = []
    values: dict[str, list[float]] = {metric: [] for metric in METRICS}

    def progress(step: int, found: Mapping[str, Any]) -> None:
        steps.append(int(step))
        for metric, of_brax in METRICS.items():
            values[metric].append(float(found[of_brax]))
        shown = ", ".join(f"{metric} {row[-1]:.3g}" for metric, row in values.items())
        print(f"{NAMES[name]}, seed {seed}, {step:,} steps: {shown}", flush=True)

    begin = time.perf_counter()
    ppo.train(
        environment=brax.BraxTask(TASK),
        eval_env=brax.BraxTask(TASK, contexts=TASK.target),
        wrap_env_fn=brax.wrap(TEACHERS[name], every=UNROLL, discount=DISCOUNT),
        num_timesteps=iterations * ITERATION,
        episode_length=TASK.horizon,
        num_envs=SLOTS,
        unroll_length=UNROLL,
        batch_size=SLOTS // 8,
        num_minibatches=8,
        num_updates_per_batch=8,
        learning_rate=3e-4,
        discounting=DISCOUNT,
        gae_lambda=0.99,
        entropy_cost=0.0,
        clipping_epsilon=0.2,
        normalize_observations=True,
        network_factory=functools.partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=(64, 64),
            value_hidden_layer_sizes=(64, 64),
        ),
        num_evals=evaluations + 1,
        num_eval_envs=EPISODES,
        max_devices_per_host=1,
        progress_fn=progress,
        seed=seed,
    )
    return Trained(
        steps=steps,
        values=values,
        wall_seconds=time.perf_counter() - begin,
        device=device(),
        versions=versions(["brax"]),
        commit=commit(),
        iterations=iterations,
    )


def _records(name: str, found: Sequence[Trained]) -> list[Record]:
    """Returns a record for each metric and evaluation."""
    first = found[0]
    if any(one.steps != first.steps for one in found):
        raise SystemExit(
            f"the seeds of {NAMES[name]} were evaluated at different steps; give another --runs"
        )
    return [
        record(
            experiment=NAME,
            env="point-mass-2d",
            agent="brax-ppo",
            teacher=name,
            schedule="proportion" if name == "self-paced" else None,
            metric=metric,
            seeds=range(1, len(found) + 1),
            values=[one.values[metric][index] for one in found],
            iterations=steps // ITERATION,
            wall_seconds=sum(one.wall_seconds for one in found),
            device=first.device,
            versions=first.versions,
            commit=first.commit,
            command=command_line("benchmarks.brax_teacher"),
        )
        for metric in METRICS
        for index, steps in enumerate(first.steps)
    ]


@style.styled
def picture(records: Sequence[Record]) -> Figure:
    """Returns the curves of both: means over the seeds and two standard errors."""
    figure = Figure(figsize=(9.0, 3.4), layout="constrained")
    handles: list[Line2D] = []
    panels = figure.subplots(1, len(METRICS), squeeze=False)[0]
    for axes, metric in zip(panels, METRICS, strict=True):
        handles = []
        for index, name in enumerate(TEACHERS):
            rows = [
                entry
                for entry in records
                if entry["teacher"] == name and entry["metric"] == metric
            ]
            values = np.asarray([entry["values"] for entry in rows], dtype=float).T
            at = [entry["iterations"] for entry in rows]
            band = statistics.two_standard_errors(values)
            color, dashes = style.series_style(index, len(TEACHERS))
            axes.fill_between(at, band.low, band.high, color=color, alpha=0.18, lw=0)
            look: dict[str, Any] = {"color": color, "linestyle": dashes}
            handles += axes.plot(at, band.middle, label=NAMES[name], **look)
        axes.set_xlabel(f"iterations of {ITERATION:,} environment steps")
        axes.set_ylabel(LABELS[metric])
    style.legend_below(figure, handles)
    return figure


if __name__ == "__main__":
    tyro.cli(main)
