"""Episodes of a run's policies on the target, for pictures."""

from collections.abc import Sequence

import jax
import numpy as np
import pyarrow as pa

from spjax.runs.folder import lane_columns
from spjax.training.config import Lane
from spjax.training.experiment import Experiment, RunState
from spjax.training.lanes import Lanes
from spjax.training.program import Program

EPISODES_PER_LANE = 10
_STREAM = 2**31 - 2  # folded into the run's key


def trajectories(
    program: Program, states: Lanes, lanes: list[Lane], numbers: Sequence[int]
) -> pa.Table:
    """Returns a table with one row an episode: the path (x, y), context, success and discounted return."""
    contexts, outcome, paths = program.to_host(program.on_lanes(_play, states))
    columns = lane_columns(lanes, EPISODES_PER_LANE, numbers)
    lengths = outcome.length.reshape(-1)
    rows = np.moveaxis(paths, 1, 2).reshape(len(lengths), -1, 2)
    return pa.table(
        {
            **columns,
            "episode": np.tile(
                np.arange(EPISODES_PER_LANE, dtype=np.int32), len(lanes)
            ),
            "x": pa.array(
                [row[: n + 1, 0] for row, n in zip(rows, lengths, strict=True)]
            ),
            "y": pa.array(
                [row[: n + 1, 1] for row, n in zip(rows, lengths, strict=True)]
            ),
            "context": pa.array(list(contexts.reshape(len(lengths), -1))),
            "success": outcome.success.reshape(-1),
            "discounted_return": outcome.discounted_return.reshape(-1),
        }
    )


def _play(experiment: Experiment, state: RunState) -> tuple:
    key_contexts, key_play = jax.random.split(jax.random.fold_in(state.key, _STREAM))
    contexts = experiment.target_contexts(key_contexts, EPISODES_PER_LANE)
    return contexts, *experiment.play(state, key_play, contexts)
