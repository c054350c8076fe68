"""What a redesign must not change, bits and speed: ``python -m benchmarks.redesign --before COMMIT`` trains both versions.

Every preset is trained for a few iterations with a few seeds, at the commit before and at the code as it stands; the
evaluations must be the same bits. Then the rows of `SPEED` are timed by turns, before and after, each in a process of its
own. Writes ``benchmarks/results/redesign.json``. Bits hold for one kind of machine, so both versions run on this one; what
was trained before is kept below ``.cache/redesign`` for the next comparison.
"""

import dataclasses
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "redesign"
RESULTS = ROOT / "benchmarks" / "results" / "redesign.json"
SEEDS = (1, 2, 3)
ITERATIONS = 5
RENAMED = {"creps": "c-reps"}  # before: after

Preset = tuple[str, str, str, str | None, str | None]  # task, agent, teacher, schedule, start
Bits = dict[str, list[str]]  # column of the evaluations -> float32 numbers in hexadecimal, one a row


@dataclasses.dataclass(frozen=True)
class SpeedRow:
    """A training that is timed."""

    preset: Preset
    seeds: int
    iterations: int

    @property
    def name(self) -> str:
        """The preset in words."""
        return " ".join(part for part in self.preset if part)


SPEED = (
    SpeedRow(("point-mass-3d", "ppo", "self-paced", "proportion", None), 8, 40),
    SpeedRow(("point-mass-3d", "ppo", "self-paced", "bound", None), 8, 40),
    SpeedRow(("point-mass-3d", "trpo", "alp-gmm", None, None), 8, 40),
    SpeedRow(("point-mass-2d", "sac", "goal-gan", None, None), 2, 10),
    SpeedRow(("ball-catching", "ppo", "self-paced", "proportion", None), 2, 10),
    SpeedRow(("gate-precision", "sprl", "self-paced", None, None), 4, 40),
    SpeedRow(("gate-precision", "creps", "goal-gan", None, None), 4, 40),
)


def probe(presets: Sequence[Preset], seeds: Sequence[int], iterations: int, every: int) -> None:
    """Trains presets with whatever spjax is on the path, and prints a line of JSON for each.

    Only what every version of the library has is used: `preset`, `train`, and the Parquet files of a run folder.
    """
    import pyarrow.dataset as ds

    import spjax

    for task, agent, teacher, schedule, start in presets:
        config = spjax.preset(task, agent, teacher, schedule, start=start)
        config = dataclasses.replace(config, seeds=tuple(seeds), num_iterations=iterations, evaluate_every=every)
        with tempfile.TemporaryDirectory() as parent:
            folder = spjax.train(config, Path(parent) / "run", progress=False)
            summary = json.loads((folder / "summary.json").read_text())
            parts = sorted((folder / "evaluation").glob("*.parquet"))
            table = (
                ds.dataset([str(part) for part in parts])
                .to_table()
                .sort_by([("lane", "ascending"), ("iteration", "ascending")])
            )
            columns = {
                name: [_hex(value) for value in table[name].to_pylist()]
                for name in ("discounted_return", "success_rate", "contexts")
            }
        seconds = (summary["wall_seconds"] - summary["compile_seconds"]) / iterations
        line = {"preset": [task, agent, teacher, schedule, start], "bits": columns, "seconds": seconds}
        print(json.dumps(line), flush=True)


def _hex(value: Any) -> str:
    return " ".join(map(_hex, value)) if isinstance(value, list) else float(value).hex()


if __name__ == "__main__" and sys.argv[1:2] == ["probe"]:
    probe(**json.loads(sys.argv[2]))
