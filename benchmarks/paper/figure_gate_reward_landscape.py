"""The figure of the gate's rewards against the set-point of the first controller, for gates of three sizes.

Computed, not trained: there are no cells and no records. The paper fixes all other parameters "such that a stable control law
is obtained" and does not print them; those below are ours. Both controllers cancel the drift, the first presses on through
the gate.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.landscape import Slice, landscape_figure
from benchmarks.paper.records import Runs
from spjax.analysis.style import save
from spjax.envs import Gate

NAME = "figure-gate-reward-landscape"
CELLS: list[Cell] = []
POSITION = 4.0  # m
SIZES = (20.0, 3.0, 0.1)  # m, of the opening: twice the half-width that is the context
SET_POINT = 6  # the entry of theta that varies
THETA = (
    6.0,
    0.0,
    0.0,
    1.0,
    -5.0,
    -1.0,
    0.0,
    2.0,
    0.0,
    0.0,
    2.0,
    -5.0,
    1.0,
    0.0,
    0.0,
    0.0,
)
LOWEST, HIGHEST, NUM_POINTS, NUM_ROLLOUTS = -2.0, 8.0, 401, 200
DRAWN = (0.0, 2.0, 3.5, 4.0, 5.5)  # set-points whose paths are shown, m
CAPTION = """![Paths and rewards for gates of three sizes](pictures/figure-gate-reward-landscape/landscape.png)

Above, paths through a wall with a gate at x = 4 m whose opening is 20, 3 and 0.1 m; below, the reward against the set-point of
the first controller, all other parameters fixed: mean of 200 rollouts, the band from the 10 % to the 90 % quantile. With the wide
gate the reward leads to the best set-point from everywhere. With the narrow one nearly every set-point ends at the wall, and what
the reward then says is to hit it above the goal: a local optimum where C-REPS and CMA-ES stay; the best reward is a peak that
hardly any sample hits.
"""


def report(runs: Runs, results: Path) -> str:
    """Draws the picture, writes its caption, and returns it; ``runs`` is what other experiments have, and not used."""
    save(
        landscape_figure([slice_of(size) for size in SIZES]),
        results / "pictures" / NAME / "landscape.png",
    )
    (results / f"{NAME}.md").write_text(CAPTION, encoding="utf-8")
    return CAPTION


def slice_of(size: float) -> Slice:
    """Returns rewards and paths for a gate with an opening of this size, m."""
    task, context = Gate(case="precision"), (POSITION, size / 2)
    set_points = jnp.linspace(LOWEST, HIGHEST, NUM_POINTS)
    keys = jax.random.split(jax.random.key(0), (NUM_POINTS, NUM_ROLLOUTS))
    theta = jnp.asarray(THETA)

    def reward(set_point: jax.Array, key: jax.Array) -> jax.Array:
        return task.rollout(
            key, theta.at[SET_POINT].set(set_point), jnp.asarray(context)
        ).reward

    rewards = jax.jit(jax.vmap(jax.vmap(reward, in_axes=(None, 0))))(set_points, keys)
    paths = {}
    for place, key in zip(
        DRAWN, jax.random.split(jax.random.key(1), len(DRAWN)), strict=True
    ):
        states = task.states(key, theta.at[SET_POINT].set(place), jnp.asarray(context))
        end = int(states.terminated.argmax())
        paths[place] = np.asarray(jax.vmap(task.trace)(states))[: end + 1]
    return Slice(
        f"opening {size:g} m",
        np.asarray(set_points),
        np.asarray(rewards),
        paths,
        task.scenery(context),
    )
