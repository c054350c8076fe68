"""What a report says, from run folders alone."""

import json
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spjax.analysis import statistics
from spjax.reports.animation import animation
from spjax.reports.maps import maps
from spjax.reports.numbers import inside, number, spread_out
from spjax.reports.panels import panels, zero_throughout
from spjax.reports.results import facts, results, settings
from spjax.reports.series import all_series, drawn, looks, plain
from spjax.reports.write import _films, destination, report
from spjax.runs.read import load_run
from tests.docs.running import ROOT
from tests.made_run import REFERENCE
from tests.runs.test_schema import KEPT

ZETA = "teacher.schedule.zeta"


def content_in(file):
    found = re.search(r'type="application/json">(.*?)</script>', file.read_text())
    return json.loads(found[1])


def panel_of(made, title):
    (panel,) = [panel for panel in made if panel["title"].startswith(title)]
    return panel


def with_columns(folder, **columns):
    """Gives the metrics of a run folder further columns, the same number in every row."""
    for part in (folder / "metrics").iterdir():
        table = pq.read_table(part)
        for name, value in columns.items():
            values = pa.array(np.full(len(table), value))
            table = table.append_column(name.replace("__", "."), values)
        pq.write_table(table, part)
    return folder


def test_bands_are_those_of_the_pictures(make_run):
    run = load_run(make_run(seeds=(1, 2, 3), reference=REFERENCE))
    made = panels(all_series([run]))
    (group,) = run.groups()
    panel = panel_of(made, "discounted return on target")
    values = run.evaluation_curves("discounted_return", group).values
    band = statistics.two_standard_errors(values)
    (curve,) = panel["curves"]
    assert curve["iterations"] == [0, 5, 10, 15, 20]
    for name in ("low", "middle", "high"):
        np.testing.assert_allclose(curve[name], getattr(band, name), rtol=1e-4)
    assert panel["note"] == "mean ± 2 standard errors, 3 seeds"
    assert panel["lines"][0]["value"] == REFERENCE.final.mean

    distances = panel_of(made, "KL to the target")
    quantiles = statistics.quantiles(
        run.metric_curves("teacher.kl_to_target", group).values
    )
    np.testing.assert_allclose(
        distances["curves"][0]["high"], quantiles.high, rtol=1e-4
    )
    assert distances["scale"] == "log"


def test_a_single_seed_has_no_band_and_a_gap_is_null(make_run):
    run = load_run(make_run(seeds=(1,)))
    curve = panel_of(panels(all_series([run])), "success rate on the tasks")["curves"][
        0
    ]
    assert curve["middle"][0] is None  # the first iteration has no success rate
    assert curve["middle"][1] is not None
    assert set(curve["low"]) == {None}


def test_a_panel_needs_its_metric_and_zeros_are_told(make_run):
    folder = with_columns(
        make_run(seeds=(1, 2)), teacher__step_kl=0.04, clipped_fraction=0.0
    )
    series = all_series([load_run(folder)])
    titles = [panel["title"] for panel in panels(series)]
    assert "KL used by the context update [nats]" in titles
    assert not any("sample size" in title for title in titles)
    assert zero_throughout(series) == ["share of contexts on a bound"]


def test_epsilon_is_a_line_only_where_all_curves_share_it(make_run):
    folders = [make_run(seeds=(1,)) for _ in range(2)]
    for folder, max_kl in zip(folders, (0.05, 0.1), strict=True):
        with_columns(folder, teacher__step_kl=0.04)
        raw = json.loads((folder / "config.json").read_text())
        raw["config"]["teacher"]["max_kl"] = max_kl
        (folder / "config.json").write_text(json.dumps(raw))
    alone, other = (load_run(folder) for folder in folders)
    title = "KL used by the context update"
    lines = panel_of(panels(all_series([alone])), title)["lines"]
    assert lines == [{"value": 0.05, "label": "ε = 0.05", "series": None}]
    assert panel_of(panels(all_series([alone, other])), title)["lines"] == []


def test_of_many_settings_the_best_and_the_worst_are_drawn_and_all_are_in_the_table(
    make_run,
):
    swept = tuple({ZETA: 0.1 * k} for k in range(1, 21))
    run = load_run(make_run(seeds=(1,), swept=swept, num_iterations=10))
    series = all_series([run])
    chosen, sentence = drawn(series)
    finals = [float(one.final_returns.mean()) for one in series]
    order = np.argsort(finals)
    expected = sorted([*order[:4], *order[-8:]])
    assert [one.label for one in chosen] == [series[k].label for k in expected]
    assert sentence.startswith("Of 20 settings, those with the 8 highest and the 4")
    assert len(results(series)["rows"]) == 20
    assert len({look["light"] for look in looks(len(chosen))}) == 12
    assert drawn(series[:12]) == (series[:12], "")


