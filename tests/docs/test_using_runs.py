"""The pages on policies and on following a run do what they say, on smaller jobs, in fresh processes."""

import numpy as np
import pyarrow.csv
import pytest

from spjax.runs.read import load_run
from tests.docs.running import ROOT, commands, python_blocks, run_well
from tests.docs.test_tutorials import RUN, SMALL

DOCS = ROOT / "docs"
POLICIES, FOLLOWING = (DOCS / f"{name}.md" for name in ("policies", "following"))


@pytest.mark.slow
def test_the_page_on_policies_runs_as_it_stands(tmp_path):
    text = POLICIES.read_text()
    use, reader = python_blocks(text)
    assert reader == (DOCS / "numpy_policy.py").read_text()
    train, *evaluations = commands(text)
    train = train.replace("--iterations 200", " ".join([*RUN, *SMALL["ppo"]]))
    (tmp_path / "tasks.csv").write_text("gate width,gate position\n0.5,2.5\n4,0\n")
    printed = run_well(
        tmp_path, train, use, *(line.replace("15", "3") for line in evaluations)
    )
    assert "2 contexts of tasks.csv" in printed
    scope = {}
    exec(reader, scope)
    action = scope["load"](tmp_path / "policy.npz")([0.0, 0.0, 3.0, 0.0, 2.5, 0.5])
    first = next(line for line in printed.splitlines() if line.startswith("["))
    shown = [float(word) for word in first.strip("[]").split()]
    np.testing.assert_allclose(action, shown, rtol=1e-4, atol=1e-6)
    episodes = pyarrow.csv.read_csv(tmp_path / "episodes.csv").to_pydict()
    assert set(episodes["context.gate position"]) == {2.5, 0.0}
    assert (tmp_path / "competence.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_page_on_following_runs_as_it_stands(tmp_path):
    text = FOLLOWING.read_text()
    first, board = python_blocks(text)
    assert "seeds=(1, 2))" in first
    small = (
        "seeds=(1, 2), num_iterations=4, evaluate_every=2, evaluation_episodes=4, "
        "agent=TINY)"
    )
    first = first.replace("seeds=(1, 2))", small)
    imported = "from tests.training.conftest import TINY\n"
    (longer,) = commands(text)
    run_well(
        tmp_path, f"{imported}{first}\n{board}", longer.replace("800", "6 --no-plots")
    )
    assert load_run(tmp_path / "runs" / "followed").last_evaluated_iteration == 6
    boards = tmp_path / "boards" / "boarded"
    assert sorted(folder.name for folder in boards.iterdir()) == ["seed-1", "seed-2"]
