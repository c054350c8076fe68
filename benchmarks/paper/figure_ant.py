"""The ant: returns of every curriculum, what 200 episodes do at the gate, and where SPDL's contexts are.

The paper runs PPO alone, and prints numbers of the two self-paced curricula only, in its Table 2; so does `table-2` here.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.ant import fans
from benchmarks.paper.pictures.curricula import (
    CURRICULA,
    Curriculum,
    curriculum_curves,
)
from benchmarks.paper.records import (
    Runs,
    final_return,
    final_success_rate,
    records_of,
    write_report,
)
from benchmarks.paper.table_1 import OPEN, paper_text
from spjax.analysis.curves import Metric
from spjax.analysis.records import record_of_group, reference_of
from spjax.analysis.snapshots import context_snapshots
from spjax.analysis.style import save
from spjax.analysis.tables import estimate_text, finite_values, markdown
from spjax.envs.ant import Ant
from spjax.presets.ant import NUM_ITERATIONS
from spjax.runs.read import Run
from spjax.runs.results import Record

NAME = "figure-ant"
ENV, LEARNER = "ant", "ppo"
ROWS = [curriculum for curriculum in CURRICULA if curriculum.in_paper]
CELLS = [Cell(ENV, LEARNER, curriculum) for curriculum in ROWS]
SNAPSHOTS = (0, 30, 60, 90, 120, 200)  # iterations
UNDISCOUNTED: Metric = "episode_return"
DISCOUNT, LARGEST_REWARD = 0.995, 6.0
HORIZON = Ant().horizon
MOST = LARGEST_REWARD * (1 - DISCOUNT**HORIZON) / (1 - DISCOUNT)
HEADER = (
    "curriculum",
    "seeds",
    "return",
    "paper",
    "discounted return",
    "behind the wall [%]",
)
NOTES = f"""
Mean ± one standard error over the seeds after {NUM_ITERATIONS} iterations of 81,920 steps, of 50 episodes at the target.
Beside the return the paper's value and the p-value of Welch's t-test between the two (20 seeds there). – is not in
print, {OPEN} is not trained yet. The paper's returns are compared with ours without discount, whose maximum is
{LARGEST_REWARD * HORIZON:,.0f}: the largest discounted one that the printed reward, horizon and discount allow is {MOST:,.0f},
less than what is printed. The environment behind them was never released; what is not printed of it was chosen here.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the table and the pictures of what is finished, and returns the text."""
    found = {cell.curriculum: runs[cell.name] for cell in CELLS if cell.name in runs}
    records = [
        entry
        for entry in records_of(NAME, CELLS, runs)
        if entry["metric"] != UNDISCOUNTED  # of those alone that are in print
    ]
    records += [undiscounted(run) for run in found.values()]
    pictures = [
        f"![{caption}]({picture.relative_to(results).as_posix()})"
        for caption, picture in _draw(found, results / "pictures" / NAME)
    ]
    rows = [_row(curriculum, found.get(curriculum)) for curriculum in ROWS]
    text = "\n\n".join([markdown(HEADER, 1, rows) + NOTES.rstrip(), *pictures, ""])
    return write_report(results, NAME, records, text)


def undiscounted(run: Run) -> Record:
    """Returns the record of the final return without discount."""
    (group,) = run.groups()
    printed = reference_of(run, group)
    values = run.evaluation_curves(UNDISCOUNTED, group).values[:, -1]
    paper = printed.final if printed else None
    return record_of_group(run, group, NAME, UNDISCOUNTED, values, paper)


def _row(curriculum: Curriculum, run: Run | None) -> list[str]:
    printed = Cell(ENV, LEARNER, curriculum).reference
    final = None if run is None else undiscounted(run)
    paper = paper_text(printed.final if printed else None, final, 0)
    if run is None or final is None:
        return [curriculum.label, OPEN, OPEN, paper, OPEN, OPEN]
    return [
        curriculum.label,
        str(len(finite_values(final))),
        _estimate(final),
        paper,
        _estimate(final_return(run)),
        _estimate(final_success_rate(run), 100.0),
    ]


def _estimate(record: Record, scale: float = 1.0) -> str:
    mean, error = record["mean"], record["standard_error"]
    return estimate_text(mean and scale * mean, error and scale * error, 0)


def _draw(
    found: Mapping[Curriculum, Run], pictures: Path
) -> Iterator[tuple[str, Path]]:
    """Yields the captions and files of the pictures."""
    if not found:
        return
    panel = {LEARNER.upper(): list(found.values())}
    yield (
        "Return of the curricula on the ant, without discount; dashed: final returns that the paper prints",
        save(curriculum_curves(panel, UNDISCOUNTED), pictures / "returns.png"),
    )
    yield (
        "The same with discount",
        save(curriculum_curves(panel), pictures / "discounted_returns.png"),
    )
    yield (
        "Episodes of all seeds on the target task: x over time, and the ways through the gate",
        save(fans(found), pictures / "fans.png"),
    )
    for curriculum in ROWS[:2]:
        if curriculum in found:
            figure = context_snapshots(found[curriculum], SNAPSHOTS)
            yield (
                f"Contexts of {curriculum.label}: 20 samples of each seed",
                save(figure, pictures / f"contexts_{curriculum.schedule}.png"),
            )
