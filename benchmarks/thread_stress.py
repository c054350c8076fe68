"""Do trainings in threads of one process disturb each other? ``python -m benchmarks.thread_stress`` tries it many times.

Every round trains the same small runs, of the point mass and of ball catching in turn, each in a thread and a folder of its
own, and compares every bit of what they leave with a run that was alone. A lock-up ends the process with
the stacks of all threads.
"""

import dataclasses
import faulthandler
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pyarrow.parquet as pq
import tyro

import spjax
from spjax.training.config import RunConfig
from spjax.training.train import restore

PATIENCE = 600  # s without a finished round


def main(rounds: int = 10, threads: int = 3) -> None:
    """Runs the rounds and prints how long they took.

    Args:
        rounds: one after another.
        threads: trainings at the same time.
    """
    faulthandler.enable()  # the stacks of all threads, whatever ends the process
    configs = [small("point-mass-2d"), small("ball-catching")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alone = [
            spjax.train(config, folder / f"alone-{i}", progress=False)
            for i, config in enumerate(configs)
        ]
        right = [content(run) for run in alone]
        for number in range(rounds):
            start = time.perf_counter()
            faulthandler.dump_traceback_later(PATIENCE, exit=True)
            runs = at_once(
                [configs[i % 2] for i in range(threads)], folder / f"round-{number}"
            )
            faulthandler.cancel_dump_traceback_later()
            if any(content(run) != right[i % 2] for i, run in enumerate(runs)):
                raise RuntimeError(f"round {number} has other bits than the runs alone")
            print(
                f"round {number + 1} of {rounds}: the same bits, {time.perf_counter() - start:.0f} s",
                flush=True,
            )


def small(env: str) -> RunConfig:
    """Returns a self-paced experiment of two seeds and many checkpoints that takes seconds."""
    config = spjax.preset(env)
    return dataclasses.replace(
        config,
        agent=config.agent.replace(
            num_envs=8, num_steps=16, num_minibatches=4, num_epochs=1, hidden=(8,)
        ),
        seeds=(1, 2),
        num_iterations=10,
        evaluate_every=1,
        evaluation_episodes=4,
        hold_position=False,
    )


def at_once(configs: list[RunConfig], folder: Path) -> list[Path]:
    """Returns the run folders of experiments that are trained at the same time, each in a thread."""
    with ThreadPoolExecutor(len(configs)) as threads:
        return list(
            threads.map(
                lambda i: spjax.train(configs[i], folder / str(i), progress=False),
                range(len(configs)),
            )
        )


def content(run: Path) -> list[str]:
    """Returns all numbers of a run, with every bit: of its final state and of its tables."""
    _, program, states = restore(run)
    leaves = [
        np.asarray(leaf).tobytes().hex()
        for leaf in jax.tree.leaves(program.to_host(states))
    ]
    tables = [
        pq.read_table(run / part).to_pydict()
        for part in ("metrics", "evaluation", "trajectories.parquet")
    ]
    return [*leaves, *map(repr, tables)]


if __name__ == "__main__":
    tyro.cli(main)
