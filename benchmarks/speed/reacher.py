"""Rollouts a second of the reacher on CPU: ``python -m benchmarks.speed.reacher``.

Rollouts of the initial policy in initial contexts, in two ways: the compiled task, and C MuJoCo's batch API alone on
all cores, which replays the very same movements, whose targets it is given, until the very same ends. Writes
``benchmarks/results/reacher-speed.json``.
"""

import time
from pathlib import Path

import jax
import mujoco.batch
import numpy as np
import tyro

from benchmarks import command_line
from benchmarks.speed.physics import Run, by_turns
from spjax.analysis.records import measured_here
from spjax.envs.base import EnvState
from spjax.envs.physics import make
from spjax.envs.reacher import Reacher
from spjax.envs.reacher_scene import NUM_HINGES, SCENE, start
from spjax.runs.results import Record, write_records

RESULTS = Path(__file__).parents[1] / "results" / "reacher-speed.json"


def main(sizes: tuple[int, ...] = (50, 400), results: Path = RESULTS) -> None:
    """Measures all sizes.

    Args:
        sizes: rollouts at a time.
        results: file to write.
    """
    records: list[Record] = []
    for size in sizes:
        run, states, compile_seconds = _compiled(size)
        runs = {"C batch": _replay(states), "native": run}
        for name, seconds in by_turns(runs).items():
            seconds_to_compile = compile_seconds if name == "native" else None
            records.append(_record(name, size, seconds, seconds_to_compile))
        write_records(results, records)


def _compiled(size: int) -> tuple[Run, EnvState, float]:
    """Returns the compiled rollouts, their states [rollout, time], and the seconds of compiling."""
    task = Reacher(engine="native")
    key_thetas, key_contexts, key_rollouts = jax.random.split(jax.random.key(0), 3)
    std = jax.numpy.asarray(task.parameter_std)
    inputs = (
        jax.random.split(key_rollouts, size),
        std * jax.random.normal(key_thetas, (size, task.parameter_size)),
        task.initial.sample_many(key_contexts, task.context_space, size),
    )
    states = jax.device_get(jax.jit(jax.vmap(task.states))(*inputs))

    begin = time.perf_counter()
    compiled = (
        jax.jit(jax.vmap(task.rollout), compiler_options=task.compiler_options)
        .lower(*inputs)
        .compile()
    )
    seconds = time.perf_counter() - begin
    return lambda: jax.block_until_ready(compiled(*inputs)), states, seconds


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


def _record(
    name: str, size: int, seconds: list[float], compile_seconds: float | None
) -> Record:
    rates = [size / value for value in seconds]
    print(f"{name:8} {size:5} rollouts: {np.median(rates):6.1f} rollouts/s", flush=True)
    return measured_here(
        experiment="reacher-speed",
        env="reacher",
        agent="none",
        teacher="none",
        metric="rollouts per second",
        settings={"engine": name, "instances": size},
        seeds=list(range(len(rates))),
        values=rates,
        compile_seconds=compile_seconds,
        command=command_line("benchmarks.speed.reacher"),
    )


if __name__ == "__main__":
    tyro.cli(main)
