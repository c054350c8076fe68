"""Ball catching: returns, catch rates and iterations to a threshold of every curriculum, and where the balls are thrown.

The paper shows every curriculum with all three learners; with SAC it prints numbers of the self-paced ones alone.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.paper.cells import AGENTS, Cell
from benchmarks.paper.earlier import num_earlier_seeds
from benchmarks.paper.pictures.catching import catch_rates, catching_snapshots
from benchmarks.paper.pictures.curricula import (
    ALL_CURRICULA,
    Curriculum,
    curriculum_curves,
)
from benchmarks.paper.pictures.distances import distance_curves
from benchmarks.paper.records import (
    Runs,
    final_return,
    final_success_rate,
    records_of,
    settings_of,
    write_report,
)
from benchmarks.paper.table_1 import OPEN, best_in_print, paper_text
from benchmarks.paper.table_2 import pair_of
from spjax.analysis.arrival import iterations_to_target
from spjax.analysis.records import record_of_group
from spjax.analysis.style import save
from spjax.analysis.tables import estimate_text, finite_values, markdown
from spjax.runs.read import Run
from spjax.runs.results import Record
from spjax.runs.schema import Estimate

NAME = "figure-ball-catching"
ENV = "ball-catching"
ROWS = [
    curriculum
    for curriculum in ALL_CURRICULA
    if curriculum.in_paper and curriculum.teacher != "random"
]
SELF_PACED = [curriculum for curriculum in ROWS if curriculum.teacher == "self-paced"]
CELLS = [Cell(ENV, agent, curriculum) for agent in AGENTS for curriculum in ROWS]
SNAPSHOT_LEARNER = "ppo"
DIGITS = 1  # of returns, as in print
ARRIVAL = "iterations_to_contexts_at_the_target"
LAST = 20  # evaluations
SETTLED = f"discounted_return_over_the_last_{LAST}_evaluations"
HEADER = (
    "curriculum",
    "seeds",
    "return",
    "paper",
    f"last {LAST}",
    "caught [%]",
    "threshold",
    "iterations",
    "paper",
    "contexts arrive",
)
NOTES = f"""
Mean ± one standard error over the seeds after 500 iterations of 5,000 steps: the discounted return and the balls caught, both of
200 throws at the target distribution. Beside it the paper's value and the p-value of Welch's t-test between the two (20 seeds
there), and the mean return of the last {LAST} evaluations, five iterations apart. – is not in print, … is not trained yet; the
paper shows SAC with all curricula, but prints numbers of the self-paced ones alone. Bold: the learner's best curriculum and those
that do not differ from it at p < 1 % (Welch).

With an asterisk, SPDL and GoalGAN start at the initial distribution, balls that fly into the resting net, and Default lacks the
policy that was cloned to hold still, which all others start from.

