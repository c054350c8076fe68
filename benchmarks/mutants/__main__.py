"""How many small faults the tests notice: ``python -m benchmarks.mutants``.

A mutant is the code with one place changed: + for -, < for <=, a constant, two arguments swapped, a keyword dropped. Of all
mutants of the rooms below, a random sample is put before the tests that run the changed line, the quickest first, in a copy
of the repository. A failing test catches a mutant; so does a time-out, or a package that no longer starts.

The first run watches which lines each test runs, which takes longer than the tests; this and every trial are kept below
``.cache/mutants``, so an interrupted run goes on, and after a change only those mutants are tried again that it concerns: caught
ones when their module or the test that caught them has changed, survivors when any test has. A survivor that does what the code
does is not counted; ``benchmarks/mutants/verdicts.json`` says which and why. Writes ``benchmarks/results/mutants.json``, and
the survivors into ``mutants.md`` beside it.
"""

import queue
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path

import tyro

from benchmarks.mutants.choice import Reach, digest, modules, watch
from benchmarks.mutants.mutate import Mutant, drawn, mutants_of
from benchmarks.mutants.report import (
    EQUIVALENT,
    Counts,
    read_verdicts,
    summary,
    write_report,
)
from benchmarks.mutants.trial import Trial, Trials, Worker, copied, run_trial

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "mutants"
ROOMS = ("agents", "self_paced", "contexts", "solvers", "teachers")
CODE = tuple(f"spjax/{room}" for room in ROOMS)
TESTS = (
    *(f"tests/{room}" for room in ROOMS),
    "tests/presets",
    "tests/test_built_in.py",
    "tests/training/test_episodic.py",
    "tests/training/test_methods.py",
)


def main(
    sample: int = 200,
    seed: int = 0,
    jobs: int = 1,
    only: str = "",
    budget: float = 60,
    unchanged: bool = False,
) -> None:
    """Draws mutants, puts them before the tests, and reports those that survive.

    Args:
        sample: number of mutants; a larger sample begins with the smaller one.
        seed: of the sample.
        jobs: mutants that are tried at the same time.
        only: text that the name of a mutant must have to be tried ("file:line: before  ->  after"); nothing is written then.
        budget: seconds of CPU, compilation included, after which a mutant is put before no further test.
        unchanged: run the same tests without the changes instead; none should fail.
    """
    sources = modules(ROOT, CODE)
    every = [
        mutant
        for file, source in sources.items()
        for mutant in mutants_of(file, source)
    ]
    mutants = [one for one in drawn(every, sample, seed) if only in one.name]
    print(f"{len(mutants)} of {len(every)} mutants", flush=True)

    if unchanged:
        same = [mutant.undone(sources[mutant.file]) for mutant in mutants]
        trials = Trials(CACHE / "unchanged.jsonl", ROOT)
        _try(same, watch(ROOT, CACHE, TESTS), trials, jobs, budget)
        return
    verdicts = read_verdicts()
    settled = {key for key, one in verdicts.items() if one["verdict"] == EQUIVALENT}
    trials = Trials(CACHE / "trials.jsonl", ROOT)
    missing = [
        mutant
        for mutant in mutants
        if trials.get(mutant, sources[mutant.file], budget) is None
        and not (mutant.key in settled and mutant.key in trials.kept)
    ]
    if missing:
        reach = watch(ROOT, CACHE, TESTS)
        _try(missing, reach, trials, jobs, budget)

    judged = [(mutant, trials.kept[mutant.key]) for mutant in mutants]
    counts = Counts(judged, verdicts)
    for mutant, _ in counts.survivors:
        if mutant.key not in settled:
            print(f"survived: {mutant.name}")
    print(summary(counts))
    if not only:
        write_report(judged, verdicts, seed)


def _try(
    mutants: Sequence[Mutant], reach: Reach, trials: Trials, jobs: int, budget: float
) -> None:
    """Tries mutants, several at a time, each in one of as many copies of the repository."""
    with ExitStack() as stack, ThreadPoolExecutor(jobs) as pool:
        workers: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for _ in range(jobs):
            tree = stack.enter_context(copied(ROOT))
            workers.put(stack.enter_context(Worker(tree)))

        def one(mutant: Mutant) -> tuple[Mutant, Trial]:
            worker = workers.get()
            try:
                source = (ROOT / mutant.file).read_text()
                rounds = reach.chosen(mutant, digest(source))
                return mutant, run_trial(mutant, worker, rounds, budget, trials)
            finally:
                workers.put(worker)

        started, caught = time.monotonic(), 0
        futures = [pool.submit(one, mutant) for mutant in mutants]
        for number, future in enumerate(as_completed(futures), start=1):
            mutant, trial = future.result()
            trials.add(trial)
            caught += trial.caught
            left = (time.monotonic() - started) / number * (len(mutants) - number)
            print(
                f"{number:4d} of {len(mutants)}, {caught} caught, {left / 60:.0f} min left; {trial.seconds:5.1f} s, "
                f"{trial.by or 'SURVIVED'}: {mutant.name}",
                flush=True,
            )


if __name__ == "__main__":
    tyro.cli(main, description=__doc__)
