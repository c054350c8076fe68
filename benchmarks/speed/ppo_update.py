"""How near the PPO update of the 3-D point mass is to what the machine can do: ``python -m benchmarks.speed.ppo_update``.

One lane on one core, as many lanes are trained on CPU; pin the process to a core. Three things are timed by turns:

    update    all 256 minibatch steps of an iteration: both networks, their gradients, normalised advantages, Adam
    products  nothing but its matrix products, of the same sizes and as often, and weights that they change
    peak      the product of two 1024 x 1024 matrices

and recorded as floating point operations a second, of which the update's are those of its products. What the products alone
reach is the most that an update of these sizes can. Writes ``benchmarks/results/ppo-update.json``, and the share of the peak
into ``benchmarks/results/peers.json``, beside what that file has of other peers.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import lax
from jaxtyping import Array, Float, PyTree

import spjax
from benchmarks import command_line
from benchmarks.speed.physics import by_turns
from spjax.agents.step_based.on_policy import Batch
from spjax.analysis.records import measured_here
from spjax.envs.base import Env
from spjax.runs.results import write_records, write_records_beside

RESULTS = Path(__file__).parents[1] / "results" / "ppo-update.json"
PEERS = RESULTS.with_name("peers.json")
TASK = "point-mass-3d"
PEAK = 1024  # rows and columns of the product that the peak is taken from
SMALL = 1e-3  # keeps what goes round in a loop finite


def widths_of(
    inputs: int, hidden: Sequence[int], outputs: int
) -> list[tuple[int, int]]:
    """Returns inputs and outputs of every layer of a network."""
    ends = [inputs, *hidden, outputs]
    return list(itertools.pairwise(ends))


def operations(layers: Sequence[tuple[int, int]], rows: int) -> int:
    """Returns the multiplications and additions of a network's products, forward and back; nothing flows into the inputs."""
    forward = sum(2 * rows * inputs * outputs for inputs, outputs in layers)
    first, last = layers[0]
    return 3 * forward - 2 * rows * first * last


def descended(
    weights: Sequence[Float[Array, "input output"]], x: Float[Array, "row input"]
) -> list[Float[Array, "input output"]]:
    """Returns the weights after every product of a network's gradient, and next to nothing else."""
    activations = [x]
    for weight in weights:
        activations.append(activations[-1] @ weight)
    back = activations.pop()
    gradients = []
    for layer, weight in reversed(list(enumerate(weights))):
        gradients.append(activations[layer].T @ back)
        if layer:
            back = back @ weight.T
    return [
        weight - SMALL * gradient
        for weight, gradient in zip(weights, reversed(gradients), strict=True)
    ]


def main(results: Path = RESULTS, peers: Path = PEERS) -> None:
    """Measures and writes the records.

    Args:
        results: file to write.
        peers: file that gets the share of the peak.
    """
    config = spjax.preset(TASK, "ppo")
    ppo, task = config.agent, config.task
    rows = ppo.steps_per_iteration // ppo.num_minibatches
    steps = ppo.num_minibatches * ppo.num_epochs
    heads = (len(task.action_lower), 1)
    networks = [widths_of(task.observation_size, ppo.hidden, head) for head in heads]
    count = steps * sum(operations(layers, rows) for layers in networks)

    key = jax.random.key(0)
    state, batch = ppo.init(key, task), _batch(ppo.steps_per_iteration, task)
    update = jax.jit(lambda state, batch: ppo._update(state, task, key, batch))

    @jax.jit
    def all_products(x: Array) -> PyTree:
        def step(weights: list[list[Array]], _: None) -> tuple[list[list[Array]], None]:
            return [descended(network, x) for network in weights], None

        start = [[jnp.full(layer, SMALL) for layer in layers] for layers in networks]
        return lax.scan(step, start, None, length=steps)[0]

    square = jnp.ones((PEAK, PEAK))
    multiply = jax.jit(jnp.matmul)
    x = batch.observation[:rows]
    seconds = by_turns(
        {
            "update": lambda: jax.block_until_ready(update(state, batch)),
            "products": lambda: jax.block_until_ready(all_products(x)),
            "peak": lambda: jax.block_until_ready(multiply(square, square)),
        }
    )
    counts = {"update": count, "products": count, "peak": 2 * PEAK**3}
    rates = {
        name: [1e-9 * counts[name] / one for one in found]
        for name, found in seconds.items()
    }
    peak = max(rates["peak"])
    shares = {
        f"share of the matrix peak in the PPO {name}": [
            rate / peak for rate in rates[name]
        ]
        for name in ("update", "products")
    }
    records = [
        measured_here(
            experiment="ppo-update",
            env=TASK,
            agent="ppo",
            teacher="none",
            metric=metric,
            seeds=range(len(values)),
            values=values,
            command=command_line("benchmarks.speed.ppo_update"),
        )
        for metric, values in {
            **{f"{name}: GFLOP/s": values for name, values in rates.items()},
            "update: ms": [1e3 * one for one in seconds["update"]],
            **shares,
        }.items()
    ]
    for record in records:
        print(f"{record['metric']}: {np.median(record['values']):.3g}")
    write_records(results, records)
    share = [
        {**one, "experiment": "peers"} for one in records if one["metric"] in shares
    ]
    write_records_beside(peers, share)


def _batch(rows: int, task: Env) -> Batch:
    """Returns random rows of an iteration."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Array:
        return jnp.asarray(rng.normal(size=(rows, *shape)), jnp.float32)

    return Batch(
        observation=draw(task.observation_size),
        action=draw(len(task.action_lower)),
        log_prob=draw() - 3.0,
        advantage=draw(),
        target=draw(),
    )


if __name__ == "__main__":
    tyro.cli(main)
