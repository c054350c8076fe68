"""What a redesign must not change, bits and speed: ``python -m benchmarks.redesign --before COMMIT`` trains both versions.

Every preset is trained for a few iterations with a few seeds, at the commit before and at the code as it stands; the
evaluations must be the same bits. Then the rows of `SPEED` are timed by turns, before and after, each training in a process
of its own. Bits hold for one kind of machine, so both versions run on this one; what was trained is kept below
``.cache/redesign``, by commit, so that an interrupted comparison goes on. Writes ``benchmarks/results/redesign.json``.
"""

import dataclasses
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "redesign"
RESULTS = ROOT / "benchmarks" / "results" / "redesign.json"
SEEDS = (1, 2, 3)
ITERATIONS = 5
COLUMNS = ("discounted_return", "success_rate", "contexts")

Preset = tuple[
    str, str, str, str | None, str | None
]  # task, agent, teacher, schedule, start
Bits = Mapping[
    str, Sequence[str]
]  # column of the evaluations -> numbers in hexadecimal, one a row

# names that are spelled differently since; agents, then teachers by (agent, teacher)
AGENTS = {"creps": "c-reps"}
TEACHERS = {
    ("sprl", "self-paced"): "self-paced-joint",
    ("c-reps", "goal-gan"): "goal-gan-episodic",
    ("cma-es", "default"): "target-mean",
}
ALL_AGENTS = {"self-paced-gaussian": "spgl"}


@dataclasses.dataclass(frozen=True)
class SpeedRow:
    """A training that is timed."""

    preset: Preset  # in today's names
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
    SpeedRow(("gate-precision", "sprl", "self-paced-joint", None, None), 4, 40),
    SpeedRow(("gate-precision", "c-reps", "goal-gan-episodic", None, None), 4, 40),
)


def main(
    before: str, only: tuple[str, ...] = (), turns: int = 5, results: Path = RESULTS
) -> None:
    """Compares this code with an earlier commit.

    Args:
        before: the commit.
        only: words that a preset must have to be compared; all presets where there are none. Records are written for all.
        turns: how often each speed row is timed, before and after; 0 for none.
        results: file to write.
    """
    from spjax.presets import preset_names

    trees = {"before": _tree(before), "after": ROOT}
    wanted = [
        preset for preset in preset_names() if all(word in preset for word in only)
    ]
    old = dict(_trained(trees["before"], _commit(trees["before"]), wanted))
    new = dict(_trained(trees["after"], _state(trees["after"]), wanted))
    same = [preset for preset in wanted if old[preset] == new[preset]]
    for preset in wanted:
        print("same bits" if preset in same else "DIFFERENT", *filter(None, preset))
    print(f"{len(same)} of {len(wanted)} presets have the same bits")
    if only:
        return
    ratios = {row.name: _ratio(row, trees, turns) for row in SPEED} if turns else {}
    for name, ratio in ratios.items():
        print(f"{ratio:.3f}  {name}")
    _record(results, before, len(same), len(wanted), ratios)


def _record(
    results: Path, before: str, same: int, of: int, ratios: Mapping[str, float]
) -> None:
    from spjax.analysis.records import measured_here
    from spjax.runs.results import read_records, write_records

    shared: dict[str, Any] = {
        "experiment": "redesign",
        "env": "all presets",
        "agent": "all",
        "teacher": "all",
        "seeds": [0],
        "settings": {"before": before},
        "command": f"python -m benchmarks.redesign --before {before}",
    }
    values = {"presets with identical bits": same, "presets compared": of}
    if ratios:
        values["slowest speed ratio, after over before"] = max(ratios.values())
        values |= {f"speed ratio, {name}": ratio for name, ratio in ratios.items()}
    kept = (
        [one for one in read_records(results) if one["metric"] not in values]
        if results.is_file()
        else []
    )
    new = [
        measured_here(metric=metric, values=[value], **shared)
        for metric, value in values.items()
    ]
    write_records(results, [*kept, *new])


def _trained(
    tree: Path, label: str, presets: Sequence[Preset]
) -> Iterator[tuple[Preset, Bits]]:
    """Yields the evaluations of each preset at one version; those that are kept are not trained again."""
    file = CACHE / f"{label}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = map(json.loads, file.read_text().splitlines()) if file.is_file() else ()
    kept: dict[Preset, Bits] = {_today(line["preset"]): line["bits"] for line in lines}
    for preset in presets:
        if preset not in kept:
            print(f"training {label}:", *filter(None, preset), flush=True)
            line = _probe(tree, preset, SEEDS, ITERATIONS, 1)
            with file.open("a") as handle:
                handle.write(json.dumps(line) + "\n")
            kept[preset] = line["bits"]
        yield preset, kept[preset]


def _ratio(row: SpeedRow, trees: Mapping[str, Path], turns: int) -> float:
    """Returns the median over turns of seconds an iteration, after over before."""
    ratios = []
    for _ in range(turns):
        seconds = {
            side: _probe(
                tree,
                row.preset,
                range(1, row.seeds + 1),
                row.iterations,
                row.iterations,
            )["seconds"]
            for side, tree in trees.items()
        }
        ratios.append(seconds["after"] / seconds["before"])
    return statistics.median(ratios)


