"""The figure of the gate's success rates, beside the rewards of figure-gate."""

from pathlib import Path

from benchmarks.paper.episodic import panels
from benchmarks.paper.figure_gate import CELLS, ENVS
from benchmarks.paper.pictures.episodic import quantile_curves
from benchmarks.paper.records import Runs
from spjax.analysis.style import save

__all__ = ["CELLS", "NAME", "RECORDS", "report"]

NAME = "figure-gate-success"
RECORDS = "figure-gate"  # whose records these runs are in


def report(runs: Runs, results: Path) -> str:
    """Draws what is finished and returns the caption with the picture; the records are those of figure-gate."""
    shown = panels(runs, *ENVS)
    if not shown:
        return "nothing is finished yet"
    picture = save(
        quantile_curves(shown, "success_rate"),
        results / "pictures" / NAME / "success.png",
    )
    text = f"![Success rates on the gate]({picture.relative_to(results).as_posix()})\n"
    (results / f"{NAME}.md").write_text(text, encoding="utf-8")
    return text
