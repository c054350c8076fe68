"""What `spjax evaluate` plays and prints."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from spjax.analysis import statistics
from spjax.analysis.text import setting_text
from spjax.cli.cache import keep_compiled_programs
from spjax.cli.report import say
from spjax.cli.terminal import console, print_table
from spjax.training.collect import Outcome
from spjax.training.config import RunConfig
from spjax.training.experiment import Experiment, RunState
from spjax.training.lanes import Lanes
from spjax.training.program import Program
from spjax.training.run_folder import read_config
from spjax.training.train import restore

_STREAM = (
    2**31 - 3
)  # folded into the run's key; neither training nor its evaluations use it


def play(
    folder: Path, used: bool, episodes: int, context: tuple[float, ...], seed: int
) -> None:
    """Plays new episodes with the newest policies of a run, and prints what they reach.

    Args:
        folder: the run folder.
        used: whether the run's own files may be others than those that it was trained with.
        episodes: of each policy.
        context: of all episodes; empty for draws of the target distribution.
        seed: of the episodes.
    """
    space = read_config(folder, used).task.context_space
    if context:
        space.check(context, "--context")
    keep_compiled_programs()
    config, program, state = restore(folder, used)
    outcome = _play(program, state, episodes, context, seed)

    terminal = console()
    where = space.describe(context) if context else "the target"
    say(
        terminal,
        f"{folder} at iteration {program.iteration(state)}: {episodes} episodes on {where},",
    )
    say(
        terminal,
        "discounted return ± one standard error, its quantiles, and how many succeeded",
    )
    print_table(terminal, _table(config, outcome))


def _play(
    program: Program,
    states: Lanes,
    episodes: int,
    context: tuple[float, ...],
    seed: int,
) -> Outcome:
    """Returns the outcome [lane, episode] of new episodes."""

    def play(experiment: Experiment, state: RunState) -> Outcome:
        key = jax.random.fold_in(jax.random.fold_in(state.key, _STREAM), seed)
        key_contexts, key_play = jax.random.split(key)
        if context:
            contexts = jnp.tile(jnp.asarray(context), (episodes, 1))
        else:
            contexts = experiment.target_contexts(key_contexts, episodes)
        return experiment.play(state, key_play, contexts)[0]

    return program.to_host(program.on_lanes(play, states))


def _table(config: RunConfig, outcome: Outcome) -> Table:
    """Returns a row for each lane, over its episodes, and one for all seeds of a setting, over their means."""
    table = Table()
    for name in (*config.over, "seed", "mean", "10 %", "50 %", "90 %", "success"):
        table.add_column(name.rpartition(".")[2], justify="right")
    lanes = config.lanes()
    returns, success = (
        np.asarray(outcome.discounted_return),
        np.asarray(outcome.success, float),
    )
    for start in range(0, len(lanes), len(config.seeds)):
        group = slice(start, start + len(config.seeds))
        settings = [setting_text(value) for value in lanes[start].settings.values()]
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
