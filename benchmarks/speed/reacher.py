"""Rollouts a second of the reacher on CPU: ``python -m benchmarks.speed.reacher``.

Rollouts of the initial policy in initial contexts, in two ways: the compiled task, 50 rollouts in each of some lanes as in a
training of so many seeds, and C MuJoCo's batch API alone on all cores, which replays all of the very same movements, whose
targets it is given, until the very same ends. Writes ``benchmarks/results/reacher-speed.json``.
"""

import time
from pathlib import Path

import jax
import mujoco.batch
import numpy as np
import tyro
from jaxtyping import Array

from benchmarks.speed.physics import Run, by_turns, rollouts_record
from spjax.envs.base import EnvState
from spjax.envs.physics import make
from spjax.envs.reacher import Reacher
from spjax.envs.reacher_scene import NUM_HINGES, SCENE, start
from spjax.episodes import Outcome
from spjax.runs.results import Record, write_records
from spjax.training.lanes import Calls

RESULTS = Path(__file__).parents[1] / "results" / "reacher-speed.json"
ROLLOUTS = 50  # of a lane, as in an iteration of the published experiments


def main(lanes: tuple[int, ...] = (1, 8), results: Path = RESULTS) -> None:
    """Measures all numbers of lanes.

    Args:
        lanes: seeds that are rolled out side by side.
        results: file to write.
    """
    records: list[Record] = []
    for count in lanes:
        run, states, compile_seconds = _compiled(count)
        runs = {"C batch": _replay(states), "native": run}
        for name, seconds in by_turns(runs).items():
            compiling = compile_seconds if name == "native" else None
            settings = {"engine": name, "lanes": count, "rollouts": ROLLOUTS}
            records.append(
                rollouts_record(
                    "reacher",
                    settings,
                    count * ROLLOUTS,
                    seconds,
                    compiling,
                    "benchmarks.speed.reacher",
                )
            )
        write_records(results, records)


def _compiled(lanes: int) -> tuple[Run, EnvState, float]:
    """Returns the compiled rollouts, their states [rollout, time], and the seconds of compiling."""
    task, count = Reacher(engine="native"), lanes * ROLLOUTS
    key_thetas, key_contexts, key_rollouts = jax.random.split(jax.random.key(0), 3)
    std = jax.numpy.asarray(task.parameter_std)[None]
    inputs = (
        jax.random.split(key_rollouts, count),
        std * jax.random.normal(key_thetas, (count, task.parameter_size)),
        task.initial.sample_many(key_contexts, task.context_space, count),
    )
    options = task.compiler_options
    of_all = jax.jit(jax.vmap(task.states), compiler_options=options)
    states = jax.device_get(of_all(*inputs))

    def lane(inputs: tuple[Array, Array, Array]) -> Outcome:
        return jax.vmap(task.rollout)(*inputs)

    layout = Calls(lanes)
    of_lanes = layout.to_devices(
        jax.tree.map(
            lambda leaf: leaf.reshape(lanes, ROLLOUTS, *leaf.shape[1:]), inputs
        )
    )
    begin = time.perf_counter()
    compiled = layout.compile(lane, (of_lanes,), compiler_options=options)
    seconds = time.perf_counter() - begin
    return lambda: compiled(of_lanes), states, seconds


def _replay(states: EnvState) -> Run:
    """Returns the same movements in C MuJoCo's batch API, nothing around it."""
    count, times = states.terminated.shape
    compiled = make(SCENE, "native").compiled
    batch = mujoco.batch.Batch(compiled.model, count)
    *of_geoms, positions, quaternions = states.physics.fields
    for field, rows, values in zip(SCENE.fields, compiled.rows, of_geoms, strict=False):
        batch.expand(field.name)[:, rows] = values[:, 0]
    lengths = states.terminated.argmax(axis=1)

    def run() -> None:
        batch.reset(stage=0)
        batch.bind("qpos")[:] = start()
        for step in range(1, times):
            going = np.flatnonzero(lengths >= step)
            batch.bind("mocap_pos")[:] = positions[:, step]
            batch.bind("mocap_quat")[:] = quaternions[:, step]
            batch.step(going, nstep=SCENE.substeps)
            batch.bind("qpos")[:, NUM_HINGES:] = 0.0

    return run


if __name__ == "__main__":
    tyro.cli(main)
