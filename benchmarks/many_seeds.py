"""Hundreds of seeds in one program: ``python -m benchmarks.many_seeds [--seeds 512]``, meant for an accelerator.

Trains the self-paced PPO of the 3-D point mass with both schedules for the published 400 iterations and writes
``benchmarks/results/many-seeds.json``: the final return of every seed, wall and compile seconds.
"""

import argparse
import dataclasses
import tempfile
from pathlib import Path

import spjax
from benchmarks import command_line
from spjax.analysis.records import records_of_run
from spjax.analysis.tables import markdown_table
from spjax.runs.read import load_run
from spjax.runs.results import Record, write_records

RESULTS = Path(__file__).parent / "results" / "many-seeds.json"


def main() -> None:
    """Trains, prints a table and writes the records."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.many_seeds", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=512)
    seeds = parser.parse_args().seeds
    records: list[Record] = []
    for schedule in ("proportion", "bound"):
        config = spjax.preset("point-mass-3d", schedule=schedule)
        agent = config.agent.replace(
            num_envs=16, num_steps=128
        )  # short rollouts: an accelerator pays for sequential steps
        config = dataclasses.replace(
            config, agent=agent, seeds=tuple(range(1, seeds + 1)), evaluate_every=20
        )
        with tempfile.TemporaryDirectory() as folder:
            run = load_run(
                spjax.train(
                    config,
                    Path(folder) / "run",
                    command=command_line("benchmarks.many_seeds"),
                )
            )
            records += records_of_run(run, "many-seeds")
    write_records(RESULTS, records)
    print(markdown_table(records, metric="discounted_return"))
    for record in records:
        if record["metric"] == "discounted_return":
            print(
                f"{record['schedule']}: {record['wall_seconds']:.0f} s, of it compiling {record['compile_seconds']:.0f} s"
            )


if __name__ == "__main__":
    main()
