"""What the rooms that read run folders may import."""

import ast
import subprocess
import sys
from pathlib import Path

import spjax.analysis


def test_analysis_works_from_run_folders_alone() -> None:
    files = list(Path(spjax.analysis.__file__).parent.glob("*.py"))
    assert len(files) > 5
    imported = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module)
            elif isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
    ours = {module for module in imported if module.startswith("spjax.")}
    assert not {
        module
        for module in ours
        if not module.startswith(
            ("spjax.analysis", "spjax.runs", "spjax.catalogue", "spjax.settings")
        )
    }


def test_run_folders_are_read_without_jax_scipy_and_matplotlib() -> None:
    heavy = [
        "jax",
        "scipy",
        "matplotlib",
        "spjax.training",
        "spjax.envs",
        "spjax.agents",
    ]
    rooms = "from spjax.runs import files, folder, pool, provenance, read, results, schema; import spjax.analysis.records"
    script = (
        f"import sys; {rooms}; print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
