"""What came out: the share of mutants that the tests catch, and the survivors one by one.

A survivor that has been looked at has a line in ``verdicts.json``: the file, the line before and after, and why no test can
notice the change ("equivalent") or what is missing ("survived"). Lines, not their numbers, so that a verdict stays when the
file grows; a change of the line itself drops it.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from benchmarks import command_line
from benchmarks.mutants.mutate import Mutant
from benchmarks.mutants.trial import Trial
from spjax.analysis.records import measured_here
from spjax.runs.files import write_atomically
from spjax.runs.results import write_records

VERDICTS = Path(__file__).with_name("verdicts.json")
RESULTS = Path(__file__).parents[1] / "results" / "mutants.json"
EQUIVALENT = "equivalent"
SURVIVED = "survived"
INTRODUCTION = """\
# Mutants that survive

`python -m benchmarks.mutants` changes one place of the code at a time and runs the tests that reach it.

"""

Key = tuple[str, str, str, int]  # `Mutant.key`
Judged = Sequence[tuple[Mutant, Trial]]


class Verdict(TypedDict):
    """What was found of a survivor by hand."""

    file: str
    before: str
    after: str
    nth: int
    verdict: Literal["equivalent", "survived"]
    why: str


def read_verdicts(file: Path = VERDICTS) -> dict[Key, Verdict]:
    """Returns the verdicts by the mutant that they are about.

    Raises:
        ValueError: a verdict without a reason, or another word than "equivalent" and "survived".
    """
    verdicts: list[Verdict] = json.loads(file.read_text()) if file.is_file() else []
    for one in verdicts:
        if one["verdict"] not in (EQUIVALENT, SURVIVED) or not one["why"]:
            raise ValueError(
                f"a verdict is equivalent or survived, and says why, got {one}"
            )
    return {
        (one["file"], one["before"], one["after"], one["nth"]): one for one in verdicts
    }


class Counts:
    """How many mutants fared how."""

    def __init__(self, judged: Judged, verdicts: Mapping[Key, Verdict]) -> None:
        """Counts."""
        self.drawn = len(judged)
        self.caught = sum(trial.caught for _, trial in judged)
        self.survivors = [one for one in judged if not one[1].caught]
        self.equivalent = sum(
            mutant.key in verdicts and verdicts[mutant.key]["verdict"] == EQUIVALENT
            for mutant, _ in self.survivors
        )

    @property
    def share(self) -> float:
        """Of the mutants that change what the code does, those that a test notices."""
        return self.caught / max(self.drawn - self.equivalent, 1)


def write_report(
    judged: Judged,
    verdicts: Mapping[Key, Verdict],
    seed: int,
    results: Path = RESULTS,
) -> None:
    """Writes the records, and the survivors as a table beside them."""
    counts = Counts(judged, verdicts)
    values = {
        "mutants caught": counts.share,
        "mutants drawn": counts.drawn,
        "mutants without a change of behaviour": counts.equivalent,
    }
    records = [
        measured_here(
            experiment="mutants",
            env="-",
            agent="-",
            teacher="-",
            metric=metric,
            seeds=[seed],
            values=[value],
            command=command_line("benchmarks.mutants"),
        )
        for metric, value in values.items()
    ]
    write_records(results, records)
    text = INTRODUCTION + summary(counts) + "\n\n" + _table(counts, verdicts)
    write_atomically(
        results.with_suffix(".md"), lambda temporary: temporary.write_text(text)
    )


def summary(counts: Counts) -> str:
    """Returns the result in a sentence."""
    rest = counts.drawn - counts.caught - counts.equivalent
    return (
        f"Of {counts.drawn} mutants {counts.equivalent} do what the code does; of the others the tests "
        f"catch {counts.caught}, {100 * counts.share:.1f} %, and miss {rest}."
    )


def _table(counts: Counts, verdicts: Mapping[Key, Verdict]) -> str:
    head = "| where | before | after | verdict |\n| --- | --- | --- | --- |\n"
    rows = []
    for mutant, trial in sorted(counts.survivors, key=lambda one: one[0].name):
        verdict = verdicts.get(mutant.key)
        words = f"{verdict['verdict']}: {verdict['why']}" if verdict else _unseen(trial)
        cells = [f"{mutant.file}:{mutant.line}", _code(mutant.before)]
        rows.append(f"| {' | '.join([*cells, _code(mutant.after), words])} |\n")
    return head + "".join(rows)


def _unseen(trial: Trial) -> str:
    if not trial.tests:
        return f"{SURVIVED}: no test runs it"
    more = f", {trial.left} were not run" if trial.left else ""
    return f"{SURVIVED} {trial.tests} tests{more}"


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")
