"""A short measurement on an accelerator: ``python -m benchmarks.device_check`` prints one JSON object.

Environment steps a second of whole self-paced PPO training on the 3-D point mass (rollout, updates, context update, evaluation
of the target, all seeds in one program), and context updates a second, each for two batch sizes. Compile time is apart.
"""

import dataclasses
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import spjax
from benchmarks.context_problems import NASTY, ContextProblem, make_problem
from spjax.analysis.records import measured_here
from spjax.contexts import Gaussian
from spjax.runs.provenance import device, versions
from spjax.runs.results import Record, write_records
from spjax.self_paced.context_update import update_context
from spjax.training.program import Program

RESULTS = Path(__file__).parent / "results" / "device-check.json"
COMMAND = "make device-check"
ITERATIONS = 5  # a chunk
REPETITIONS = 3
LANES = (20, 512)
SOLVES = (1_000, 16_384)


def main() -> None:
    """Measures, prints and writes the records; says so where there is no accelerator."""
    if jax.devices()[0].platform == "cpu":
        print(
            json.dumps(
                {
                    "device": device(),
                    "note": "no accelerator: JAX sees only the CPU; nothing was measured",
                }
            )
        )
        return
    training = [measure_training(count) for count in LANES]
    solves = [measure_solves(count) for count in SOLVES]
    write_records(RESULTS, [*training, *solves])
    found = {
        f"{r['metric']}, batch {r['settings']['batch']}": round(r["mean"])
        for r in [*training, *solves]
    }
    print(json.dumps({"device": device(), "versions": versions(), **found}))


def measure_training(lanes: int) -> Record:
    """Returns environment steps a second of that many seeds in one program."""
    config = spjax.preset("point-mass-3d")
    agent = config.agent.replace(
        num_envs=16, num_steps=128
    )  # short rollouts: an accelerator pays for sequential steps
    config = dataclasses.replace(config, agent=agent, seeds=tuple(range(1, lanes + 1)))
    program = Program.of(config.experiments())
    chunk, compile_seconds = program.compile(ITERATIONS)
    states, _, _ = chunk(program.init(list(config.seeds)), ITERATIONS)
    rates = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        states, _, _ = chunk(states, ITERATIONS)
        jax.block_until_ready(states)
        rates.append(lanes * 2048 * ITERATIONS / (time.perf_counter() - start))
    return _record("environment steps/s", lanes, rates, compile_seconds)


def measure_solves(batch: int) -> Record:
    """Returns context updates a second of a batch of problems of point-mass size."""
    plain = [
        seed for seed in range(10 * len(NASTY)) if NASTY[seed % len(NASTY)] == "plain"
    ]
    few = jax.tree.map(
        lambda *leaves: np.stack(leaves).astype(leaves[0].dtype),
        *[make_problem(s, 3) for s in plain],
    )
    problems = jax.tree.map(
        lambda leaf: jnp.asarray(np.resize(leaf, (batch, *leaf.shape[1:]))), few
    )

    def solve(problem: ContextProblem) -> Gaussian:
        old = Gaussian(problem.old_mean, problem.old_chol)
        target = Gaussian(problem.target_mean, problem.target_chol)
        data = (old, target, problem.contexts, problem.values, problem.mask)
        return update_context(
            *data,
            alpha=problem.alpha,
            max_kl=problem.max_kl,
            std_floor=problem.std_floor,
        )[0]

    start = time.perf_counter()
    compiled = jax.jit(jax.vmap(solve)).lower(problems).compile()
    compile_seconds = time.perf_counter() - start
    jax.block_until_ready(compiled(problems))
    rates = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        jax.block_until_ready(compiled(problems))
        rates.append(batch / (time.perf_counter() - start))
    return _record("context updates/s", batch, rates, compile_seconds)


def _record(
    metric: str, batch: int, rates: list[float], compile_seconds: float
) -> Record:
    return measured_here(
        experiment="device-check",
        env="point-mass-3d",
        agent="ppo",
        teacher="self-paced",
        schedule="proportion",
        settings={"batch": batch},
        metric=metric,
        seeds=range(REPETITIONS),
        values=rates,
        iterations=ITERATIONS,
        compile_seconds=round(compile_seconds, 1),
        command=COMMAND,
    )


if __name__ == "__main__":
    main()
