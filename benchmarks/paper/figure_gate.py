"""The figure of the gate: rewards of every episodic method, and where SPRL's contexts are; with a table of the ends."""

from pathlib import Path

from benchmarks.paper.episodic import (
    COLUMNS,
    TITLES,
    cells_of,
    finished,
    panels,
    table_rows,
)
from benchmarks.paper.pictures.episodic import (
    METHODS,
    context_ellipses,
    quantile_curves,
)
from benchmarks.paper.records import Runs, records_of, write_report
from spjax.analysis.style import save
from spjax.analysis.tables import markdown

__all__ = ["CELLS", "NAME", "report"]

NAME = "figure-gate"
ENVS = ("gate-precision", "gate-global")
CELLS = cells_of(*ENVS)
SNAPSHOTS = {
    "gate-precision": (20, 80, 130, 210, 320),
    "gate-global": (50, 150, 250, 400),
}  # as published
HEADER = ("setting", *COLUMNS)
NOTES = """
Medians over the runs, in brackets the 10 % and 90 % quantiles: reward and successes of 100 rollouts in target contexts at the
end of the training (CMA-ES: at the mean of the target, where it learns), and the iterations until 95 % of SPRL's median reward
at the end, interpolated between evaluations; in brackets the runs that never get there, which count as the last iteration. An
iteration has 100 rollouts. CMA-ES in the global setting, which learns the gate in the middle alone, is not in the paper. Times
are those of all runs of a method together in one program, compiling included.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the table and the pictures of what is finished, and returns the table in Markdown."""
    rows = [
        [TITLES[env], *row]
        for env in ENVS
        for row in table_rows(finished(env, runs), 1)
    ]
    pictures = [
        f"![{caption}]({file.relative_to(results).as_posix()})"
        for caption, file in _draw(runs, results)
    ]
    text = "\n\n".join([markdown(HEADER, 2, rows) + NOTES.rstrip(), *pictures, ""])
    return write_report(results, NAME, records_of(NAME, CELLS, runs), text)


def _draw(runs: Runs, results: Path) -> list[tuple[str, Path]]:
    """Returns the captions and files of the pictures."""
    shown = panels(runs, *ENVS)
    if not shown:
        return []
    folder = results / "pictures" / NAME
    figure = quantile_curves(shown, "discounted_return")
    drawn = [
        (
            "Reward of the episodic learners on the gate",
            save(figure, folder / "rewards.png"),
        )
    ]
    moving = {
        TITLES[env]: (found[METHODS[0]], SNAPSHOTS[env])
        for env in ENVS
        if METHODS[0] in (found := finished(env, runs))
    }
    if moving:
        caption = "SPRL's context distribution, two standard deviations, after several iterations"
        drawn.append((caption, save(context_ellipses(moving), folder / "contexts.png")))
    return drawn
