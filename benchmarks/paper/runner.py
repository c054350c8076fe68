"""Brings the cells of experiments to their end, and shows how far they are."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import spjax
from benchmarks.paper.blocks import (
    Block,
    Timing,
    blocks_of,
    duration,
    seeds_label,
    time_left,
)
from benchmarks.paper.cells import Cell

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Plan:
    """Which cells are wanted, and where their run folders are."""

    cells: Sequence[Cell]
    runs: Path
    num_seeds: (
        int | None
    )  # seeds 1..N of every cell; None for as many as were published
    kept: Path | None = None  # where finished run folders are kept
    recorded: Sequence[Timing] = ()  # how long runs took that have records alone

    def blocks(self) -> list[Block]:
        """Returns the run folders of all cells as they are now.

        Raises:
            ValueError: one of them cannot be read, or was trained with other settings.
        """
        return [
            block
            for cell in self.cells
            for block in blocks_of(
                cell, self.runs, self.num_seeds or cell.num_seeds, self.kept
            )
        ]


def status_lines(blocks: Iterable[Block]) -> list[str]:
    """Returns a header and one line a run folder: finished, to be resumed or to be trained."""
    rows = [("run folder", "seeds", "state", "took")]
    for block in blocks:
        state = (
            f"{block.state} ({block.iteration} of {block.num_iterations})"
            if block.iteration
            else block.state
        )
        took = "" if block.wall_seconds is None else duration(block.wall_seconds)
        rows.append(
            (
                block.folder.name,
                seeds_label(block.seeds),
                "finished" if block.left == 0 else state,
                took,
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def train(
    plan: Plan, wanted: Callable[[Cell], bool], command: str, say: Say
) -> list[str]:
    """Trains or resumes what is not finished, one run folder after another.

    One that cannot be trained, for example because another process is training in it, is left out.

    Args:
        plan: the cells.
        wanted: which of them to train.
        command: for the record.
        say: prints a line.

    Returns:
        Why run folders were left out, a sentence each.

    Raises:
        Interrupted: Ctrl-C; what was trained is kept.
    """
    blocks = plan.blocks()
    left = [
        block for block in blocks if block.state != "finished" and wanted(block.cell)
    ]
    failures = []
    for index, planned in enumerate(left):
        block = next(
            (block for block in blocks if block.folder.name == planned.folder.name),
            planned,
        )
        if block.state == "finished":  # another process did it meanwhile
            continue
        say(
            f"{index + 1} of {len(left)}: {block.folder.name}, {block.state}; {time_left(left[index:], blocks, plan.recorded)}"
        )
        try:
            _train_block(block, command)
        except ValueError as error:
            failures.append(f"{block.folder.name}: {error}")
            say(failures[-1])
        blocks = plan.blocks()
    return failures


def _train_block(block: Block, command: str) -> None:
    if block.state == "to be resumed":
        spjax.resume(block.folder)
    else:
        spjax.train(block.cell.config(block.seeds), block.folder, command=command)
