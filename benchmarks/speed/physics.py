"""Control steps a second of the physics engines: ``python -m benchmarks.speed.physics``.

The scene of the tests (a two-joint arm, a ball, a wall, a post; five substeps a control step), in three ways: C MuJoCo's batch
API alone, and compiled rollouts of the engines. Compile time is measured apart. Writes ``benchmarks/results/physics.json``.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import mujoco.batch
import numpy as np
import tyro

from benchmarks import command_line
from benchmarks.callback_stress import rollout, thrown_balls
from spjax.analysis.records import measured_here
from spjax.envs.physics import make
from spjax.runs.results import Record, write_records
from tests.envs.physics import scenes

RESULTS = Path(__file__).parents[1] / "results" / "physics.json"
REPETITIONS = 7
MJX_ON_CPU = 800  # instances; with 2,048 its solver, which factorises matrices inside a loop, stood still on two cores


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
        runs, compile_seconds = {"C batch": _bare(size, steps)}, {}
        for engine in engines:
            if engine == "mjx" and size > MJX_ON_CPU and jax.default_backend() == "cpu":
                print(
                    f"{engine:8} {size:5} instances: not on CPU, where MJX can come to a standstill",
                    flush=True,
                )
            else:
                runs[engine], compile_seconds[engine] = _compiled(engine, size, steps)
        for engine, seconds in by_turns(runs).items():
            records.append(
                _record(engine, size, steps, seconds, compile_seconds.get(engine))
            )
        write_records(results, records)


Run = Callable[[], object]


def _bare(size: int, steps: int) -> Run:
    """Returns a rollout of C MuJoCo's batch API on all cores, nothing around it."""
    physics = make(scenes.SCENE, "native")
    batch = mujoco.batch.Batch(physics.compiled.model, size)
    states = thrown_balls(physics, jax.random.key(0), size)
    qpos, qvel = np.asarray(states.qpos), np.asarray(states.qvel)

    def run() -> None:
        batch.reset(stage=0)
        batch.bind("qpos")[:], batch.bind("qvel")[:] = qpos, qvel
        for _ in range(steps):
            batch.step(nstep=scenes.SCENE.substeps)

    return run


def _compiled(engine: str, size: int, steps: int) -> tuple[Run, float]:
    """Returns a compiled rollout, and the seconds of compiling it."""
    physics = make(scenes.SCENE, engine)
    states = thrown_balls(physics, jax.random.key(0), size)
    start = time.perf_counter()
    jitted = jax.jit(
        lambda states: rollout(physics, states, steps),
        compiler_options=physics.compiler_options,
    )
    compiled = jitted.lower(states).compile()
    return lambda: jax.block_until_ready(compiled(states)), time.perf_counter() - start


def by_turns(runs: Mapping[str, Run]) -> dict[str, list[float]]:
    """Returns the seconds of each run, repeated; they take turns, so that a busy moment of the machine meets all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(REPETITIONS):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def rollouts_record(
    env: str,
    settings: Mapping[str, str | int],
    rollouts: int,
    seconds: list[float],
    compile_seconds: float | None,
    command: str,
    unit: str = "rollouts",
) -> Record:
    """Prints and returns how many rollouts, or whatever the unit is, a second there were.

    Args:
        env: the task.
        settings: what was measured; the first says how.
        rollouts: of one repetition.
        seconds: of each repetition.
        compile_seconds: None where nothing was compiled.
        command: the module that measures.
        unit: what is counted.
    """
    rates = [rollouts / value for value in seconds]
    what = " ".join(map(str, settings.values()))
    print(f"{env}, {what}: {np.median(rates):.1f} {unit}/s", flush=True)
    return measured_here(
        experiment=f"{env}-speed",
        env=env,
        agent="none",
        teacher="none",
        metric=f"{unit} per second",
        settings=dict(settings),
        seeds=list(range(len(rates))),
        values=rates,
        compile_seconds=compile_seconds,
        command=command_line(command),
    )


def _record(
    engine: str,
    size: int,
    steps: int,
    seconds: list[float],
    compile_seconds: float | None,
) -> Record:
    rates = [size * steps / value for value in seconds]
    print(
        f"{engine:8} {size:5} instances: {np.median(rates):8.0f} control steps/s",
        flush=True,
    )
    return measured_here(
        experiment="physics",
        env="arm-and-ball",
        agent="none",
        teacher="none",
        metric="control steps per second",
        settings={"engine": engine, "instances": size},
        seeds=list(range(len(rates))),
        values=rates,
        compile_seconds=compile_seconds,
        command=command_line("benchmarks.speed.physics"),
    )


if __name__ == "__main__":
    tyro.cli(main)
