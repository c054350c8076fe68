"""Control steps a second of the ant on CPU: ``python -m benchmarks.speed.ant``.

Random actions in initial contexts, in two ways: the compiled task with the published number of slots in each of some lanes, as
in a training of so many seeds, and C MuJoCo's batch API alone on all cores, from the very same starts with the very same
actions and gates. Writes ``benchmarks/results/ant-speed.json``.
"""

import time
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco.batch
import numpy as np
import tyro
from jaxtyping import Array, Float

from benchmarks.speed.physics import Run, by_turns, rollouts_record
from spjax.envs.ant import Ant
from spjax.envs.base import EnvState
from spjax.envs.physics import make
from spjax.presets.ant import SLOTS
from spjax.runs.results import Record, write_records
from spjax.training.lanes import Calls

RESULTS = Path(__file__).parents[1] / "results" / "ant-speed.json"


def main(
    lanes: tuple[int, ...] = (1, 8), steps: int = 100, results: Path = RESULTS
) -> None:
    """Measures all numbers of lanes.

    Args:
        lanes: seeds that are stepped side by side.
        steps: control steps of each slot in one repetition.
        results: file to write.
    """
    records: list[Record] = []
    for count in lanes:
        starts, actions = _inputs(count, steps)
        native, compile_seconds = _compiled(starts, actions)
        runs = {"C batch": _bare(starts, actions), "native": native}
        for name, seconds in by_turns(runs).items():
            records.append(
                rollouts_record(
                    "ant",
                    {"engine": name, "lanes": count, "slots": SLOTS},
                    count * SLOTS * steps,
                    seconds,
                    compile_seconds if name == "native" else None,
                    "benchmarks.speed.ant",
                    unit="control steps",
                )
            )
        write_records(results, records)


def _inputs(
    lanes: int, steps: int
) -> tuple[EnvState, Float[Array, "lane step slot 8"]]:
    """Returns first states [lane, slot] and actions, clipped."""
    env = Ant(engine="native")
    key_contexts, key_reset, key_actions = jax.random.split(jax.random.key(0), 3)
    contexts = env.initial.sample_many(key_contexts, env.context_space, lanes * SLOTS)
    keys = jax.random.split(key_reset, lanes * SLOTS)
    states = jax.jit(jax.vmap(env.reset))(keys, contexts)
    actions = jax.random.normal(key_actions, (lanes, steps, SLOTS, 8)).clip(-1.0, 1.0)
    return jax.tree.map(
        lambda leaf: leaf.reshape(lanes, SLOTS, *leaf.shape[1:]), states
    ), actions


def _compiled(
    starts: EnvState, actions: Float[Array, "lane step slot 8"]
) -> tuple[Run, float]:
    """Returns the compiled rollouts, and the seconds of compiling."""
    env, lanes = Ant(engine="native"), len(actions)
    key = jax.random.key(0)  # the task is deterministic

    def lane(inputs: tuple[EnvState, Array]) -> tuple[Array, Array]:
        def control_step(states: EnvState, actions: Array) -> tuple[EnvState, Array]:
            after = jax.vmap(lambda state, action: env.step(key, state, action))(
                states, actions
            )
            return after, after.reward

        states, rewards = jax.lax.scan(control_step, *inputs)
        return states.observation, rewards.sum(axis=0)

    layout = Calls(lanes)
    of_lanes = layout.to_devices((starts, actions))
    begin = time.perf_counter()
    compiled = layout.compile(lane, (of_lanes,), compiler_options=env.compiler_options)
    return lambda: compiled(of_lanes), time.perf_counter() - begin


def _bare(starts: EnvState, actions: Float[Array, "lane step slot 8"]) -> Run:
    """Returns the same steps in C MuJoCo's batch API, nothing around it."""
    scene = Ant().physics_scene()
    qpos, qvel, walls = (
        np.asarray(leaf).reshape(-1, *leaf.shape[2:])
        for leaf in (starts.physics.qpos, starts.physics.qvel, *starts.physics.fields)
    )
    controls = np.asarray(jnp.swapaxes(actions, 0, 1)).reshape(
        actions.shape[1], len(qpos), -1
    )
    compiled = make(scene, "native").compiled
    batch = mujoco.batch.Batch(compiled.model, len(qpos))

    def run() -> None:
        batch.reset(stage=0)
        batch.bind("qpos")[:], batch.bind("qvel")[:] = qpos, qvel
        batch.bind("mocap_pos")[:, compiled.rows[0]] = walls
        for control in controls:
            batch.bind("ctrl")[:] = control
            batch.step(nstep=scene.substeps)

    return run


if __name__ == "__main__":
    tyro.cli(main)
