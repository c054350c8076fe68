"""The command that writes reports."""

import json
import re

import pytest

from spjax.cli import main


@pytest.mark.slow
def test_a_report_of_a_run_has_a_rollout_and_on_a_grid_a_competence_map(
    trained, tmp_path, capsys
):
    file = tmp_path / "run.html"
    grid = ["--grid", "2", "--episodes", "1", "--out", str(file)]
    assert main(["report", str(trained), *grid]) == 0
    told = capsys.readouterr().out
    assert re.fullmatch(rf"report: {file} \(0\.\d MB\)\n", told)
    text = file.read_text()
    content = json.loads(re.search(r'/json">(.*?)</script>', text, re.DOTALL)[1])
    (film,) = content["films"]
    assert "point-mass-3d, seed 3, iteration 2" in film["page"]
    (competence,) = content["maps"]
    assert competence["episodes"] == 16  # 2 seeds in 8 contexts
    assert [panel["title"] for panel in competence["panels"]] == [
        "success rate",
        "discounted return",
    ] * 2
    changed = {row[0]: row[3] for row in content["runs"][0]["settings"] if row[3]}
    assert changed["num_iterations"] == "400"
    assert changed["agent.hidden"] == "(64, 64)"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--grid", "1"], "--grid must lie in [2, 50], got 1"),
        (["--episodes", "0"], "--episodes must be at least 1, got 0"),
        (
            ["--episodes", "5"],
            "--episodes is for the contexts of a --grid; give --grid too",
        ),
        (["--out", "a.pdf"], "a report is an .html file, got a.pdf"),
        (["--no-flim"], "unknown flag --no-flim; see spjax report --help"),
    ],
)
def test_what_the_user_gets_wrong_is_one_sentence(trained, capsys, flags, sentence):
    assert main(["report", str(trained), *flags]) == 2
    assert capsys.readouterr() == ("", f"spjax: {sentence}\n")
    assert not (trained / "report.html").exists()


def test_several_runs_need_a_place_and_every_run_has_to_be_there(trained, capsys):
    assert main(["report", str(trained), str(trained)]) == 2
    sentence = "a report of several runs needs a place: --out FILE.html"
    assert capsys.readouterr().err == f"spjax: {sentence}\n"
    assert main(["report", str(trained), "nowhere"]) == 2
    assert capsys.readouterr().err == "spjax: there is no run folder nowhere\n"
