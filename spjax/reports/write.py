"""Writes the report of one run, or of several beside each other: all its numbers, and what shows them, in one HTML file."""

import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

import spjax
from spjax.analysis.pictures import check_one_task
from spjax.reports.animation import animation
from spjax.reports.defaults import defaults_of, preset_of
from spjax.reports.maps import maps
from spjax.reports.panels import panels, zero_throughout
from spjax.reports.results import facts, results, settings, summary, title
from spjax.reports.series import Series, all_series, drawn, looks
from spjax.runs.files import whole
from spjax.runs.read import Run, load_run

NAME = "report.html"  # in the run folder
SCRIPTS = ("scales.js", "charts.js", "contexts.js", "maps.js", "tables.js", "main.js")
MOST_FILMS = 4


def report(
    paths: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    film: bool = True,
    grid: int | None = None,
    episodes: int = 10,
    accept_changes: bool = False,
) -> Path:
    """Writes a report and returns its path.

    Args:
        paths: the run folder, or several of one task.
        out: the file; None for report.html in the run folder, where there is one alone.
        film: whether to play an episode of the first seed of each run, of up to four, and show it.
        grid: values of each context, all combined, to play episodes in, for a competence map; None for no map.
        episodes: of each policy in each context of the grid.
        accept_changes: whether the runs' own files may be others than those that they were trained with.

    Raises:
        ValueError: what `load_run` raises; several runs without `out`; runs of different tasks; what cannot be played on a
            grid. A film that cannot be made is one sentence in the report instead.
        OSError: the file cannot be written.
    """
    given = [paths] if isinstance(paths, str | Path) else paths
    folders = [Path(path) for path in given]
    file = destination(folders, None if out is None else Path(out))
    runs = [load_run(folder) for folder in folders]
    check_one_task(runs)
    series, others = drawn(everything := all_series(runs))
    content = content_of(runs, everything, series, others)
    if film:
        content["films"] = _films(everything, accept_changes)
    if grid is not None:
        content["maps"] = _maps(series, grid, episodes, accept_changes)
    write_page(file, content)
    return file


def destination(folders: Sequence[Path], out: Path | None) -> Path:
    """Returns the file that a report is written to.

    Raises:
        ValueError: nobody says where that of several runs goes; or it would be no HTML file, or a folder.
    """
    if out is None:
        if len(folders) != 1:
            raise ValueError("a report of several runs needs a place: --out FILE.html")
        return folders[0] / NAME
    if out.suffix != ".html":
        raise ValueError(f"a report is an .html file, got {out}")
    if out.is_dir():
        raise ValueError(f"{out} is a folder; name a file")
    return out


def content_of(
    runs: Sequence[Run],
    everything: Sequence[Series],
    series: Sequence[Series],
    others: str,
) -> dict[str, object]:
    """Returns all that needs no rollouts."""
    return {
        "title": title(runs),
        "summary": summary(runs),
        "made_by": f"spjax {spjax.__version__}",
        "runs": [
            {
                "label": next(one.run_label for one in everything if one.run is run),
                "facts": facts(run),
                "settings": settings(
                    run, defaults_of(run.config), preset_of(run.config)
                ),
            }
            for run in runs
        ],
        "results": results(everything),
        "series": [
            {"label": one.label, **look}
            for one, look in zip(series, looks(len(series)), strict=True)
        ],
        "others": others,
        "panels": panels(series),
        "zero": zero_throughout(series),
        "contexts": animation(series),
        "maps": [],
        "films": [],
    }


def write_page(file: Path, content: dict[str, object]) -> None:
    """Writes the page with this content, whole or not at all."""
    files = resources.files(__package__)
    data = json.dumps(content, separators=(",", ":"), allow_nan=False)
    text = Template((files / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(str(content["title"])),
        style=(files / "style.css").read_text(encoding="utf-8"),
        data=data.replace("<", "\\u003c"),
        script="\n".join((files / name).read_text("utf-8") for name in SCRIPTS),
    )
    with whole(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _films(everything: Sequence[Series], accept_changes: bool) -> list[dict[str, str]]:
    """Returns the page of a film of the first seed of each run, and what tells it apart; or a sentence where there is none."""
    from spjax.reports.rollouts import film_page  # and JAX, with all that plays

    labels: dict[Path, str] = {}  # of the first lane of each run
    for one in everything:
        labels.setdefault(one.run.path, one.label)
    made = []
    for path in list(labels)[:MOST_FILMS]:
        try:
            page = film_page(path, accept_changes)
            made.append({"page": page, "label": labels[path]})
        except (ValueError, ImportError) as problem:
            made.append({"problem": f"No rollout of {path}: {problem}."})
    if len(labels) > MOST_FILMS:
        made.append({"problem": f"Rollouts of the first {MOST_FILMS} runs are shown."})
    return made


def _maps(
    series: Sequence[Series], grid: int, episodes: int, accept_changes: bool
) -> list[dict[str, object]]:
    from spjax.reports.rollouts import on_grid  # and JAX

    paths = {one.run.path: None for one in series}
    return maps(
        series,
        {str(path): on_grid(path, grid, episodes, accept_changes) for path in paths},
    )
