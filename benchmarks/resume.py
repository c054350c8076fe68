"""Kills a training process again and again: ``python -m benchmarks.resume [--kills 10]``.

A sweep is trained undisturbed, and once more with its process killed (SIGKILL) at random moments and resumed each time. Every
leaf of the final states must have the same bits. Writes ``benchmarks/results/resume.json``: 1 for each kill survived.
"""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import tyro

from benchmarks import command_line
from spjax.analysis.records import measured_here
from spjax.runs.results import write_records
from spjax.training.train import restore

RESULTS = Path(__file__).parent / "results" / "resume.json"
TRAIN = """
import dataclasses, sys, spjax
config = dataclasses.replace(spjax.preset("point-mass-3d"), seeds=(1, 2), num_iterations=int(sys.argv[2]), evaluate_every=2)
spjax.train(config, sys.argv[1], progress=False)
"""
RESUME = "import sys, spjax; spjax.resume(sys.argv[1], progress=False)"


def main(kills: int = 10, iterations: int = 400, seed: int = 0) -> None:
    """Compares a killed and resumed run with an undisturbed one.

    Args:
        kills: how often the process is killed.
        iterations: of the sweep; it must last longer than all kills.
        seed: of the moments.
    """
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        undisturbed, killed = Path(folder) / "undisturbed", Path(folder) / "killed"
        if _start(TRAIN, undisturbed, iterations).wait():
            sys.exit("the undisturbed run failed")
        process = _start(TRAIN, killed, iterations)
        reached: list[int] = []
        while len(reached) < kills:
            moment = _iteration(killed) + moments.randint(1, iterations // (2 * kills))
            while _iteration(killed) < moment and process.poll() is None:
                time.sleep(0.01)
            time.sleep(
                moments.uniform(0.0, 0.2)
            )  # anywhere within a chunk, a metrics file or a checkpoint
            if process.poll() is not None:
                sys.exit(
                    f"the run ended after {len(reached)} kills; give it more iterations"
                )
            process.kill()
            process.wait()
            reached.append(_iteration(killed))
            print(f"killed after iteration {reached[-1]}")
            process = _start(RESUME, killed, iterations)
        if process.wait():
            sys.exit("the resumed run failed")
        different = [
            not np.array_equal(a, b)
            for a, b in zip(_leaves(undisturbed), _leaves(killed), strict=True)
        ]
    same = not any(different)
    print(f"{len(different)} leaves, {sum(different)} differ after {kills} kills")
    write_records(
        RESULTS,
        [
            measured_here(
                experiment="resume",
                env="point-mass-3d",
                agent="ppo",
                teacher="self-paced",
                schedule="proportion",
                metric="every leaf bit-identical to the undisturbed run",
                seeds=reached,
                values=[float(same)] * kills,
                iterations=iterations,
                command=command_line("benchmarks.resume"),
            )
        ],
    )


def _start(program: str, folder: Path, iterations: int) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder), str(iterations)]
    )


def _iteration(folder: Path) -> int:
    """Returns the newest iteration whose metrics are written."""
    return max((int(path.stem) for path in folder.glob("metrics/*.parquet")), default=0)


def _leaves(folder: Path) -> list[np.ndarray]:
    _, program, states = restore(folder)
    return jax.tree.leaves(program.to_host(states))


if __name__ == "__main__":
    tyro.cli(main)
