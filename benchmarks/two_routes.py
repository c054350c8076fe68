"""Which context families keep both ways to a target with two modes: four of them on the two-route gate.

    python -m benchmarks.two_routes [--families particles gaussian discrete mixture] [--seeds 40] [--iterations 80]
        [--runs runs/two-routes] [--results benchmarks/results/studies.json]

trains C-REPS with each, or resumes what was interrupted, one run folder after another. All start from one Gaussian and share
the agent, schedule and trust region; a Gaussian's target is the one with the moments of the mixture that the others aim at,
and the result is measured on that mixture by all. A run keeps both modes where at least a quarter of the contexts of its
last five evaluations lies within `NEAR` of either target's gate. Writes ``benchmarks/results/studies.json``, beside what the
file has of other studies and families, and a picture of the contexts at the end.
"""

import argparse
import dataclasses
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

import spjax
from benchmarks import command_line
from benchmarks.wide_tasks import trained
from spjax.analysis.records import record_of_group
from spjax.analysis.style import NEUTRAL, PALETTE, save, styled
from spjax.contexts import ContextDistribution, Discrete, Gaussian, Mixture
from spjax.envs.two_route_gate import TARGETS
from spjax.runs.read import Run
from spjax.runs.results import Record, write_records_beside
from spjax.training.config import RunConfig

STUDY = "two-routes"
RESULTS = Path(__file__).parent / "results" / "studies.json"
PICTURE = Path(__file__).parent / "results" / "pictures" / STUDY
FAMILIES = ("particles", "gaussian", "discrete", "mixture")
NEAR = 1.0  # m, of the gate's position
LEAST_SHARE = 0.25  # of the contexts near a target; half of its due
EVALUATIONS = 5  # the last ones, whose contexts count
CELLS = (41, 29)  # rows of the discrete table
LEAST_WEIGHT = 1e-30  # of a row, which the target must have


def config_of(family: str, seeds: int, iterations: int | None = None) -> RunConfig:
    """Returns the preset of the task with a family; its own length where none is given."""
    teacher = "self-paced-particles" if family == "particles" else "self-paced"
    preset = spjax.preset("two-route-gate", "c-reps", teacher)
    initial, target = _distributions(family, preset.task.initial, preset.task.target)
    return dataclasses.replace(
        preset,
        teacher=preset.teacher.changed(initial=initial, target=target),
        seeds=tuple(range(1, seeds + 1)),
        num_iterations=iterations or preset.num_iterations,
    )


def _distributions(
    family: str, initial: Mixture, target: Mixture
) -> tuple[ContextDistribution, ContextDistribution]:
    """Returns where contexts start and where they go; the start is one Gaussian, whichever the family."""
    if family == "mixture":
        return initial, target
    start = initial.component(0)
    if family == "particles":
        return start, target
    if family == "discrete":
        return _on_cells(start), _on_cells(target)
    moments = target.summary()
    return start, Gaussian.from_std(np.asarray(moments.mean), np.asarray(moments.std))


def _on_cells(density: ContextDistribution) -> Discrete:
    """Returns a density as weights of a grid."""
    space = spjax.preset("two-route-gate").task.context_space
    axes = [
        np.linspace(*ends) for ends in zip(space.lower, space.upper, CELLS, strict=True)
    ]
    table = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    logs = np.asarray(jax.vmap(density.log_prob)(table.astype(np.float32)))
    return Discrete.from_weights(
        table.round(6), np.maximum(np.exp(logs - logs.max()), LEAST_WEIGHT)
    )


def last_contexts(run: Run) -> Float[np.ndarray, "seed context 2"]:
    """Returns the contexts of the last evaluations of every seed."""
    rows = run.evaluation.sort_by([("lane", "ascending"), ("iteration", "ascending")])
    lanes = len(run.config.lanes)
    drawn = np.asarray(rows["contexts"].to_pylist()).reshape(lanes, -1, 20, 2)
    return drawn[:, -EVALUATIONS:].reshape(lanes, -1, 2)


def keeps_both(contexts: Float[np.ndarray, "seed context 2"]) -> np.ndarray:
    """Returns for each seed whether enough of its contexts are near either target."""
    shares = [(np.abs(contexts[..., 0] - end) < NEAR).mean(axis=1) for end in TARGETS]
    return np.min(shares, axis=0) >= LEAST_SHARE


def records_of(run: Run, family: str) -> list[Record]:
    """Returns the records of the study's two claims."""
    (group,) = run.groups()
    returns = np.asarray(run.evaluation_curves("discounted_return", group).values)
    measured = {
        "reward": returns[:, -EVALUATIONS:].mean(axis=1),
        "share of runs that keep both modes": keeps_both(last_contexts(run)),
    }
    records = [
        record_of_group(run, group, STUDY, metric, np.asarray(values, float))
        for metric, values in measured.items()
    ]
    how = {"study": STUDY, "family": family}
    again = f"python -m benchmarks.two_routes --families {family}"
    return [
        Record(**{**one, "settings": {**one["settings"], **how}, "command": again})
        for one in records
    ]


@styled
def picture_of(runs: dict[str, Run]) -> Figure:
    """Returns the contexts at the end of all seeds, a panel a family; lines are the positions of the targets."""
    figure = Figure(figsize=(2.6 * len(runs), 2.6), layout="constrained")
    panels = figure.subplots(1, len(runs), sharex=True, sharey=True, squeeze=False)[0]
    for axes, color, (family, run) in zip(panels, PALETTE, runs.items(), strict=False):
        contexts = last_contexts(run)
        kept = keeps_both(contexts)
        points = contexts.reshape(-1, 2)
        for end in TARGETS:
            axes.axvline(end, color=NEUTRAL, linewidth=0.8)
        axes.scatter(*points.T, s=4, color=color, alpha=0.3, linewidths=0)
        axes.set_title(f"{family}: {kept.sum()} of {kept.size} keep both", fontsize=9)
        axes.set_xlabel("gate position (m)")
    panels[0].set_ylabel("gate half-width (m)")
    panels[0].set_xlim(-5.2, 5.2)
    return figure


def main() -> None:
    """Trains, writes the records and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--families", nargs="+", choices=FAMILIES, default=list(FAMILIES)
    )
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--iterations", type=int, help="of a training; the preset's")
    parser.add_argument("--runs", type=Path, default=Path("runs") / STUDY)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--picture", type=Path, default=PICTURE, help="its folder")
    arguments = parser.parse_args()
    command = command_line("benchmarks.two_routes")
    runs = {}
    for family in arguments.families:
        config = config_of(family, arguments.seeds, arguments.iterations)
        runs[family] = trained(config, arguments.runs / family, command)
        records = records_of(runs[family], family)
        write_records_beside(arguments.results, records)
        for one in records:
            print(f"{family}: {one['metric']} {one['mean']:.3f}", flush=True)
    arguments.picture.mkdir(parents=True, exist_ok=True)
    save(picture_of(runs), arguments.picture / "contexts.png")


if __name__ == "__main__":
    main()
