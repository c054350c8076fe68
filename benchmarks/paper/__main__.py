"""Makes the published tables and figures again: trains what is missing, resumes what was cut, writes what is finished.

Run folders are shared between tables and figures. Records (JSON), tables (Markdown) and pictures go to benchmarks/results,
and so do the curves of what has finished (cells/), which counts as trained from then on, on every machine; with --results
elsewhere, everything is trained anew. The filters choose what is trained; what is written is always everything finished,
and nothing where the record already has more.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.paper import (
    figure_ant,
    figure_ball_catching,
    figure_ball_in_a_cup,
    figure_gate,
    figure_gate_reward_landscape,
    figure_gate_success,
    figure_point_mass,
    figure_reacher,
    figure_reacher_policies,
    figure_regularizer,
    figure_slots,
    figure_sprl_point_mass,
    figure_trade_off,
    table_1,
    table_2,
    table_adam,
)
from benchmarks.paper.blocks import Block, time_left
from benchmarks.paper.cells import Cell
from benchmarks.paper.kept import keep
from benchmarks.paper.records import (
    Runs,
    finished_runs,
    recorded_runs,
    recorded_timings,
    records_of,
    runs_in,
)
from benchmarks.paper.runner import Plan, status_lines, train
from spjax.cli.errors import describe
from spjax.cli.report import frozen_lanes
from spjax.runs.provenance import device
from spjax.runs.results import read_records
from spjax.training.train import Interrupted

_MODULES = (
    table_1,
    table_2,
    table_adam,
    figure_point_mass,
    figure_trade_off,
    figure_ant,
    figure_ball_catching,
    figure_gate,
    figure_gate_success,
    figure_reacher,
    figure_reacher_policies,
    figure_ball_in_a_cup,
    figure_sprl_point_mass,
    figure_regularizer,
    figure_gate_reward_landscape,
    figure_slots,
)
EXPERIMENTS = {module.NAME: module for module in _MODULES}
ENVS = tuple(dict.fromkeys(cell.env for module in _MODULES for cell in module.CELLS))
AGENTS = tuple(
    dict.fromkeys(cell.agent for module in _MODULES for cell in module.CELLS)
)
RESULTS = Path(__file__).parents[1] / "results"
KEPT = "cells"  # folder of the results
EXAMPLES = """examples:
  python -m benchmarks.paper table-1 table-2                          everything in both tables, 20 seeds
  python -m benchmarks.paper table-1 --agents sac --seeds 10          SAC with 10 seeds first
  python -m benchmarks.paper table-1 --agents sac --seeds 20          then the other 10, in folders of their own
  python -m benchmarks.paper table-1 --only point-mass-2d_ppo_random  one cell
  python -m benchmarks.paper figure-ball-catching --agents ppo        ball catching with PPO
  python -m benchmarks.paper figure-ant --seeds 5                     the ant with PPO, 5 seeds first
  python -m benchmarks.paper figure-gate figure-gate-success          the episodic learners on the gate, 40 seeds
  python -m benchmarks.paper figure-slots                             ball catching with fewer slots, 5 seeds
  python -m benchmarks.paper table-adam                               PPO with Adam's epsilon in both places, 20 seeds
  python -m benchmarks.paper figure-regularizer                       a picture that needs no training
  python -m benchmarks.paper table-2 --results mine --runs runs/mine  all of it anew, beside what is recorded
  python -m benchmarks.paper table-1 table-2 --report-only            how far everything is, and the tables of what is there
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Does what the command line says."""
    options = parser().parse_args(arguments)
    console = Console()
    try:
        failures = _run(options, console)
    except (Interrupted, ValueError, OSError) as stopped:
        text = describe(stopped) if isinstance(stopped, OSError) else str(stopped)
        console.print(text, markup=False, soft_wrap=True)
        sys.exit(130 if isinstance(stopped, Interrupted) else 1)
    except KeyboardInterrupt:
        console.print("interrupted")
        os._exit(
            130
        )  # a regular exit would wait for the computation that runs, which cannot be cancelled
    sys.exit(1 if failures else 0)


def parser() -> argparse.ArgumentParser:
    """Returns the command line."""
    formatter = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.paper",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=formatter,
    )
    made.add_argument(
        "names",
        nargs="+",
        choices=list(EXPERIMENTS),
        metavar="NAME",
        help=", ".join(EXPERIMENTS),
    )
    made.add_argument(
        "--seeds",
        type=_positive,
        metavar="N",
        help="train seeds 1..N of every cell; what exists counts (20; of the gate 40, of figure-slots 5)",
    )
    made.add_argument(
        "--envs",
        nargs="+",
        choices=ENVS,
        default=ENVS,
        metavar="ENV",
        help="train only these tasks",
    )
    made.add_argument(
        "--agents",
        nargs="+",
        choices=AGENTS,
        default=AGENTS,
        metavar="AGENT",
        help="only these learners",
    )
    made.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="train only cells with TEXT in their name, or the one of this name",
    )
    made.add_argument(
        "--report-only",
        action="store_true",
        help="train nothing; write what is finished",
    )
    made.add_argument(
        "--runs",
        type=Path,
        default=Path("runs/paper"),
        help="where run folders are (runs/paper)",
    )
    made.add_argument(
        "--results",
        type=Path,
        default=RESULTS,
        help="where results go (benchmarks/results)",
    )
    return made


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def cells_of(names: Sequence[str]) -> list[Cell]:
    """Returns the cells of experiments, each once."""
    cells = {cell.name: cell for name in names for cell in EXPERIMENTS[name].CELLS}
    return list(cells.values())


def _run(options: argparse.Namespace, console: Console) -> list[str]:
    """Trains and reports; returns what could not be trained."""
    timings = [
        t
        for name in options.names
        for t in recorded_timings(options.results / f"{name}.json", device())
    ]
    plan = Plan(
        cells_of(options.names),
        options.runs,
        options.seeds,
        options.results / KEPT,
        timings,
    )
    failures = _train(options, plan, console) if plan.cells else []
    keep(plan.blocks(), options.results / KEPT)
    _report(options, plan.blocks(), console)
    return failures


def _train(options: argparse.Namespace, plan: Plan, console: Console) -> list[str]:
    """Says how far the cells are and, unless only reports are wanted, trains them."""
    if not any(_wanted(options, cell) for cell in plan.cells):
        raise ValueError(
            f"no cell of {', '.join(options.names)} has that task, learner and name"
        )
    blocks = plan.blocks()
    for line in status_lines(blocks):
        _say(console, line)
    left = [
        block
        for block in blocks
        if block.state != "finished" and _wanted(options, block.cell)
    ]
    _say(console, f"{len(left)} to train; {time_left(left, blocks, plan.recorded)}")
    if options.report_only:
        return []
    seeds = "" if options.seeds is None else f" --seeds {options.seeds}"
    command = f"python -m benchmarks.paper {' '.join(options.names)}{seeds}"
    return train(
        plan,
        lambda cell: _wanted(options, cell),
        command,
        lambda line: _say(console, line),
    )


def _wanted(options: argparse.Namespace, cell: Cell) -> bool:
    """Says whether the filters let a cell through; a whole name means this cell alone, not others that contain it."""
    whole = any(other.name == options.only for other in cells_of(options.names))
    named = cell.name == options.only if whole else options.only in cell.name
    return cell.env in options.envs and cell.agent in options.agents and named


def _report(
    options: argparse.Namespace, blocks: Sequence[Block], console: Console
) -> None:
    """Writes and prints what is finished, and says what is not."""
    runs = finished_runs(blocks)
    for name in options.names:
        _say(console, f"\n{name}\n\n{_written(name, runs, options.results)}")
    missing = [block.folder.name for block in blocks if block.state != "finished"]
    if missing:
        _say(console, f"not finished: {', '.join(missing)}")
    for name, run in runs.items():
        if run.summary and run.summary.frozen:
            _say(console, f"{name}: {frozen_lanes(run.summary.frozen)}")


def _written(name: str, runs: Runs, results: Path) -> str:
    """Writes a report and returns its text; a record that has more than is finished here stays as it is.

    A module that has `KEEPS_RECORDS` fills cells that are not finished here with what is recorded of them.
    """
    module: Any = EXPERIMENTS[name]
    file = f"{getattr(module, 'RECORDS', name)}.json"
    before = results / file
    with tempfile.TemporaryDirectory() as folder:
        if getattr(module, "KEEPS_RECORDS", False):
            recorded = read_records(before) if before.is_file() else []
            text: str = module.report(runs, Path(folder), recorded)
            here = recorded_runs(Path(folder) / file)
        else:
            text = module.report(runs, Path(folder))
            here = runs_in(records_of(name, module.CELLS, runs))
        lost = recorded_runs(before) - here
        if lost:
            more = f"{len(lost)} runs that are neither here nor kept"
            return f"{text}\n\n{file} records {more}, so {name} stays as it is; --results writes elsewhere"
        shutil.copytree(folder, results, dirs_exist_ok=True)
        return text


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
