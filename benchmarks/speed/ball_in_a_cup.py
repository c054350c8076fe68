"""Rollouts a second of ball-in-a-cup on CPU: ``python -m benchmarks.speed.ball_in_a_cup``.

Rollouts of the initial policy, in two ways: the compiled task, and C MuJoCo's batch API alone on all cores, with the
same torques computed by NumPy before every control step, until the same ends. Writes
``benchmarks/results/ball-in-a-cup-speed.json``.
"""

import functools
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco.batch
import numpy as np
import tyro

from benchmarks import command_line
from benchmarks.speed.physics import Run, by_turns
from spjax.analysis.records import measured_here
from spjax.envs import ball_in_a_cup_scene as scene
from spjax.envs.ball_in_a_cup import BallInACup, set_points
from spjax.envs.physics import compile_scene
from spjax.runs.results import Record, write_records

RESULTS = Path(__file__).parents[1] / "results" / "ball-in-a-cup-speed.json"


def main(
    sizes: tuple[int, ...] = (16, 160),
    string: scene.String = "tendon",
    results: Path = RESULTS,
) -> None:
    """Measures all sizes.

    Args:
        sizes: rollouts at a time.
        string: of the ball.
        results: file to write.
    """
    task = BallInACup(string=string, engine="native")
    records: list[Record] = []
    for size in sizes:
        key_theta, key_contexts, key = jax.random.split(jax.random.key(0), 3)
        std = jnp.asarray(task.parameter_std)[None]
        theta = std * jax.random.normal(key_theta, (size, std.size))
        contexts = task.initial.sample_many(key_contexts, task.context_space, size)
        inputs = jax.random.split(key, size), theta, contexts

        begin = time.perf_counter()
        program = jax.jit(
            jax.vmap(task.rollout), compiler_options=task.compiler_options
        )
        compiled = program.lower(*inputs).compile()
        seconds_to_compile = time.perf_counter() - begin
        lengths = np.asarray(compiled(*inputs).length)

        runs = {
            "C batch": _bare(task, np.asarray(theta), np.asarray(contexts), lengths),
            "native": functools.partial(_run, compiled, inputs),
        }
        for name, seconds in by_turns(runs).items():
            compiling = seconds_to_compile if name == "native" else None
            records.append(_record(name, string, size, seconds, compiling))
    write_records(results, records)


def _run(compiled: jax.stages.Compiled, inputs: tuple[jax.Array, ...]) -> None:
    jax.block_until_ready(compiled(*inputs))


def _bare(
    task: BallInACup, theta: np.ndarray, contexts: np.ndarray, lengths: np.ndarray
) -> Run:
    """Returns the same movements in C MuJoCo's batch API, nothing around it."""
    compiled = compile_scene(scene.scene(task.string))
    batch = mujoco.batch.Batch(compiled.model, len(theta))
    values = [scene.fields(scale) for scale in contexts[:, 0]]
    fields = zip(task.physics_scene().fields, compiled.rows, *values, strict=True)
    for field, rows, *per_instance in fields:
        batch.expand(field.name)[:, rows] = np.stack(per_instance)
    scales, positions, velocities = scene.settled(task.string)
    starts = [
        np.stack(
            [[np.interp(s, scales, row) for row in table.T] for s in contexts[:, 0]]
        )
        for table in (positions, velocities)
    ]
    points = jax.device_get(jax.vmap(set_points)(theta))
    stiffness, damping = np.asarray(scene.STIFFNESS), np.asarray(scene.DAMPING)
    joints = len(stiffness)
    qpos, qvel, control = (batch.bind(name) for name in ("qpos", "qvel", "ctrl"))

    def run() -> None:
        batch.reset(stage=0)
        qpos[:], qvel[:] = starts
        for step in range(task.horizon):
            off = points.positions[:, step] - qpos[:, :joints]
            slow = points.velocities[:, step] - qvel[:, :joints]
            control[:] = stiffness * off + damping * slow
            going = np.flatnonzero(lengths > step)
            ids = None if going.size == len(lengths) else going
            batch.step(ids, nstep=compiled.scene.substeps)

    return run


def _record(
    name: str,
    string: str,
    size: int,
    seconds: list[float],
    compile_seconds: float | None,
) -> Record:
    rates = [size / value for value in seconds]
    print(f"{name:8} {size:5} rollouts: {np.median(rates):6.1f} rollouts/s", flush=True)
    return measured_here(
        experiment="ball-in-a-cup-speed",
        env="ball-in-a-cup",
        agent="none",
        teacher="none",
        metric="rollouts per second",
        settings={"engine": name, "string": string, "instances": size},
        seeds=list(range(len(rates))),
        values=rates,
        compile_seconds=compile_seconds,
        command=command_line("benchmarks.speed.ball_in_a_cup"),
    )


if __name__ == "__main__":
    tyro.cli(main)
