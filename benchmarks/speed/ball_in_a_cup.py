"""Rollouts a second of ball-in-a-cup on CPU: ``python -m benchmarks.speed.ball_in_a_cup``.

Rollouts of the initial policy, in two ways: the compiled task, and C MuJoCo's batch API alone on all cores, with the
same torques computed by NumPy before every control step, until the same ends. Writes
``benchmarks/results/ball-in-a-cup-speed.json``.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import mujoco.batch
import numpy as np
import tyro

from benchmarks.speed.physics import Run, by_turns, rollouts_record
from spjax.envs import ball_in_a_cup_scene as scene
from spjax.envs.ball_in_a_cup import BallInACup, set_points
from spjax.envs.physics import compile_scene
from spjax.runs.results import Record, write_records

RESULTS = Path(__file__).parents[1] / "results" / "ball-in-a-cup-speed.json"


def main(
    sizes: tuple[int, ...] = (16, 160),
    strings: tuple[scene.String, ...] = ("tendon", "chain"),
    results: Path = RESULTS,
) -> None:
    """Measures both strings.

    Args:
        sizes: rollouts at a time; the chain of links, which is slow, has the first alone.
        strings: of the ball.
        results: file to write.
    """
    records: list[Record] = []
    for string in strings:
        for size in sizes if string == "tendon" else sizes[:1]:
            records += _measured(string, size)
    write_records(results, records)


def _measured(string: scene.String, size: int) -> Iterator[Record]:
    task = BallInACup(string=string, engine="native")
    key_theta, key_contexts, key = jax.random.split(jax.random.key(0), 3)
    std = jnp.asarray(task.parameter_std)[None]
    theta = std * jax.random.normal(key_theta, (size, std.size))
    contexts = task.initial.sample_many(key_contexts, task.context_space, size)
    inputs = jax.random.split(key, size), theta, contexts

    begin = time.perf_counter()
    program = jax.jit(jax.vmap(task.rollout), compiler_options=task.compiler_options)
    compiled = program.lower(*inputs).compile()
    compile_seconds = time.perf_counter() - begin
    lengths = np.asarray(compiled(*inputs).length)

    runs: dict[str, Run] = {
        "C batch": _bare(task, np.asarray(theta), np.asarray(contexts), lengths),
        "native": lambda: jax.block_until_ready(compiled(*inputs)),
    }
    for name, seconds in by_turns(runs).items():
        yield rollouts_record(
            "ball-in-a-cup",
            {"engine": name, "string": string, "instances": size},
            size,
            seconds,
            compile_seconds if name == "native" else None,
            "benchmarks.speed.ball_in_a_cup",
        )


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


if __name__ == "__main__":
    tyro.cli(main)