def test_one_setting_has_a_row_for_each_seed_and_several_have_one_each(make_run):
    run = load_run(make_run(seeds=(3, 5), frozen=(1,)))
    table = results(all_series([run]))
    seeds = [row[table["columns"].index("seed")] for row in table["rows"]]
    assert seeds == [[3, "3"], [5, "5"]]
    frozen = [row[table["columns"].index("frozen")][1] for row in table["rows"]]
    assert frozen == ["0", "1"]
    returned = table["rows"][0][table["columns"].index("final discounted return")]
    (group,) = run.groups()
    last = run.evaluation_curves("discounted_return", group).values[0, -1]
    assert returned == [number(last), f"{last:.2f}"]

    swept = ({ZETA: 0.8}, {ZETA: 1.6})
    table = results(all_series([load_run(make_run(seeds=(1, 2), swept=swept))]))
    assert [row[table["columns"].index("ζ")][0] for row in table["rows"]] == [0.8, 1.6]
    assert re.fullmatch(r"\d\.\d\d ± \d\.\d\d", table["rows"][0][2][1])


def test_facts_say_how_far_a_run_is_and_what_froze(make_run):
    going = dict(facts(load_run(make_run(seeds=(1, 2, 3), finished=False))))
    assert going["state"] == "at iteration 20 of 20, not finished"
    assert going["seeds"] == "1 to 3"
    ended = dict(facts(load_run(make_run(frozen=(1,)))))
    assert ended["state"].startswith("finished; 1 of 4 lanes frozen")
    assert ended["state"].endswith("seed 2 after iteration 17")
    assert ended["time"] == "81 s, of which 9 s compiling"


def test_settings_say_what_differs_from_default_and_preset(make_run):
    run = load_run(make_run())
    rows = settings(run, {"agent.max_grad_norm": "0.5"}, {f"{ZETA}": "1.4"})
    told = {name: rest for name, *rest in rows}
    assert told["agent.max_grad_norm"] == ["inf", "0.5", None]
    assert told[ZETA] == ["1.6", None, "1.4"]
    assert told["num_iterations"] == ["20", None, None]


def test_the_animation_has_the_recorded_moments_and_the_drawn_contexts(make_run):
    run = load_run(make_run(seeds=(1, 2)))
    made = animation(all_series([run]))
    assert [lane["label"] for lane in made["lanes"]] == ["seed 1", "seed 2"]
    frames = made["lanes"][1]["frames"]
    assert [frame["iteration"] for frame in frames] == [0, 5, 10, 15, 20]
    assert frames[0]["mean"] == list(run.config.initial.mean)
    rows = run.metrics.filter(run.metrics["lane"].to_numpy() == 1).to_pylist()
    last = rows[-1]
    np.testing.assert_allclose(
        frames[-1]["covariance"], last["teacher.context_covariance"], rtol=1e-4
    )
    assert frames[-1]["kl"] == pytest.approx(last["teacher.kl_to_target"], rel=0.01)
    drawn_then = run.evaluation.filter(
        (run.evaluation["lane"].to_numpy() == 1)
        & (run.evaluation["iteration"].to_numpy() == 20)
    )["contexts"][0]
    np.testing.assert_allclose(
        np.ravel(frames[-1]["samples"]), drawn_then.as_py(), atol=2e-3
    )
    initial = made["ends"][0]["initial"]
    np.testing.assert_allclose(
        np.reshape(initial["covariance"], (3, 3)),
        np.diag([4.0, 1.875**2, 1.0]),
        rtol=1e-4,
    )


def test_discrete_contexts_are_atoms_with_their_shares(make_run):
    folder = make_run(dim=2, seeds=(1,))
    raw = json.loads((folder / "config.json").read_text())
    atoms = {"distribution": "discrete", "table": [[0, 1], [2, 3]], "weights": [1, 3]}
    raw["config"]["teacher"]["target"] = atoms
    (folder / "config.json").write_text(json.dumps(raw))
    made = animation(all_series([load_run(folder)]))
    target = made["ends"][0]["target"]
    assert target["atoms"] == [[0, 1], [2, 3]]
    assert target["shares"] == [0.25, 0.75]
    assert not target["normal"]


