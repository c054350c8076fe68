"""The mutants of a toy package: one function that its only test holds, one that it runs but does not look at."""

import ast
import json
import textwrap
from pathlib import Path

import pytest

from benchmarks.mutants import __main__ as command
from benchmarks.mutants import report
from benchmarks.mutants.choice import Reach, digest, watch
from benchmarks.mutants.mutate import Mutant, drawn, mutants_of
from benchmarks.mutants.reach import Reached
from benchmarks.mutants.report import Counts, read_verdicts, summary
from benchmarks.mutants.trial import Trial, Trials, Worker, copied, run_trial

MODULE = '''
    """Adds 1 + 1."""

    def held(number):
        return number + 7


    def unseen(number):
        """Returns 2 * it."""
        return number * 3


    def nobody(number):
        return number - 5
'''
TEST = """
    from spjax.agents.toy import held, unseen

    def test_seven_is_added():
        unseen(1)
        assert held(2) == 9
"""
FILE = "spjax/agents/toy.py"
UNSEEN = 9  # the line of its multiplication
NAME = "tests/agents/test_toy.py::test_seven_is_added"


def changes(source: str) -> list[tuple[str, str]]:
    """Returns the mutants of a source in short."""
    found = mutants_of("a.py", textwrap.dedent(source).strip())
    return [(mutant.before, mutant.after) for mutant in found]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one module and one test, which the command takes for its own."""
    root = tmp_path / "repository"
    for file, text in {FILE: MODULE, "tests/agents/test_toy.py": TEST}.items():
        path = root / file
        path.parent.mkdir(parents=True)
        path.write_text(textwrap.dedent(text).lstrip())
    for name in ("spjax", "spjax/agents"):
        (root / name / "__init__.py").touch()
    (root / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.setattr("benchmarks.mutants.trial.IMPORTED", ())
    monkeypatch.setattr(command, "ROOT", root)
    monkeypatch.setattr(command, "CACHE", root / ".cache" / "mutants")
    monkeypatch.setattr(command, "CODE", ("spjax/agents",))
    monkeypatch.setattr(command, "TESTS", ("tests/agents",))
    return root


def tried(root: Path, before: str, after: str, budget: float = 60) -> Trial:
    """Returns the trial of one mutant of the toy."""
    source = (root / FILE).read_text()
    (mutant,) = [
        one
        for one in mutants_of(FILE, source)
        if (one.before, one.after) == (before, after)
    ]
    reach = watch(root, root / ".cache", ["tests/agents"])
    rounds = reach.chosen(mutant, digest(source))
    with copied(root) as tree, Worker(tree) as worker:
        trials = Trials(root / "trials.jsonl", root)
        trial = run_trial(mutant, worker, rounds, budget, trials)
        assert (tree / FILE).read_text() == source
    assert (root / FILE).read_text() == source
    return trial


def test_operators_constants_and_arguments_are_changed_one_at_a_time() -> None:
    assert changes("x = a + 1") == [
        ("x = a + 1", "x = (a - 1)"),
        ("x = a + 1", "x = a + 2"),
    ]
    assert [after for _, after in changes("x = jnp.where(a <= b, -c, 0.0)")] == [
        "x = jnp.where(a <= b, 0.0, -c)",
        "x = jnp.where((a < b), -c, 0.0)",
        "x = jnp.where((a >= b), -c, 0.0)",
        "x = jnp.where(a <= b, c, 0.0)",
        "x = jnp.where(a <= b, -c, 1.0)",
    ]
    assert [
        after for _, after in changes("y = x.at[i].set(jnp.maximum(p & ~q, r))")
    ] == [
        "y = x",
        "y = x.at[i].set(jnp.minimum(p & ~q, r))",
        "y = x.at[i].set(jnp.maximum((p | ~q), r))",
        "y = x.at[i].set(jnp.maximum(p & q, r))",
    ]
    assert [after for _, after in changes("s = jnp.sum(x, axis=1, keepdims=True)")] == [
        "s = jnp.mean(x, axis=1, keepdims=True)",
        "s = jnp.sum(x, keepdims=True)",
        "s = jnp.sum(x, axis=1)",
        "s = jnp.sum(x, axis=2, keepdims=True)",
        "s = jnp.sum(x, axis=1, keepdims=False)",
    ]


def test_choices_take_the_other_arm() -> None:
    source = """
        def f(a, b):
            if a:
                return b if a and b else None
    """
    assert [after for _, after in changes(source)] == [
        "if (not a):",
        "return (None if a and b else b)",
        "return b if (a or b) else None",
    ]


def test_a_change_inside_a_product_keeps_what_it_is_a_factor_of() -> None:
    (mutant, *_) = mutants_of("a.py", "x = (a + b) * c\n")
    source = mutant.applied("x = (a + b) * c\n")
    assert eval(source.partition("=")[2], {"a": 2, "b": 3, "c": 10}) == 0.5
    inner = [
        one for one in mutants_of("a.py", "x = a * b ** c\n") if "b * c" in one.after
    ]
    assert inner[0].after == "x = a * (b * c)"


@pytest.mark.parametrize(
    "source",
    [
        '"""Takes 1 + 1."""\n',
        "from a import b\n",
        "def f(x: Float[Array, '2 3'] | None) -> tuple[int, 1]:\n    '''Of 3.'''\n",
        "Table = dict[str, Float[Array, 'n 2']] | None\n",
        "class A:\n    size: Literal[1, 2]\n",
        "@struct.dataclass(frozen=True)\nclass A:\n    '''Not 1.'''\n",
        "def f(x):\n    raise ValueError(f'needs {x + 1} of {3}')\n",
        "x = setting(help='at least 1', unit='1 / s', static=True)\n",
        "if TYPE_CHECKING:\n    x = 1\n",
    ],
)
def test_what_has_no_behaviour_is_never_touched(source: str) -> None:
    ast.parse(source)
    assert changes(source) == []


def test_a_mutant_knows_the_lines_that_run_it() -> None:
    source = textwrap.dedent(
        """
        LIMIT = 4

        class A:
            rate: float = setting(0.5, least=0)

            def act(self, count=2):
                total = (
                    3 +
                    count
                )
                if total > 7:
                    total = 8
                return total
        """
    ).lstrip()
    lines = {one.before: one.lines for one in mutants_of("a.py", source)}
    assert lines == {
        "LIMIT = 4": None,
        "rate: float = setting(0.5, least=0)": (3, 13),
        "def act(self, count=2):": (7, 13),
        "3 + count": (7, 10),
        "3 +": (7, 10),
        "if total > 7:": (11, 11),
        "total = 8": (12, 12),
    }


def test_equal_changes_of_one_file_are_told_apart() -> None:
    keys = {one.key for one in mutants_of("a.py", "x = 1\nx = 1\n")}
    assert keys == {("a.py", "x = 1", "x = 2", 0), ("a.py", "x = 1", "x = 2", 1)}


def test_a_sample_begins_with_the_smaller_one_and_outlives_a_change_elsewhere() -> None:
    source = "".join(f"x{number} = {number}\n" for number in range(1, 40))
    every = mutants_of("a.py", source)
    assert drawn(every, 20, 0)[:5] == drawn(every, 5, 0)
    assert drawn(every, 39, 0) != drawn(every, 39, 1)
    moved = mutants_of("a.py", f"y = z\n{source}")
    names = [one.before for one in drawn(every, 10, 0)]
    assert [one.before for one in drawn(moved, 10, 0)] == names


@pytest.mark.slow
def test_the_tests_catch_what_they_look_at_and_nothing_else(root: Path) -> None:
    held = tried(root, "return number + 7", "return (number - 7)")
    unseen = tried(root, "return number * 3", "return number * 6")
    nobody = tried(root, "return number - 5", "return (number + 5)")
    assert (held.caught, held.by, held.tests) == (True, NAME, 1)
    assert (unseen.caught, unseen.by, unseen.tests) == (False, "", 1)
    assert (nobody.caught, nobody.by, nobody.tests) == (False, "", 0)


@pytest.mark.slow
def test_an_endless_loop_is_caught_by_its_time_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.mutants.trial.PATIENCE", 3.0)
    loop = "def held(n):\n    while n < 9:\n        n += 7\n    return n\n"
    (root / FILE).write_text(loop + "\n\ndef unseen(number):\n    pass\n")
    assert tried(root, "n += 7", "n -= 7", budget=1).by == "time-out"


def test_no_test_begins_when_the_seconds_are_spent(root: Path) -> None:
    test = root / "tests/agents/test_toy.py"
    again = "".join(f"\n\ndef test_{one}():\n    unseen(1)\n" for one in "ab")
    test.write_text(test.read_text() + again)
    unseen = tried(root, "return number * 3", "return number * 6", budget=0)
    assert (unseen.caught, unseen.tests, unseen.left) == (False, 1, 2)


def test_tests_of_a_file_stay_together_and_those_of_the_own_room_come_first() -> None:
    (mutant, *_) = mutants_of(FILE, (textwrap.dedent(MODULE)).lstrip())
    assert mutant.lines == (4, 4)

    def reached(test: str, seconds: float, line: int = 4) -> Reached:
        return Reached(test, seconds, {FILE: frozenset({line})})

    tests = [
        reached("tests/solvers/test_a.py::first", 0.1),
        reached("tests/agents/test_b.py::first", 1.5),
        reached("tests/agents/test_b.py::second", 0.1),
        reached("tests/agents/test_b.py::slow", 9.0),
        reached("tests/agents/test_c.py::first", 0.3),
        reached("tests/agents/test_c.py::elsewhere", 0.1, line=9),
        reached("tests/agents/test_toy.py::first", 1.9),
        reached("tests/agents/test_d.py::elsewhere", 0.1, line=9),
    ]
    watched = {test.file: {FILE: "now"} for test in tests}
    rounds = Reach(tests, watched).chosen(mutant, "now")
    names = [[test.test.removeprefix("tests/") for test in one] for one in rounds]
    assert names == [
        [
            "agents/test_toy.py::first",
            "agents/test_c.py::first",
            "agents/test_b.py::first",
            "agents/test_b.py::second",
            "solvers/test_a.py::first",
        ],
        ["agents/test_b.py::slow"],
        ["agents/test_c.py::elsewhere"],
    ]
    moved = Reach(tests, watched).chosen(mutant, "later")
    assert sum(map(len, moved)) == len(tests)


def test_without_the_change_no_test_fails(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.main(sample=2, unchanged=True)
    assert "2 of 2, 0 caught" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_run_goes_on_and_a_better_test_is_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = []
    monkeypatch.setattr(
        command, "write_report", lambda judged, verdicts, seed: written.append(judged)
    )
    command.main(sample=100)
    out = capsys.readouterr().out
    (judged,) = written
    count = len(judged)
    assert f"{count} of {count} mutants" in out
    assert out.count("min left") == count
    assert f"survived: {FILE}:{UNSEEN}: return number * 3  ->  return number * 6" in out
    caught = [mutant.before for mutant, trial in judged if trial.caught]
    assert set(caught) == {"return number + 7"}

    command.main(sample=100)
    assert "min left" not in capsys.readouterr().out

    test = root / "tests/agents/test_toy.py"
    test.write_text(test.read_text().replace("unseen(1)", "assert unseen(1) == 3"))
    command.main(sample=100, only="number * 3")
    assert "miss 0" in capsys.readouterr().out
    assert len(written) == 2


def test_equivalent_mutants_are_not_counted(tmp_path: Path) -> None:
    mutants = mutants_of("spjax/a.py", "a = 1\nb = 2\nc = 3\nd = 4\n")
    trials = [
        Trial(one.key, caught, "", 1.0, 2, 0, 60, "", "")
        for one, caught in zip(mutants, (True, True, False, False), strict=True)
    ]
    file = tmp_path / "verdicts.json"
    file.write_text(json.dumps([_verdict(mutants[2], "equivalent", "c is not used")]))
    judged = list(zip(mutants, trials, strict=True))
    verdicts = read_verdicts(file)
    counts = Counts(judged, verdicts)
    assert (counts.drawn, counts.equivalent, counts.share) == (
        4,
        1,
        pytest.approx(2 / 3),
    )
    assert "catch 2, 66.7 %, and miss 1" in summary(counts)

    report.write_report(judged, verdicts, 0, tmp_path / "mutants.json")
    values = {
        one["metric"]: one["mean"]
        for one in json.loads((tmp_path / "mutants.json").read_text())
    }
    assert values == {
        "mutants caught": pytest.approx(2 / 3),
        "mutants drawn": 4,
        "mutants without a change of behaviour": 1,
    }
    text = (tmp_path / "mutants.md").read_text()
    assert "| spjax/a.py:3 | `c = 3` | `c = 6` | equivalent: c is not used |" in text
    assert "| spjax/a.py:4 | `d = 4` | `d = 8` | survived 2 tests |" in text


def test_a_verdict_needs_a_reason(tmp_path: Path) -> None:
    (mutant,) = mutants_of("a.py", "x = 1\n")
    file = tmp_path / "verdicts.json"
    file.write_text(json.dumps([_verdict(mutant, "equivalent", "")]))
    with pytest.raises(ValueError, match="says why"):
        read_verdicts(file)


def _verdict(mutant: Mutant, verdict: str, why: str) -> dict[str, object]:
    names = ("file", "before", "after", "nth")
    return {**dict(zip(names, mutant.key, strict=True)), "verdict": verdict, "why": why}
