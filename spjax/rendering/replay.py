"""New episodes of the newest policy of one lane of a run folder, recorded for a film."""

from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from spjax.analysis.text import setting_text
from spjax.envs.base import EnvState
from spjax.rendering.film import Film
from spjax.rendering.record import episodes
from spjax.training.experiment import Experiment, RunState
from spjax.training.train import restore

_STREAM = 2**31 - 4  # folded into the run's key


def replay(
    folder: Path,
    lane: int = 0,
    *,
    context: Sequence[float] = (),
    num_episodes: int = 1,
    draw: int = 0,
    speed: float = 0.0,
    accept_changes: bool = False,
) -> Film:
    """Returns the film of new episodes; nothing in the folder changes.

    Args:
        folder: the run folder.
        lane: whose policy.
        context: of all episodes, context units; () for draws of the target distribution.
        num_episodes: one after another in one film.
        draw: seed of what is random in the episodes.
        speed: seconds of the task in a second of the film; 0 for one that fits.
        accept_changes: whether the run's own files may be others than those that it was trained with.

    Raises:
        ValueError: no run folder, one of an earlier format, or no checkpoint that can be read.
    """
    config, program, states = restore(folder, accept_changes, [lane])

    def play(
        experiment: Experiment, state: RunState
    ) -> tuple[EnvState, Float[Array, "time episode 2"], Array]:
        key = jax.random.fold_in(jax.random.fold_in(state.key, _STREAM), draw)
        key_contexts, key_play = jax.random.split(key)
        if context:
            contexts = jnp.tile(jnp.asarray(context), (num_episodes, 1))
        else:
            contexts = experiment.target_contexts(key_contexts, num_episodes)
        played = experiment.states(state, key_play, contexts)
        return (
            played,
            jax.vmap(jax.vmap(experiment.task.trace))(played),
            jnp.asarray(experiment.discount),
        )

    recorded = program.to_host(program.on_lanes(play, states))
    own_states, paths, discount = jax.tree.map(lambda leaf: leaf[0], recorded)
    shown = config.lanes()[lane]
    swept = [
        f"{name.rpartition('.')[2]} {setting_text(value)}"
        for name, value in shown.settings.items()
    ]
    seed, iteration = f"seed {shown.seed}", f"iteration {program.iteration(states)}"
    title = ", ".join([config.task.name, *swept, seed, iteration])
    return Film(config.task, episodes(own_states, paths, float(discount)), title, speed)
