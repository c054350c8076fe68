"""The page on policies does what it says, on a smaller job, in a fresh process."""

import numpy as np
import pyarrow.csv
import pytest

from tests.docs.running import ROOT, commands, python_blocks, run_well

DOCS = ROOT / "docs"
SMALL = "seeds=(1, 2), num_iterations=2, evaluate_every=1, evaluation_episodes=4, agent=TINY)"


@pytest.mark.slow
def test_the_page_on_policies_runs_as_it_stands(tmp_path):
    text = (DOCS / "policies.md").read_text()
    use, reader = python_blocks(text)
    assert reader == (DOCS / "numpy_policy.py").read_text()
    assert "seeds=(1, 2))" in use
    use = use.replace("seeds=(1, 2))", SMALL)
    use = f"from tests.training.conftest import TINY\n{use}"
    evaluations = [line.replace("15", "3") for line in commands(text)]
    (tmp_path / "tasks.csv").write_text("gate width,gate position\n0.5,2.5\n4,0\n")
    printed = run_well(tmp_path, use, *evaluations)
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
