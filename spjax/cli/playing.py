"""What `spjax evaluate` plays and prints."""

from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from spjax.analysis import statistics
from spjax.analysis.text import setting_text
from spjax.cache import keep_compiled_programs
from spjax.cli.evaluation import EvaluateFlags
from spjax.cli.report import say
from spjax.cli.tables import Rows, write_table
from spjax.cli.terminal import console, print_table
from spjax.contexts import ContextSpace
from spjax.runs.cuts import read_cuts
from spjax.runs.read import load_run
from spjax.training.collect import Outcome
from spjax.training.config import RunConfig
from spjax.training.play import grid, play, played
from spjax.training.progress import count
from spjax.training.run_folder import read_config
from spjax.training.train import restore


def show(how: EvaluateFlags, each: int, rows: Rows, used: bool) -> None:
    """Plays new episodes with the newest policies of a run, and prints what they reach.

    Args:
        how: the flags.
        each: episodes of each policy in each context.
        rows: contexts out of a file; empty where there is none.
        used: whether the run's own files may be others than those that it was trained with.
    """
    folder = how.folder
    space = read_config(folder, used).task.context_space
    for number, row in enumerate(rows, 1):
        space.check(row, f"{how.contexts}, context {number}")
    if how.context:
        space.check(how.context, "--context")
    chosen, where = _chosen(how, each, rows, space)
    keep_compiled_programs()
    config, program, state = restore(folder, used)
    contexts, outcome = play(
        program,
        state,
        chosen,
        each,
        seed=how.seed,
        deterministic=how.deterministic,
    )

    terminal = console()
    drawn = "the deterministic policy" if how.deterministic else "the policy"
    say(
        terminal,
        f"{folder} at iteration {program.iteration(state)}: {each} episodes {where}, by {drawn}:",
    )
    say(
        terminal,
        "discounted return ± one standard error, its quantiles, and how many succeeded",
    )
    print_table(terminal, _table(config, outcome, _stopped(folder)))
    if how.out is not None or how.map is not None:
        _keep(terminal, how, played(config, contexts, outcome))


def _chosen(
    how: EvaluateFlags, each: int, rows: Rows, space: ContextSpace
) -> tuple[Float[np.ndarray, "episode dim"] | None, str]:
    """Returns the contexts of all episodes, None for draws of the target; and what they are, in words."""
    if how.context:
        tiled = np.tile(np.asarray(how.context, np.float32), (each, 1))
        return tiled, f"on {space.describe(how.context)}"
    if rows:
        table = np.asarray(rows, np.float32)
        where = f"in each of the {count(len(rows), 'context')} of {how.contexts}"
        return np.repeat(table, each, axis=0), where
    if how.grid:
        table = grid(space, how.grid)
        where = f"in each of the {len(table)} contexts of a grid"
        return np.repeat(table, each, axis=0), where
    return None, "on the target"


def _keep(terminal: Console, how: EvaluateFlags, episodes: pa.Table) -> None:
    """Writes the episodes and the map, as asked for, and names the files."""
    if how.out is not None:
        write_table(how.out, episodes)
        say(terminal, f"episodes: {how.out}")
    if how.map is not None:
        from spjax.analysis.competence import draw_maps  # Matplotlib takes its time

        for picture in draw_maps(load_run(how.folder), episodes, how.map):
            say(terminal, f"picture: {picture}")


def _stopped(folder: Path) -> dict[int, int]:
    """Returns the iteration of the policies of lanes that stopped because their settings were behind."""
    return {lane: cut.iteration for cut in read_cuts(folder) for lane in cut.lanes}


def _table(config: RunConfig, outcome: Outcome, stopped: dict[int, int]) -> Table:
    """Returns a row for each lane, over its episodes, and one for all seeds of a setting, over their means."""
    table = Table()
    when = ("stopped after",) if stopped else ()
    reached = ("mean", "10 %", "50 %", "90 %", "success")
    for name in (*config.over, *when, "seed", *reached):
        table.add_column(name.rpartition(".")[2], justify="right")
    lanes = config.lanes()
    returns, success = (
        np.asarray(outcome.discounted_return),
        np.asarray(outcome.success, float),
    )
    for start in range(0, len(lanes), len(config.seeds)):
        group = slice(start, start + len(config.seeds))
        settings = [setting_text(value) for value in lanes[start].settings.values()]
        if stopped:
            settings.append(str(stopped.get(start, "")))
        for seed, row, rate in zip(
            config.seeds, returns[group], success[group].mean(axis=1), strict=True
        ):
            table.add_row(*settings, str(seed), *_cells(row, rate))
        if len(config.seeds) > 1:
            cells = _cells(returns[group].mean(axis=1), success[group].mean())
            table.add_row(*settings, "all", *cells, style="bold", end_section=True)
    return table


def _cells(values: np.ndarray, rate: float) -> list[str]:
    error = float(statistics.standard_error(values))
    band = statistics.quantiles(values[:, None])
    mean = f"{statistics.mean(values):.2f}" + (
        "" if np.isnan(error) else f" ± {error:.2f}"
    )
    return [
        mean,
        *(f"{float(curve[0]):.2f}" for curve in (band.low, band.middle, band.high)),
        f"{100 * rate:.0f} %",
    ]
