"""Reports and films as Chromium shows them, at two widths, light and dark."""

import dataclasses
import json
import re
import time

import numpy as np
import pyarrow as pa
import pytest

from spjax.rendering.page import PLANE, SPACE, page_of
from spjax.reports.animation import COVARIANCE
from spjax.reports.maps import maps
from spjax.reports.series import all_series, drawn
from spjax.reports.write import content_of, write_page
from spjax.runs.read import load_run
from tests.analysis.test_competence import episodes, one_dimensional
from tests.made_run import Scenario, write_run
from tests.reports.browser import look, open_page, problems, screenshot, start
from tests.reports.test_content import BOXED, MIXED, ROWS, with_family, with_mixtures

ZETAS = ({"teacher.schedule.zeta": 0.8}, {"teacher.schedule.zeta": 1.6})
HEAD = {
    "title": "a film",
    "period": 0.1,
    "speed": 1.0,
    "hold": 5.0,
    "colors": {"true": "#0072B2", "false": "#D55E00"},
}
SAID = {"task": "any", "success": True, "end": "success", "returns": [0.0, 1.0]}
FLAT = HEAD | {
    "box": [-1, 1, -1, 1],
    "goal": [0, -1],
    "episodes": [
        SAID | {"path": [[0, 1], [0, -1]], "walls": [[[-1, 0], [-0.2, 0]]]},
    ],
}
STILL = [1.0, 0.0, 0.0, 0.0]
SIZES = {
    "plane": [0, 0],
    "sphere": [0.3],
    "capsule": [0.2, 0.2],
    "cylinder": [0.2, 0.2],
    "box": [0.2, 0.2, 0.2],
    "ellipsoid": [0.3, 0.2, 0.1],
}
SCENE = HEAD | {
    "camera": {"from": [0, -8, 2], "lookat": [0, 0, 0.5], "fovy": 45},
    "geoms": [
        {"name": kind, "kind": kind, "color": [1, 0, 0, 1] if kind == "sphere" else [0.5, 0.5, 0.5, 1]}
        for kind in SIZES
    ],
    "trail": 1,
    "episodes": [
        SAID
        | {
            "sizes": list(SIZES.values()),
            "poses": [
                [[k - 1.0 if k != 1 else 0.0, 0, 0.5 if k else 0, *STILL]]
                for k in range(len(SIZES))
            ],
        }
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = start(tmp_path_factory.mktemp("profile"))
    yield made
    made.quit()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A report of a small sweep, with a film."""
    folder = tmp_path_factory.mktemp("report")
    run = load_run(write_run(folder / "run", Scenario(seeds=(1, 2), swept=ZETAS)))
    series, others = drawn(everything := all_series([run]))
    content = content_of([run], everything, series, others)
    content["films"] = [
        {"page": page_of(FLAT, PLANE), "label": "zeta at 0.8"},
        {"problem": "No other."},
    ]
    write_page(folder / "report.html", content)
    return folder / "report.html"


def line_of(run):
    """Returns the run as if it had its first context alone, and the covariances of that."""
    run = one_dimensional(run)
    metrics, evaluation = run.metrics, run.evaluation
    variances = [row[:1] for row in metrics[COVARIANCE].to_pylist()]
    firsts = [row[::3] for row in evaluation["contexts"].to_pylist()]
    return dataclasses.replace(
        run,
        metrics=metrics.set_column(
            metrics.column_names.index(COVARIANCE), COVARIANCE, pa.array(variances)
        ),
        evaluation=evaluation.set_column(
            evaluation.column_names.index("contexts"), "contexts", pa.array(firsts)
        ),
    )


def content_in(file):
    found = re.search(r'type="application/json">(.*?)</script>', file.read_text())
    return json.loads(found[1])


def settled(browser, script, seconds=5.0):
    """Returns what a script returns once that is true."""
    end = time.monotonic() + seconds
    while not (value := browser.execute_script(script)) and time.monotonic() < end:
        time.sleep(0.05)
    return value


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [400, 1400])
def test_a_report_fills_the_width_prints_no_error_and_asks_for_nothing(
    browser, file, width, dark
):
    look(browser, width, dark)
    open_page(browser, file)
    assert settled(browser, "return document.querySelectorAll('polyline').length > 10")
    pixels = screenshot(browser)[::3, ::3].astype(int)
    paper = pixels[0, 0]
    assert (paper.mean() < 60) == dark
    covered = (np.abs(pixels - paper).max(axis=-1) > 40).mean()
    assert 0.01 < covered < 0.9
    assert len(np.unique(pixels @ [65536, 256, 1])) > 100  # colours
    across = browser.execute_script("return document.documentElement.scrollWidth")
    assert across <= width
    assert problems(browser, file) == []


def test_what_a_page_prints_and_asks_for_is_noticed(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<img src="https://example.org/x.png"><script>console.error("oh")</script>'
    )
    open_page(browser, bad)
    found = " ".join(problems(browser, bad))
    assert "https://example.org/x.png" in found
    assert '"oh"' in found


@pytest.mark.slow
def test_the_keyboard_moves_the_slider_and_reads_the_curves(browser, file):
    from selenium.webdriver.common.keys import Keys

    look(browser, 1400, False)
    open_page(browser, file)
    browser.find_element("id", "iteration").send_keys(Keys.ARROW_RIGHT)
    assert browser.find_element("id", "frame").text == "iteration 5"
    browser.find_element("id", "play").click()
    ended = "return document.getElementById('frame').textContent === 'iteration 20'"
    assert settled(browser, ended)

    chart = browser.find_element("css selector", "figure svg[tabindex]")
    browser.execute_script("arguments[0].focus()", chart)
    browser.switch_to.active_element.send_keys(Keys.END)
    told = browser.find_element("css selector", ".tip").text
    curve = content_in(file)["panels"][0]["curves"][0]
    assert told.startswith("iteration 20")
    assert f"{curve['middle'][-1]:.3g}" in told
    assert "ζ = 0.8" in told
    assert problems(browser, file) == []


@pytest.mark.slow
def test_a_film_has_the_name_of_its_setting_where_there_are_several(browser, file):
    look(browser, 1400, False)
    open_page(browser, file)
    caption = (
        "return document.querySelector('figure:has(iframe) figcaption').textContent"
    )
    assert settled(browser, caption) == "zeta at 0.8"


@pytest.mark.slow
def test_results_are_sorted_by_a_heading_and_a_curve_can_be_hidden(browser, file):
    look(browser, 1400, False)
    open_page(browser, file)
    first = "return [...document.querySelectorAll('tbody tr td:first-child')].slice(0, 2).map(c => c.textContent)"
    assert browser.execute_script(first) == ["0.8", "1.6"]
    heading = browser.find_element("css selector", "th button")
    heading.click()
    heading.click()
    assert browser.execute_script(first) == ["1.6", "0.8"]
    sorting = "return document.querySelector('th').getAttribute('aria-sort')"
    assert browser.execute_script(sorting) == "descending"

    count = "return document.querySelectorAll('figure:first-of-type polyline').length"
    settled(browser, f"{count} > 1")
    before = browser.execute_script(count)
    browser.find_element("css selector", ".legend button").click()
    assert browser.execute_script(count) < before


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gaussian", "log-normal", "discrete"])
def test_single_contexts_are_drawn_as_densities_spreads_or_atoms(
    browser, family, tmp_path
):
    run = line_of(load_run(write_run(tmp_path / "run", Scenario(seeds=(1,)))))
    ends = {"distribution": family}
    if family == "discrete":
        ends |= {"table": ((-1.0,), (2.0,)), "weights": (1.0, 3.0)}
    teacher = {**run.config.settings["teacher"], "initial": ends, "target": ends}
    record = {**run.config.settings, "teacher": teacher}
    run = dataclasses.replace(
        run, config=dataclasses.replace(run.config, settings=record)
    )
    series = all_series([run])
    content = content_of([run], series, series, "")
    content["maps"] = maps(series, {str(run.path): episodes(1, lanes=1)})
    write_page(tmp_path / "line.html", content)
    look(browser, 500, False)
    open_page(browser, tmp_path / "line.html")
    drawn_now = {
        "gaussian": "svg polyline.initial",
        "log-normal": "svg line.initial",
        "discrete": "svg circle.target",
    }[family]
    script = f"return document.querySelectorAll('{drawn_now}').length"
    assert settled(browser, script) == (2 if family == "discrete" else 1)
    maps_drawn = "return document.querySelectorAll('.pairs polyline').length"
    assert settled(browser, maps_drawn) == 2
    assert problems(browser, tmp_path / "line.html") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "count", "share"),
    [(MIXED, 2, 0.5), (ROWS, 2, 0.0), (BOXED, 1, 1.0)],
    ids=["mixture", "rows", "box"],
)
def test_each_component_has_an_ellipse_and_what_ends_at_a_box_stays_in_it(
    browser, family, count, share, tmp_path
):
    folder = write_run(tmp_path / "run", Scenario(dim=2, seeds=(1,)))
    with_family(folder, family)
    if family is MIXED:
        with_mixtures(folder)
    if family is BOXED:
        moments = {"mean": [0.0, 4.25], "std": [8 / 12**0.5, 7.5 / 12**0.5]}
        raw = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(raw | {"target": moments}))
    series = all_series([run := load_run(folder)])
    write_page(tmp_path / "families.html", content_of([run], series, series, ""))
    look(browser, 700, False)
    open_page(browser, tmp_path / "families.html")
    for which in ("initial", "target"):
        drawn_now = f"return document.querySelectorAll('polygon.{which}').length"
        assert settled(browser, drawn_now) == count
    across = (
        "const corner = document.querySelector('rect.bounds').getBBox();"
        "const drawn = document.querySelector('polygon.target').getBBox();"
        "return drawn.width / corner.width"
    )
    assert browser.execute_script(across) == pytest.approx(share, abs=0.01)
    assert problems(browser, tmp_path / "families.html") == []


@pytest.mark.slow
def test_films_show_their_shapes(browser, file, tmp_path):
    look(browser, 600, False)
    shown = {}
    for name, content, views in (("plane", FLAT, PLANE), ("space", SCENE, SPACE)):
        page = tmp_path / f"{name}.html"
        page.write_text(page_of(content, views))
        open_page(browser, page)
        settled(browser, "return document.querySelector('canvas')?.width > 300")
        time.sleep(0.2)
        assert problems(browser, page) == []
        shown[name] = screenshot(browser).astype(int)
    red, green, blue = np.moveaxis(shown["space"], -1, 0)
    ball = np.argwhere((red > 120) & (green < 60) & (blue < 60))
    assert 300 < len(ball) < 20_000
    assert abs(ball[:, 1].mean() - 300) < 15  # the ball is in the middle
    dark_pixels = shown["plane"].max(axis=-1) < 80
    assert dark_pixels[:, 100:250].sum() > 300  # the wall, left of its gap
