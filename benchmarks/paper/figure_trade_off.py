"""The trade-off figure: final return and iterations to a return of 5 against zeta and against K_alpha, TRPO on 3-D.

Each panel is one program: eight values times all seeds. The paper does not say which values it took, nor which learner; its
K_alpha of 20 and zeta of 1.6 are TRPO's. Alpha is zero in the first K_alpha - 1 updates, as in the published results, so that
an offset of 19 updates is their K_alpha of 20.
"""

from pathlib import Path

from benchmarks.paper.cells import Cell
from benchmarks.paper.pictures.curricula import CURRICULA
from benchmarks.paper.pictures.trade_off import trade_off_figure
from benchmarks.paper.records import Runs, records_of, write_report
from spjax.analysis.style import save
from spjax.analysis.tables import markdown_table

NAME = "figure-trade-off"
THRESHOLD = 5.0  # discounted return
ZETA = (0.2, 0.4, 0.8, 1.2, 1.6, 2.4, 3.2, 4.8)
OFFSETS = (
    0,
    1,
    4,
    9,
    19,
    39,
    79,
    159,
)  # updates; one less than the K_alpha of the published results
ZETAS, K_ALPHAS = (
    "teacher.schedule.zeta",
    "teacher.schedule.offset",
)  # the swept settings
_METHOD = ("point-mass-3d", "trpo", CURRICULA[0])
SWEEPS = {
    ZETAS: Cell(*_METHOD, "zeta-sweep", {"teacher.schedule.offset": 19}, {ZETAS: ZETA}),
    K_ALPHAS: Cell(
        *_METHOD, "offset-sweep", {"teacher.schedule.zeta": 1.6}, {K_ALPHAS: OFFSETS}
    ),
}
CELLS = list(SWEEPS.values())


def report(runs: Runs, results: Path) -> str:
    """Draws the finished sweeps, writes their records, and returns the picture, the times and the numbers."""
    sweeps = {
        name: records_of(NAME, [cell], runs, THRESHOLD)
        for name, cell in SWEEPS.items()
        if cell.name in runs
    }
    records = [record for sweep in sweeps.values() for record in sweep]
    lines = []
    if sweeps:
        picture = save(
            trade_off_figure(sweeps), results / "pictures" / NAME / "trade_off.png"
        )
        lines.append(
            f"![Final return and iterations to a return of 5]({picture.relative_to(results).as_posix()})"
        )
        lines += [_timing(name, runs) for name in sweeps]
        lines += [
            markdown_table(records, metric)
            for metric in ("discounted_return", "iterations_to_threshold")
        ]
    return write_report(results, NAME, records, "\n\n".join([*lines, ""]))


def _timing(name: str, runs: Runs) -> str:
    run = runs[SWEEPS[name].name]
    seconds = run.summary.wall_seconds if run.summary else None
    wall = "resumed, so not timed" if seconds is None else f"{seconds:.0f} s"
    return f"{name}: {len(run.config.lanes)} runs in one program, {wall} on {run.config.device}."
