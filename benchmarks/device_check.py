"""A short measurement on an accelerator: ``python -m benchmarks.device_check`` prints one JSON object.

Environment steps a second of whole self-paced PPO training on the 3-D point mass (rollout, updates, context update, evaluation
of the target, all seeds in one program), and context updates a second, each for two batch sizes. Compile time is apart.
"""

import dataclasses
import json
import time
from pathlib import Path

import jax
import numpy as np

import spjax
from benchmarks.context_problems import point_mass_problems
from spjax.analysis.results import device, record, versions, write_records
from spjax.self_paced.context_update import update_context
from spjax.training.program import Program, use_all_cores

RESULTS = Path(__file__).parent / "results" / "device-check.json"
COMMAND = "make device-check"
ITERATIONS = 5
LANES = (20, 512)
SOLVES = (1_000, 16_384)


def main() -> None:
    """Measures, prints and writes the records; says so where there is no accelerator."""
    use_all_cores()
    if jax.devices()[0].platform == "cpu":
        print(json.dumps({"device": device(), "note": "no accelerator: JAX sees only the CPU; nothing was measured"}))
        return
    training = [measure_training(count) for count in LANES]
    solves = [measure_solves(count) for count in SOLVES]
    write_records(RESULTS, [*training, *solves])
    found = {f"{r['metric']}, batch {r['settings']['batch']}": round(r["mean"]) for r in [*training, *solves]}
    print(json.dumps({"device": device(), "versions": versions(), **found}))


def measure_training(lanes: int) -> dict:
    """Returns a record of environment steps a second of that many seeds in one program."""
    config = dataclasses.replace(spjax.preset("point-mass-3d"), seeds=tuple(range(1, lanes + 1)))
    program = Program.of(config.experiments())
    chunk, compile_seconds = program.compile(ITERATIONS)
    states, _, _ = chunk(program.init(list(config.seeds)), ITERATIONS)
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        states, _, _ = chunk(states, ITERATIONS)
        jax.block_until_ready(states)
        rates.append(lanes * 2048 * ITERATIONS / (time.perf_counter() - start))
    return record(
        experiment="device-check", env="point-mass-3d", agent="ppo", teacher="self-paced", schedule="proportion",
        metric="environment steps/s", settings={"batch": lanes}, values=rates, iterations=ITERATIONS,
        compile_seconds=compile_seconds, command=COMMAND,
    )  # fmt: skip


def measure_solves(batch: int) -> dict:
    """Returns a record of context updates a second of a batch of problems of point-mass size."""
    problems = point_mass_problems(batch)
    solve = jax.jit(jax.vmap(lambda p: update_context(*p.data, alpha=p.alpha, max_kl=p.max_kl)[0]))
    start = time.perf_counter()
    jax.block_until_ready(solve(problems))
    compile_seconds = time.perf_counter() - start
    rates = []
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(solve(problems))
        rates.append(batch / (time.perf_counter() - start))
    return record(
        experiment="device-check", metric="context updates/s", settings={"batch": batch}, values=rates,
        compile_seconds=compile_seconds, command=COMMAND,
    )  # fmt: skip


if __name__ == "__main__":
    main()