MIXED = {
    "distribution": "mixture",
    "means": [[-2.0, 4.0], [2.0, 3.0]],
    "stds": [[1.0, 0.5], [0.4, 0.3]],
    "covariances": None,
    "weights": [0.25, 0.75],
}
ROWS = {
    "distribution": "discrete-gaussian",
    "table": [[-1.0], [2.0]],
    "weights": [1, 3],
    "mean": [4.0],
    "std": [0.5],
    "covariance": None,
}
BOXED = {
    "distribution": "beta",
    "a": [1, 1],
    "b": [1, 1],
    "lower": [-4.0, 0.5],
    "upper": [4.0, 8.0],
}


def with_family(folder, family):
    """Gives a run folder initial and target distributions of a family."""
    raw = json.loads((folder / "config.json").read_text())
    raw["config"]["teacher"] |= {"initial": family, "target": family}
    (folder / "config.json").write_text(json.dumps(raw))
    return folder


def with_mixtures(folder):
    """Gives every row of the metrics two components."""
    named = {
        "weights": [0.5, 0.5],
        "means": [-1.0, 4.0, 1.0, 3.0],
        "covariances": [1.0, 0.2, 0.2, 0.5, 0.1, 0.0, 0.0, 0.3],
    }
    for part in (folder / "metrics").iterdir():
        table = pq.read_table(part)
        for name, value in named.items():
            column = pa.array([value] * len(table))
            table = table.append_column(f"teacher.components.{name}", column)
        pq.write_table(table, part)
    return folder


def test_a_mixture_has_its_components_at_both_ends_and_in_each_frame(make_run):
    folder = with_mixtures(with_family(make_run(dim=2, seeds=(1,)), MIXED))
    made = animation(all_series([load_run(folder)]))
    first, second = made["ends"][0]["target"]["components"]
    assert (first["share"], second["share"]) == (0.25, 0.75)
    assert second["mean"] == [2.0, 3.0]
    np.testing.assert_allclose(second["covariance"], [0.16, 0, 0, 0.09])
    frames = made["lanes"][0]["frames"]
    assert frames[0]["components"] == made["ends"][0]["initial"]["components"]
    assert [one["mean"] for one in frames[-1]["components"]] == [[-1, 4], [1, 3]]
    assert frames[-1]["components"][0]["covariance"] == [1.0, 0.2, 0.2, 0.5]


def test_rows_with_a_gaussian_are_components_without_extent_along_the_table(make_run):
    folder = with_family(make_run(dim=2, seeds=(1,)), ROWS)
    run = load_run(folder)
    made = animation(all_series([run]))
    first, second = made["ends"][0]["initial"]["components"]
    assert (first["mean"], first["covariance"]) == ([-1, 4], [0, 0, 0, 0.25])
    assert second["share"] == 0.75
    frame = made["lanes"][0]["frames"][-1]
    drawn_then = np.reshape(frame["samples"], (-1, 2))
    nearer = np.mean(np.abs(drawn_then[:, 0] - 2.0) < np.abs(drawn_then[:, 0] + 1.0))
    assert frame["components"][-1]["share"] == pytest.approx(nearer, abs=1e-3)
    assert frame["components"][-1]["mean"] == [2.0, frame["mean"][1]]
    assert frame["components"][-1]["covariance"] == [0, 0, 0, frame["covariance"][3]]


def test_a_family_on_a_box_is_drawn_within_it(make_run):
    folder = with_family(make_run(dim=2, seeds=(1,)), BOXED)
    target = animation(all_series([load_run(folder)]))["ends"][0]["target"]
    assert target["box"] == [(-4.0, 0.5), (4.0, 8.0)]
    assert not target["normal"]
    assert "components" not in target


def test_a_curriculum_that_starts_at_the_target_is_drawn_there_first(make_run):
    folder = make_run(dim=2, seeds=(1,))
    raw = json.loads((folder / "config.json").read_text())
    raw["config"]["teacher"]["start"] = "target"
    (folder / "config.json").write_text(json.dumps(raw))
    run = load_run(folder)
    first = animation(all_series([run]))["lanes"][0]["frames"][0]
    assert first["mean"] == list(run.config.target.mean)


def test_a_map_has_the_means_of_each_cell(make_run):
    run = load_run(make_run(dim=2, seeds=(1, 2)))
    places = [(x, y) for x in (-4.0, 4.0) for y in (0.5, 8.0)]
    rows = [
        {
            "lane": lane,
            "context.gate position": x,
            "context.gate width": y,
            "success": lane == 0 and x < 0,
            "discounted_return": 10 * x + y,
        }
        for lane in range(2)
        for x, y in places
    ]
    series = all_series([run])
    (made,) = maps(series, {str(run.path): pa.Table.from_pylist(rows)})
    success, returned = made["panels"]
    assert success["means"] == [[0.5, 0.5], [0.0, 0.0]]
    assert returned["means"] == [[-39.5, -32.0], [40.5, 48.0]]
    assert made["ways"][0][0] == [0.0, 4.25]