def _probe(
    tree: Path, preset: Preset, seeds: Sequence[int], iterations: int, every: int
) -> dict[str, Any]:
    """Trains one preset with the code of a tree, in a process of its own."""
    job = {
        "preset": preset,
        "seeds": list(seeds),
        "iterations": iterations,
        "every": every,
    }
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, __file__, "probe", json.dumps(job)],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(
            f"training {' '.join(filter(None, preset))} in {tree} failed:\n{done.stderr[-2000:]}"
        )
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


def probe(preset: Preset, seeds: Sequence[int], iterations: int, every: int) -> None:
    """Trains a preset with whatever spjax is on the path, and prints a line of JSON.

    Only what every version of the library has is used: `preset`, `train`, and the Parquet files of a run folder.
    """
    import pyarrow.parquet as pq

    import spjax

    config = _preset(preset)
    config = dataclasses.replace(
        config, seeds=tuple(seeds), num_iterations=iterations, evaluate_every=every
    )
    config = dataclasses.replace(
        config,
        teacher=_as_before(config.teacher),
        agent=_with_epsilon_as_before(config.agent),
    )
    with tempfile.TemporaryDirectory() as parent:
        folder = spjax.train(config, Path(parent) / "run", progress=False)
        summary = json.loads((folder / "summary.json").read_text())
        rows = [
            row
            for part in (folder / "evaluation").glob("*.parquet")
            for row in pq.read_table(part).to_pylist()
        ]
    rows.sort(key=lambda row: (row["lane"], row["iteration"]))
    bits = {name: [_hex(row[name]) for row in rows] for name in COLUMNS}
    seconds = (summary["wall_seconds"] - summary["compile_seconds"]) / iterations
    print(json.dumps({"preset": preset, "bits": bits, "seconds": seconds}))


def _preset(preset: Preset) -> Any:
    """Returns the configuration in the names of the version on the path."""
    import spjax

    task, agent, teacher, schedule, start = preset
    try:
        return spjax.preset(task, agent, teacher, schedule, start=start)
    except ValueError:
        old_teacher = {new: old for old, new in ALL_AGENTS.items()}.get(
            teacher, teacher
        )
        for (where, old), new in TEACHERS.items():
            old_teacher = old if (where, new) == (agent, teacher) else old_teacher
        old_agent = {new: old for old, new in AGENTS.items()}.get(agent, agent)
        return spjax.preset(task, old_agent, old_teacher, schedule, start=start)


def _as_before(teacher: Any) -> Any:
    """Returns the teacher without what was changed on purpose, in either version.

    The first update of the contexts came one iteration late for TRPO and SAC, and the point mass kept 256 episodes, not 1,000.
    """
    fields = {field.name for field in dataclasses.fields(teacher)}
    if not {"warmup", "buffer_size"} <= fields:
        return teacher
    return dataclasses.replace(
        teacher, warmup=5, buffer_size=min(teacher.buffer_size, 256)
    )


def _with_epsilon_as_before(agent: Any) -> Any:
    """Returns the agent with Adam's epsilon after the bias correction, where PPO's presets have it before since."""
    if "adam_epsilon" not in {field.name for field in dataclasses.fields(agent)}:
        return agent
    return dataclasses.replace(agent, adam_epsilon="after-correction")


def _today(preset: Sequence[str | None]) -> Preset:
    """Returns a preset in today's names."""
    task, agent, teacher, schedule, start = preset
    assert task
    assert agent
    assert teacher
    agent = AGENTS.get(agent, agent)
    teacher = TEACHERS.get((agent, teacher), ALL_AGENTS.get(teacher, teacher))
    return task, agent, teacher, schedule, start


def _hex(value: Any) -> str:
    return " ".join(map(_hex, value)) if isinstance(value, list) else float(value).hex()


def _tree(commit: str) -> Path:
    """Returns a checkout of a commit, whose packages can be imported from its root."""
    tree = CACHE / "trees" / _git("rev-parse", "--short", commit)
    if not tree.is_dir():
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", str(tree), commit)
    if not (
        tree / "spjax" / "envs"
    ).exists():  # versions whose package list mapped envs/
        (tree / "spjax" / "envs").symlink_to("../envs")
    return tree


def _commit(tree: Path) -> str:
    return _git("rev-parse", "--short", "HEAD", folder=tree)


def _state(tree: Path) -> str:
    """Returns a name of the code as it stands: the commit, and a digest of what is not committed."""
    changed = _git("diff", "HEAD", "--", "spjax", "envs", folder=tree)
    return _commit(tree) + (
        f"-{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else ""
    )


def _git(*arguments: str, folder: Path = ROOT) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    if sys.argv[1:2] == ["probe"]:
        probe(**json.loads(sys.argv[2]))
    else:
        import tyro

        tyro.cli(main)
