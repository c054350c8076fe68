"""``python -m benchmarks.paper NAME [NAME ...]``: trains what is missing, resumes what was cut, writes records and tables."""

import argparse
import shutil
import time
from pathlib import Path

from rich.console import Console

from benchmarks.paper.cells import EXPERIMENTS, Cell, state, train_cell
from spjax.analysis.pictures import plot_run
from spjax.analysis.results import Record, records_of_run, write_records
from spjax.analysis.run import load_run
from spjax.analysis.tables import markdown_table, terminal_table

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    """Runs the experiments that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("names", nargs="+", choices=sorted(EXPERIMENTS), help="experiments")
    parser.add_argument("--runs", type=Path, default=Path("runs/paper"), help="where run folders are kept")
    parser.add_argument("--seeds", type=int, default=20, help="seeds 1..N of every cell")
    arguments = parser.parse_args()
    console = Console()
    for name in arguments.names:
        run_experiment(name, arguments.runs, arguments.seeds, console)


def run_experiment(name: str, runs: Path, num_seeds: int, console: Console) -> None:
    """Brings every cell of an experiment to its end, then writes its records, pictures and table."""
    cells = EXPERIMENTS[name]
    left = [cell for cell in cells if state(cell, runs) != "finished"]
    console.print(f"{name}: {len(cells) - len(left)} of {len(cells)} cells finished")
    start = time.perf_counter()
    for done, cell in enumerate(left):
        if done:
            rest = (time.perf_counter() - start) / done * (len(left) - done)
            console.print(f"{len(left) - done} cells left, about {rest / 60:.0f} min")
        console.print(f"{cell.name}: {state(cell, runs)}")
        train_cell(cell, runs, num_seeds)
    records: list[Record] = []
    for cell in cells:
        records += cell_records(name, cell, runs)
    write_records(RESULTS / f"{name}.json", records)
    console.print(terminal_table(records, metric="discounted_return"))
    console.print(markdown_table(records, metric="discounted_return"), soft_wrap=True)


def cell_records(name: str, cell: Cell, runs: Path) -> list[Record]:
    """Returns the records of a finished cell; its pictures go beside the records."""
    folder = runs / cell.name
    for picture in plot_run(folder):
        target = RESULTS / "pictures" / cell.name / picture.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(picture, target)
    return records_of_run(load_run(folder), name, threshold=cell.threshold)


if __name__ == "__main__":
    main()
