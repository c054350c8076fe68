"""Can the physics callback lock up? ``python -m benchmarks.callback_stress`` runs it long enough to find out.

Compiled rollouts of an arm with a small policy, one after another: of one lane of slots, then of two lanes for each core, as a
sweep runs them. A lock-up ends the process with the stacks of all threads.
"""

import faulthandler
import time

import jax
import jax.numpy as jnp
import tyro
from jaxtyping import Array

from spjax.cores import num_cores
from spjax.envs.physics import Physics, PhysicsState, make
from spjax.training.lanes import Calls, Compiled, Lanes
from spjax.training.progress import count
from tests.envs.physics import scenes

PATIENCE = 120  # s without a finished rollout


def main(rollouts: int = 1000, slots: int = 800, steps: int = 2) -> None:
    """Runs the rollouts and prints how long they took.

    Args:
        rollouts: in a row, for each of the two arrangements.
        slots: instances that a callback steps together.
        steps: control steps a rollout.
    """
    physics = make(scenes.SCENE, "native")

    def lane(states: PhysicsState) -> PhysicsState:
        return rollout(physics, states, steps)

    for num_lanes in (1, 2 * num_cores()):
        layout = Calls(num_lanes)
        keys = jax.random.split(jax.random.key(0), num_lanes)
        lanes = layout.to_devices(
            jax.vmap(lambda key: thrown_balls(physics, key, slots))(keys)
        )
        name = f"{count(num_lanes, 'lane')} on {count(*layout.workers)}"
        _repeat(name, layout.compile(lane, (lanes,)), lanes, rollouts)


def rollout(physics: Physics, states: PhysicsState, steps: int) -> PhysicsState:
    """Returns instances [slot, ...] after some control steps of a random policy network."""
    model = physics.compiled.model
    key_in, key_out = jax.random.split(jax.random.key(1))
    weights_in = jax.random.normal(key_in, (model.nq, 64))
    weights_out = jax.random.normal(key_out, (64, 2)) / 8

    def control_step(states: PhysicsState, _: None) -> tuple[PhysicsState, None]:
        actions = jnp.tanh(jnp.tanh(states.qpos @ weights_in) @ weights_out)
        return jax.vmap(
            lambda state, action: physics.step(state, scenes.control(action))
        )(states, actions), None

    return jax.lax.scan(control_step, states, length=steps)[0]


def thrown_balls(physics: Physics, key: Array, slots: int) -> PhysicsState:
    """Returns instances [slot, ...] whose balls fly in all directions."""
    velocities = jax.random.normal(key, (slots, 3))
    return jax.vmap(
        lambda velocity: scenes.start(physics, jnp.asarray([1.5, 0.0, 1.0]), velocity)
    )(velocities)


def _repeat(name: str, function: Compiled, lanes: Lanes, rollouts: int) -> None:
    start = time.perf_counter()
    for number in range(rollouts):
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        after = function(lanes)
        faulthandler.cancel_dump_traceback_later()
        if any(bool(lane.failed.any()) for lane in after):
            raise RuntimeError(f"rollout {number} has failed instances")
    print(
        f"{name}: {rollouts} rollouts in {time.perf_counter() - start:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    tyro.cli(main)