def test_a_report_stands_in_the_run_folder_and_needs_nothing_else(make_run):
    folder = make_run(seeds=(1, 2))
    file = report(folder, film=False)
    assert file == folder / "report.html"
    text = file.read_text()
    assert set(re.findall(r"https?://[^\s\"']+", text)) == {
        "http://www.w3.org/2000/svg"
    }  # which is a name
    assert "<noscript>" in text
    assert content_in(file)["films"] == []


def test_films_are_named_by_what_tells_their_runs_apart(make_run, monkeypatch):
    swept = tuple({ZETA: zeta} for zeta in (0.8, 1.6))
    runs = [make_run(seeds=(1,), swept=swept), make_run(seeds=(1,), teacher="random")]
    monkeypatch.setattr("spjax.reports.rollouts.film_page", lambda path, _: path.name)
    films = _films(all_series([load_run(run) for run in runs]), accept_changes=False)
    assert films == [
        {"page": runs[0].name, "label": "self-paced (proportion), ζ = 0.8"},
        {"page": runs[1].name, "label": "random (proportion)"},
    ]


def test_a_run_that_has_just_begun_has_what_there_is(make_run):
    folder = make_run(seeds=(1, 2), finished=False)
    for part in (folder / "metrics").iterdir():
        part.unlink()
    content = content_in(report(folder, film=False))
    assert [panel["title"] for panel in content["panels"]] == [
        "discounted return on target tasks",
        "success rate on target tasks",
    ]
    assert "mean" not in content["contexts"]["lanes"][0]["frames"][0]


def test_several_runs_are_overlaid(make_run, tmp_path):
    folders = [make_run(seeds=(1,)), make_run(seeds=(1,), teacher="random")]
    file = report(folders, tmp_path / "both.html", film=False)
    content = content_in(file)
    assert [one["label"] for one in content["series"]] == [
        "self-paced (proportion)",
        "random (proportion)",
    ]
    panel = panel_of(content["panels"], "discounted return on target")
    assert [curve["series"] for curve in panel["curves"]] == [0, 1]


def test_no_text_of_a_run_ends_the_script_that_holds_it(make_run, tmp_path):
    folder = make_run(seeds=(1,))
    raw = json.loads((folder / "config.json").read_text())
    raw["command"] = "</script><b>"
    (folder / "config.json").write_text(json.dumps(raw))
    file = report(folder, tmp_path / "odd.html", film=False)
    assert "</script><b>" not in file.read_text()
    assert dict(content_in(file)["runs"][0]["facts"])["command"] == "</script><b>"


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_a_run_without_policies_or_of_an_older_format_says_why_there_is_no_rollout(
    version, tmp_path
):
    cell = next(c for c, raw in KEPT.items() if raw["format_version"] == version)
    folder = ROOT / "benchmarks" / "results" / "cells" / cell
    (film,) = content_in(report(folder, tmp_path / "old.html"))["films"]
    reason = "earlier version" if version == 1 else "has no checkpoint"
    assert reason in film["problem"]


def test_reports_need_no_jax(make_run):
    folder = make_run(seeds=(1, 2))
    script = (
        "import sys; sys.modules['jax'] = None\n"
        "from spjax.reports.write import report\n"
        f"print(report({str(folder)!r}, film=False))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout == f"{folder}/report.html\n", done.stderr


def test_where_a_report_cannot_go_is_one_sentence(make_run, tmp_path):
    one = make_run(seeds=(1,))
    with pytest.raises(ValueError, match=r"needs a place: --out FILE\.html"):
        destination([one, one], None)
    with pytest.raises(ValueError, match=r"a report is an \.html file, got a\.pdf"):
        destination([one], type(one)("a.pdf"))
    (tmp_path / "x.html").mkdir()
    with pytest.raises(ValueError, match=r"x\.html is a folder; name a file"):
        destination([one], tmp_path / "x.html")
    other = make_run(env="ball-catching", seeds=(1,))
    with pytest.raises(ValueError, match="runs of one task"):
        report([one, other], tmp_path / "both.html", film=False)


def test_numbers_have_few_digits_and_formulas_are_characters():
    assert number(123456.789) == 123460
    assert number(float("nan")) is None
    assert inside(np.array([[0.12345, 12.3456]]), [0, 0], [1, 100]) == [[0.123, 12.3]]
    assert spread_out(5, 3).tolist() == [0, 2, 4]
    assert spread_out(2, 9).tolist() == [0, 1]
    assert plain(r"$\zeta$ = 1, $K_\alpha$ = 2, $V_{LB}$") == "ζ = 1, K_α = 2, V_LB"
