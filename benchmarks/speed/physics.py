"""Control steps a second of the physics engines: ``python -m benchmarks.speed.physics``.

The scene of the tests (a two-joint arm, a ball, a wall, a post; five substeps a control step), in three ways: C MuJoCo's batch
API alone, and compiled rollouts of the engines. Compile time is measured apart. Writes ``benchmarks/results/physics.json``.
"""

import time
from collections.abc import Callable
from pathlib import Path

import jax
import mujoco.batch
import numpy as np
import tyro
from spjax.envs.physics import make

from benchmarks.callback_stress import rollout, thrown_balls
from spjax.analysis.results import Record, commit, device, record, versions, write_records
from tests.envs.physics import scenes

RESULTS = Path(__file__).parents[1] / "results" / "physics.json"
REPETITIONS = 5


def main(
    sizes: tuple[int, ...] = (16, 64, 256, 800, 2048),
    steps: int = 20,
    engines: tuple[str, ...] = ("native", "mjx"),
    results: Path = RESULTS,
) -> None:
    """Measures all sizes.

    Args:
        sizes: instances stepped together.
        steps: control steps of a rollout.
        engines: for compiled rollouts; MJX takes about a minute a size to compile on two cores.
        results: file to write.
    """
    records: list[Record] = []
    for size in sizes:
        records.append(_record("C batch", size, steps, _bare_seconds(size, steps), None))
        for engine in engines:
            seconds, compile_seconds = _compiled_seconds(engine, size, steps)
            records.append(_record(engine, size, steps, seconds, compile_seconds))
    write_records(results, records)


def _bare_seconds(size: int, steps: int) -> list[float]:
    """Returns the seconds of repeated rollouts of C MuJoCo's batch API on all cores, nothing around it."""
    compiled = make(scenes.SCENE, "native").compiled
    batch = mujoco.batch.Batch(compiled.model, size)
    states = thrown_balls(make(scenes.SCENE, "native"), jax.random.key(0), size)
    qpos, qvel = np.asarray(states.qpos), np.asarray(states.qvel)

    def run() -> None:
        batch.reset(stage=0)
        batch.bind("qpos")[:], batch.bind("qvel")[:] = qpos, qvel
        for _ in range(steps):
            batch.step(nstep=scenes.SCENE.substeps)

    return _seconds(run)


def _compiled_seconds(engine: str, size: int, steps: int) -> tuple[list[float], float]:
    """Returns the seconds of repeated compiled rollouts, and of compiling."""
    physics = make(scenes.SCENE, engine)
    states = thrown_balls(physics, jax.random.key(0), size)
    start = time.perf_counter()
    compiled = jax.jit(lambda states: rollout(physics, states, steps)).lower(states).compile()
    compile_seconds = time.perf_counter() - start
    return _seconds(lambda: jax.block_until_ready(compiled(states))), compile_seconds


def _seconds(function: Callable[[], object]) -> list[float]:
    """Returns the seconds of calls after the first."""
    function()
    seconds = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds


def _record(engine: str, size: int, steps: int, seconds: list[float], compile_seconds: float | None) -> Record:
    rates = [size * steps / value for value in seconds]
    print(f"{engine:8} {size:5} instances: {np.median(rates):8.0f} control steps/s", flush=True)
    return record(
        experiment="physics",
        env="arm-and-ball",
        agent="none",
        teacher="none",
        metric="control steps per second",
        settings={"engine": engine, "instances": size},
        seeds=list(range(len(rates))),
        values=rates,
        compile_seconds=compile_seconds,
        device=device(),
        versions=versions() | {"mujoco": mujoco.__version__},
        commit=commit(),
        command="python -m benchmarks.speed.physics",
    )


if __name__ == "__main__":
    tyro.cli(main)
