"""The figures of the point mass: learning curves and curriculum of TRPO, and what every learner does on the target task."""

from collections.abc import Iterable
from pathlib import Path

from benchmarks.paper.cells import AGENTS, ENVS, cells_of, comparison
from benchmarks.paper.pictures.curricula import CURRICULA, Curriculum, curriculum_curves
from benchmarks.paper.pictures.rollouts import rollout_grid
from benchmarks.paper.records import Runs, better, records_of, write_report
from spjax.analysis.snapshots import context_snapshots
from spjax.analysis.style import save
from spjax.runs.read import Run

NAME = "figure-point-mass"
LEARNER = "trpo"
SNAPSHOTS = (0, 20, 30, 50, 65, 120)  # iterations, as published
ROLLOUT_ENV, SNAPSHOT_ENV = ENVS
CELLS = [
    *comparison(agents=[LEARNER]),
    *comparison([ROLLOUT_ENV], [agent for agent in AGENTS if agent != LEARNER]),
]


def report(runs: Runs, results: Path) -> str:
    """Draws what is finished, writes the records of the runs drawn, and returns the captions with the pictures."""
    pictures = results / "pictures" / NAME
    lines = []
    curves = {env: list(shown(env, LEARNER, runs).values()) for env in ENVS}
    if drawn := {env: found for env, found in curves.items() if found}:
        caption = f"Return of the curricula for {LEARNER.upper()}; dashed: final returns that the paper prints"
        lines.append(
            _line(
                caption,
                save(curriculum_curves(drawn), pictures / "rewards.png"),
                results,
            )
        )
    if run := shown(SNAPSHOT_ENV, LEARNER, runs, CURRICULA[:1]).get(CURRICULA[0]):
        caption = f"Contexts of {CURRICULA[0].label} on {SNAPSHOT_ENV}, {LEARNER.upper()}: 20 samples of each seed"
        figure = context_snapshots(run, SNAPSHOTS)
        lines.append(_line(caption, save(figure, pictures / "contexts.png"), results))
    learners = {
        agent.upper(): found
        for agent in AGENTS
        if (found := shown(ROLLOUT_ENV, agent, runs))
    }
    if learners:
        caption = f"One episode of every seed on the target of {ROLLOUT_ENV}"
        figure = rollout_grid(learners, CURRICULA)
        lines.append(_line(caption, save(figure, pictures / "rollouts.png"), results))
    return write_report(
        results, NAME, records_of(NAME, CELLS, runs), "\n\n".join([*lines, ""])
    )


def shown(
    env: str, agent: str, runs: Runs, curricula: Iterable[Curriculum] = CURRICULA
) -> dict[Curriculum, Run]:
    """Returns the finished run of each curriculum; of two cells the better one, as in Table 1."""
    cells = {
        curriculum: better(cells_of(env, agent, curriculum), runs)
        for curriculum in curricula
    }
    return {curriculum: runs[cell.name] for curriculum, cell in cells.items() if cell}


def _line(caption: str, picture: Path, results: Path) -> str:
    return f"![{caption}]({picture.relative_to(results).as_posix()})"
