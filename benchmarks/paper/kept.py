"""What is kept of finished run folders beside the results, so that tables and figures can grow from machine to machine.

A kept folder is a run folder: configuration and summary, all of the evaluation, the metrics of the evaluated iterations, and
the first of each lane's trajectories, of the ant all of them. It lacks checkpoints.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pyarrow.compute as pc

from benchmarks.paper.blocks import Block
from spjax.runs import folder as layout
from spjax.runs.files import write_table
from spjax.runs.read import load_run


def keep(blocks: Iterable[Block], kept: Path) -> None:
    """Copies the finished ones that are not there yet; a reader sees a whole folder or none."""
    for block in blocks:
        copy = kept / block.folder.name
        if block.state == "finished" and not copy.exists():
            _copy(block.folder, copy, block.cell.kept_episodes)


def _copy(folder: Path, copy: Path, episodes: int) -> None:
    temporary = copy.with_name(f".{copy.name}.{os.getpid()}.tmp")
    run = load_run(folder)
    last = run.last_evaluated_iteration
    evaluated = pc.is_in(
        run.metrics["iteration"], value_set=pc.unique(run.evaluation["iteration"])
    )
    write_table(layout.part(temporary, layout.EVALUATION, last), run.evaluation)
    write_table(
        layout.part(temporary, layout.METRICS, last), run.metrics.filter(evaluated)
    )
    if run.trajectories is not None:
        write_table(
            temporary / layout.TRAJECTORIES,
            run.trajectories.filter(pc.field("episode") < episodes),
        )
    for name in (layout.CONFIG, layout.SUMMARY):
        shutil.copy(folder / name, temporary)
    try:
        os.replace(temporary, copy)
    except OSError:
        shutil.rmtree(temporary)
        if not copy.exists():  # where it does, another process kept it meanwhile
            raise
