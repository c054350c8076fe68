"""New episodes with the newest policies of a run, in contexts of the caller's choice, as a table."""

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jaxtyping import Array, Float

from spjax.contexts import ContextSpace
from spjax.runs import folder as layout
from spjax.training.collect import Outcome
from spjax.training.config import RunConfig
from spjax.training.experiment import Experiment, RunState
from spjax.training.lanes import Lanes
from spjax.training.program import Program

_STREAM = (
    2**31 - 3
)  # folded into the run's key; neither training nor its evaluations use it


def grid(space: ContextSpace, values: int) -> Float[np.ndarray, "row dim"]:
    """Returns all combinations of so many values of each context, evenly from bound to bound."""
    lower, upper = (
        np.asarray(bound, np.float32) for bound in (space.lower, space.upper)
    )
    axes = np.linspace(lower, upper, values, dtype=np.float32)  # [value, dim]
    table = np.stack(np.meshgrid(*axes.T, indexing="ij"), axis=-1)
    return table.reshape(-1, space.size)


def play(
    program: Program,
    states: Lanes,
    chosen: Float[np.ndarray, "episode dim"] | None,
    episodes: int,
    *,
    seed: int = 0,
    deterministic: bool = False,
) -> tuple[Float[np.ndarray, "lane episode dim"], Outcome]:
    """Returns contexts and outcome [lane, episode] of new episodes.

    Args:
        program: of the run.
        states: of its lanes.
        chosen: contexts of all episodes, context units; None for draws of the target distribution.
        episodes: how many to draw.
        seed: of what is random in the episodes.
        deterministic: take the policy's own action, or draw from it.
    """

    def play_lane(
        experiment: Experiment, state: RunState
    ) -> tuple[Float[Array, "episode dim"], Outcome]:
        key = jax.random.fold_in(jax.random.fold_in(state.key, _STREAM), seed)
        key_contexts, key_play = jax.random.split(key)
        contexts = (
            experiment.target_contexts(key_contexts, episodes)
            if chosen is None
            else jnp.asarray(chosen)
        )
        outcome, _ = experiment.play(state, key_play, contexts, deterministic)
        return contexts, outcome

    contexts, outcome = program.to_host(program.on_lanes(play_lane, states))
    return contexts, outcome


def played(
    config: RunConfig, contexts: Float[np.ndarray, "lane episode dim"], outcome: Outcome
) -> pa.Table:
    """Returns a row for each episode: whose it is, its context, and what came out."""
    episodes, names = contexts.shape[1], config.task.context_space.names
    columns = {
        **layout.lane_columns(config.lanes(), episodes),
        "episode": np.tile(np.arange(episodes, dtype=np.int32), len(contexts)),
        **{f"context.{name}": contexts[..., k] for k, name in enumerate(names)},
        "discounted_return": outcome.discounted_return,
        "success": outcome.success,
        "length": outcome.length,
    }
    if outcome.episode_return is not None:
        columns["episode_return"] = outcome.episode_return
    return pa.table(
        {
            name: column.reshape(-1) if isinstance(column, np.ndarray) else column
            for name, column in columns.items()
        }
    )