Iterations are those to the threshold, 80 % of the lower of the final returns of the two schedules with the same star. Contexts
arrive when their KL divergence to the target distribution becomes and stays at most 0.001 nats (without an asterisk they start
there and leave). Both as of the evaluations, every 5 iterations; a seed that never gets there counts as the last iteration.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the tables and the pictures of what is finished, and returns the tables in Markdown."""
    crossings = {agent: _crossings(agent, runs) for agent in AGENTS}
    arrivals = {agent: _arrivals(agent, runs) for agent in AGENTS}
    tables = [
        f"### {agent.upper()}\n\n{_table(agent, runs, crossings[agent], arrivals[agent])}"
        for agent in AGENTS
    ]
    records = records_of(NAME, CELLS, runs)
    records += [_settled(cell, runs) for cell in CELLS if cell.name in runs]
    records += [
        entry
        for found in (*crossings.values(), *arrivals.values())
        for entry in found.values()
    ]
    pictures = [
        f"![{caption}]({picture.relative_to(results).as_posix()})"
        for caption, picture in _draw(runs, results)
    ]
    return write_report(
        results,
        NAME,
        records,
        "\n\n".join(
            ["\n".join(tables) + NOTES.rstrip(), *_pooled(runs), *pictures, ""]
        ),
    )


def _pooled(runs: Runs) -> Iterator[str]:
    """Yields a note on each cell with seeds that have no curves."""
    for cell in CELLS:
        if cell.name in runs and (count := num_earlier_seeds(runs[cell.name])):
            name = f"{cell.agent.upper()} with {cell.curriculum.label}"
            yield (
                f"{name} was trained twice with the same settings, on two machines. Of the first {count} runs only the ends\n"
                f"are recorded: they count in return and balls caught, not in the other columns, nor in the curves."
            )


def _crossings(agent: str, runs: Runs) -> dict[Curriculum, Record]:
    """Returns the iterations to the threshold, of the pairs of schedules that are both finished."""
    found: dict[Curriculum, Record] = {}
    for starred in (False, True):
        pair = [
            curriculum for curriculum in SELF_PACED if curriculum.starred == starred
        ]
        cells = [Cell(ENV, agent, curriculum) for curriculum in pair]
        if all(cell.name in runs for cell in cells):
            found |= zip(pair, pair_of(cells, runs, NAME).crossings, strict=True)
    return found


def _arrivals(agent: str, runs: Runs) -> dict[Curriculum, Record]:
    """Returns the iterations until the contexts are at the target, of each self-paced curriculum that is finished."""
    found: dict[Curriculum, Record] = {}
    for curriculum in SELF_PACED:
        cell = Cell(ENV, agent, curriculum)
        if cell.name in runs:
            run = runs[cell.name]
            arrival = iterations_to_target(run, run.groups()[0])
            entry = record_of_group(
                run, run.groups()[0], NAME, ARRIVAL, arrival.iterations
            )
            changed = {
                "settings": settings_of(cell),
                "never_reached": arrival.never_reached,
            }
            found[curriculum] = Record(**{**entry, **changed})
    return found


def _settled(cell: Cell, runs: Runs) -> Record:
    """Returns the return of a finished cell over its last evaluations."""
    run = runs[cell.name]
    returns = run.evaluation_curves("discounted_return", run.groups()[0]).values[
        :, -LAST:
    ]
    entry = record_of_group(run, run.groups()[0], NAME, SETTLED, returns.mean(axis=1))
    return Record(**{**entry, "settings": settings_of(cell)})


def _table(
    agent: str,
    runs: Runs,
    crossings: Mapping[Curriculum, Record],
    arrivals: Mapping[Curriculum, Record],
) -> str:
    finished = _finished(agent, runs)
    returns = [
        final_return(finished[curriculum]) if curriculum in finished else None
        for curriculum in ROWS
    ]
    rows = []
    for curriculum, final, bold in zip(
        ROWS, returns, best_in_print(returns, ROWS), strict=True
    ):
        cell = Cell(ENV, agent, curriculum)
        printed = cell.reference
        rows.append(
            [
                curriculum.label,
                OPEN if final is None else str(len(finite_values(final))),
                OPEN if final is None else _marked(_estimate(final, DIGITS), bold),
                paper_text(printed.final if printed else None, final, DIGITS),
                OPEN if final is None else _estimate(_settled(cell, runs), DIGITS),
                OPEN
                if final is None
                else _estimate(final_success_rate(finished[curriculum]), 1, scale=100),
                *_iterations(
                    curriculum,
                    printed.iterations if printed else None,
                    crossings.get(curriculum),
                    arrivals.get(curriculum),
                ),
            ]
        )
    return markdown(HEADER, 1, rows)


def _iterations(
    curriculum: Curriculum,
    printed: Estimate | None,
    crossing: Record | None,
    arrival: Record | None,
) -> tuple[str, str, str, str]:
    """Returns threshold, iterations to it, the paper's, and those to the target contexts; nothing if not self-paced."""
    if curriculum not in SELF_PACED:
        return "", "", "", ""
    threshold = (
        OPEN if crossing is None else estimate_text(crossing["threshold"], None, DIGITS)
    )
    return (
        threshold,
        _count(crossing),
        paper_text(printed, crossing, 0),
        _count(arrival),
    )


def _count(iterations: Record | None) -> str:
    if iterations is None:
        return OPEN
    never = (
        f" ({iterations['never_reached']} never)" if iterations["never_reached"] else ""
    )
    return _estimate(iterations, 0) + never


def _estimate(record: Record, digits: int, scale: float = 1.0) -> str:
    """Returns mean ± standard error; a scale of 100 makes a rate per cent."""
    mean, error = record["mean"], record["standard_error"]
    return estimate_text(mean and scale * mean, error and scale * error, digits)


def _marked(text: str, bold: bool) -> str:
    return f"**{text}**" if bold else text


def _finished(agent: str, runs: Runs) -> dict[Curriculum, Run]:
    cells = [Cell(ENV, agent, curriculum) for curriculum in ROWS]
    return {cell.curriculum: runs[cell.name] for cell in cells if cell.name in runs}


def _success_rates(found: Mapping[Curriculum, Run]) -> dict[Curriculum, Record]:
    return {curriculum: final_success_rate(run) for curriculum, run in found.items()}


def _draw(runs: Runs, results: Path) -> Iterator[tuple[str, Path]]:
    """Yields the captions and files of the pictures."""
    pictures = results / "pictures" / NAME
    learners = {
        agent.upper(): found for agent in AGENTS if (found := _finished(agent, runs))
    }
    if learners:
        figure = catch_rates(
            {learner: _success_rates(found) for learner, found in learners.items()},
            ROWS,
        )
        yield (
            "Balls caught at the end, by curriculum and learner",
            save(figure, pictures / "catch_rates.png"),
        )
        figure = curriculum_curves(
            {learner: list(found.values()) for learner, found in learners.items()}
        )
        caption = "Return of the curricula; dashed: final returns that the paper prints"
        yield caption, save(figure, pictures / "rewards.png")
    self_paced = {
        learner: {c: run for c, run in found.items() if c in SELF_PACED}
        for learner, found in learners.items()
    }
    if self_paced := {learner: found for learner, found in self_paced.items() if found}:
        figure = distance_curves(self_paced, SELF_PACED)
        caption = "How far the contexts of each seed are from the target, and its final return"
        yield caption, save(figure, pictures / "distances.png")
    snapshots = _finished(SNAPSHOT_LEARNER, runs)
    if shown := {
        curriculum: run
        for curriculum, run in snapshots.items()
        if curriculum.schedule == "proportion"
    }:
        labels = " and ".join(curriculum.label for curriculum in shown)
        caption = f"Where {SNAPSHOT_LEARNER.upper()} with {labels} is thrown balls at, and from how far"
        yield (
            caption,
            save(catching_snapshots(list(shown.values())), pictures / "contexts.png"),
        )
