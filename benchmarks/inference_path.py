"""The inference view on the gate, drawn: ``python -m benchmarks.inference_path``.

A policy that is made by hand steers well where it was made for; on a grid of contexts all distributions are exact then. The
picture has the path of Eq. (28) from the posterior to the target, and E-steps within a trust region and M-steps in turn, which
are a curriculum whose policy stands still: they end at Eq. (29). Computed, not trained; takes seconds and writes no record.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import tyro
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.paper.figure_gate_reward_landscape import SET_POINT, THETA
from spjax.analysis.distributions import ellipse
from spjax.analysis.style import MARK, NEUTRAL, Look, legend_below, save, styled
from spjax.analysis.text import axis_label
from spjax.contexts import Gaussian
from spjax.envs import Gate
from spjax.self_paced.inference import LatentVariableModel, trust_region_e_step
from spjax.self_paced.tempering import (
    e_step_log_density,
    project_gaussian,
    tempered_log_density,
)

PICTURE = Path(__file__).parent / "results" / "pictures" / "inference-path" / "path.png"
MADE_FOR, FOLLOWS, SPREAD = 1.0, 0.8, 0.2  # m, 1, m; of the first set-point
POSITIONS, HALF_WIDTHS, ROLLOUTS = 161, 41, 100
ALPHAS = (0.0, 0.03, 0.1, 0.3, 1.0, 10.0)  # of Eq. (28)
DENSE = np.concatenate([[0.0], np.logspace(-3, 2, 60)])
ALPHA, MAX_KL, STEPS = 0.1, 0.1, 80  # of the steps in turn: unit of the reward, nats, 1
END_LOOK: Look = {
    "linestyle": "",
    "marker": "o",
    "markersize": 11,
    "color": "none",
    "markeredgecolor": MARK,
}


class Drawn(NamedTuple):
    """What is drawn."""

    positions: Float[np.ndarray, " P"]  # m
    half_widths: Float[np.ndarray, " W"]  # m
    values: Float[np.ndarray, "P W"]  # J
    densities: list[Float[np.ndarray, " P"]]  # of the position, 1 / m, one an alpha
    outlines: list[Float[np.ndarray, "2 point"]]  # of the Gaussians nearest to them
    means: Float[np.ndarray, "point 2"]  # of the path
    steps: Float[np.ndarray, "step 2"]  # means of the steps in turn
    end: Float[np.ndarray, "2"]  # mean of Eq. (29)


def main(picture: Path = PICTURE) -> None:
    """Computes and draws.

    Args:
        picture: file to write.
    """
    with jax.enable_x64(True):
        drawn = computed()
    save(path_figure(drawn), picture)
    print(f"picture: {picture}")


def computed() -> Drawn:
    """Returns the paths on a grid of contexts."""
    task = Gate(case="precision")
    (left, narrow), (right, wide) = task.context_space.lower, task.context_space.upper
    positions = np.linspace(left, right, POSITIONS)
    half_widths = np.linspace(narrow, wide, HALF_WIDTHS)
    grid = jnp.asarray(
        np.stack(np.meshgrid(positions, half_widths, indexing="ij"), -1).reshape(-1, 2)
    )
    values = expected_rewards(task, grid)
    log_target, log_initial = (
        on_grid(one, grid) for one in (task.target, task.initial)
    )
    tempered = jax.jit(
        lambda alpha: jax.nn.softmax(
            e_step_log_density(alpha, log_target, log_initial + values)
        )
    )
    shown = [tempered(alpha) for alpha in ALPHAS]
    cell = positions[1] - positions[0]
    return Drawn(
        positions=positions,
        half_widths=half_widths,
        values=np.asarray(values).reshape(POSITIONS, HALF_WIDTHS),
        densities=[
            np.asarray(one).reshape(POSITIONS, HALF_WIDTHS).sum(axis=1) / cell
            for one in shown
        ],
        outlines=[outline(project_gaussian(grid, one)[0]) for one in shown],
        means=np.array([tempered(alpha) @ grid for alpha in DENSE]),
        steps=in_turn(grid, values, log_initial, log_target),
        end=np.asarray(
            jax.nn.softmax(tempered_log_density(ALPHA, log_target, values)) @ grid
        ),
    )


def expected_rewards(task: Gate, contexts: Float[Array, "N 2"]) -> Float[Array, " N"]:
    """Returns J in each context, from rollouts with the same noise in all of them."""
    key_theta, key_play = jax.random.split(jax.random.key(0))
    noise = SPREAD * jax.random.normal(key_theta, (ROLLOUTS,), jnp.float32)
    keys = jax.random.split(key_play, ROLLOUTS)

    def reward(context: Array, noise: Array, key: Array) -> Array:
        set_point = MADE_FOR + FOLLOWS * (context[0] - MADE_FOR) + noise
        theta = jnp.asarray(THETA, jnp.float32).at[SET_POINT].set(set_point)
        return task.rollout(key, theta, context).reward

    played = jax.vmap(jax.vmap(reward, (None, 0, 0)), (0, None, None))
    rewards = jax.jit(played)(contexts.astype(jnp.float32), noise, keys)
    return rewards.mean(axis=1).astype(contexts.dtype)


def outline(one: Gaussian) -> Float[np.ndarray, "2 point"]:
    """Returns the line at two standard deviations."""
    return ellipse(np.asarray(one.mean), np.asarray(one.covariance))


def on_grid(one: Gaussian, grid: Float[Array, "N 2"]) -> Float[Array, " N"]:
    """Returns the log probabilities of a Gaussian on the grid, which sum to 1."""
    one = jax.tree.map(lambda leaf: leaf.astype(grid.dtype), one)
    return jax.nn.log_softmax(jax.vmap(one.log_prob)(grid))


def in_turn(
    grid: Float[Array, "N 2"],
    values: Float[Array, " N"],
    log_initial: Float[Array, " N"],
    log_target: Float[Array, " N"],
) -> Float[np.ndarray, "step 2"]:
    """Returns the means of Gaussians that E-steps within the trust region and M-steps lead to, the initial one first."""

    def step(log_contexts: Array, _: None) -> tuple[Array, Array]:
        model = LatentVariableModel(
            log_contexts, jnp.zeros((len(grid), 1)), values[:, None]
        )
        log_q, _ = trust_region_e_step(model, log_target, alpha=ALPHA, max_kl=MAX_KL)
        fitted, _ = project_gaussian(grid, jnp.exp(log_q[:, 0]))
        return on_grid(fitted, grid), fitted.mean

    _, means = jax.jit(lambda start: jax.lax.scan(step, start, None, length=STEPS))(
        log_initial
    )
    start = jnp.exp(log_initial) @ grid
    return np.concatenate([np.asarray(start)[None], np.asarray(means)])


@styled
def path_figure(drawn: Drawn) -> Figure:
    """Returns J with the path on it, and below the densities of the position."""
    colors = matplotlib.colormaps["plasma"](np.linspace(0.0, 0.88, len(ALPHAS)))
    figure = Figure(figsize=(8.4, 6.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    greys = ListedColormap(matplotlib.colormaps["Greys"](np.linspace(0.0, 0.6, 256)))
    mesh = above.pcolormesh(
        drawn.positions,
        drawn.half_widths,
        drawn.values.T,
        cmap=greys,
        rasterized=True,
    )
    figure.colorbar(mesh, ax=above, label="expected reward $J$", pad=0.01)
    _draw_paths(above, drawn, colors)
    above.set(ylim=(drawn.half_widths[0], drawn.half_widths[-1]))
    above.set_ylabel(axis_label("gate half-width", "m"))
    for density, color in zip(drawn.densities, colors, strict=True):
        below.plot(drawn.positions, density, color=color)
    below.set(xlim=(drawn.positions[0], drawn.positions[-1]), ylim=(0, None))
    below.set_xlabel(axis_label("gate position", "m"))
    below.set_ylabel(axis_label("density", "1/m"))
    labels = [f"Eq. (28), $\\alpha$ = {alpha:g}" for alpha in ALPHAS]
    handles = [
        Line2D([], [], color=color, label=label)
        for label, color in zip(labels, colors, strict=True)
    ]
    handles += [
        Line2D([], [], color=NEUTRAL, label="means of Eq. (28)"),
        Line2D([], [], color=MARK, marker=".", label="E- and M-steps in turn"),
        Line2D([], [], label=f"Eq. (29), $\\alpha$ = {ALPHA:g}", **END_LOOK),
    ]
    legend_below(figure, handles)
    return figure


def _draw_paths(axes: Axes, drawn: Drawn, colors: np.ndarray) -> None:
    for line, color in zip(drawn.outlines, colors, strict=True):
        axes.plot(*line, color=color, linewidth=1.6)
    axes.plot(*drawn.means.T, color=NEUTRAL, linewidth=1.4)
    axes.plot(*drawn.steps.T, ".-", color=MARK, linewidth=0.8, markersize=5)
    axes.plot(*drawn.end, **END_LOOK)


if __name__ == "__main__":
    tyro.cli(main)
