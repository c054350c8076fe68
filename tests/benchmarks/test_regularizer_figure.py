"""The picture that needs no training, and the command that makes it."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import __main__ as paper
from benchmarks.paper import figure_regularizer
from benchmarks.paper.pictures.regularizers import Curves, regularizer_figure

PICTURE = "pictures/figure-regularizer/regularizer.png"


def run(tmp_path: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        paper.main(
            [
                *arguments,
                "--runs",
                str(tmp_path / "runs"),
                "--results",
                str(tmp_path / "results"),
            ]
        )
    return int(end.value.code or 0)


@pytest.mark.parametrize("flags", [(), ("--report-only",)])
def test_the_command_draws_it_without_a_run(
    flags: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "figure-regularizer", *flags) == 0
    text = (tmp_path / "results" / "figure-regularizer.md").read_text()
    printed = capsys.readouterr().out
    assert printed == f"\nfigure-regularizer\n\n{text}\n"
    assert f"]({PICTURE})" in text
    assert (tmp_path / "results" / PICTURE).read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "results" / "figure-regularizer.json").exists()
    assert not (tmp_path / "runs").exists()


def test_beside_an_experiment_with_cells_it_is_drawn_and_the_cells_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "figure-regularizer", "figure-trade-off", "--report-only") == 0
    assert "2 to train; unknown time for " in capsys.readouterr().out
    assert (tmp_path / "results" / PICTURE).is_file()


def test_filters_are_about_cells_and_a_figure_without_any_has_no_use_for_them(
    tmp_path: Path,
) -> None:
    assert (
        run(tmp_path, "figure-regularizer", "--agents", "sac", "--only", "nothing") == 0
    )
    assert (tmp_path / "results" / PICTURE).is_file()


def test_curves_and_dots_have_the_values_of_the_formulas() -> None:
    losses = np.linspace(0.0, 6.0, 601)
    smooth = {
        alpha: Curves(alpha * (1 - np.exp(-losses / alpha)), np.exp(-losses / alpha))
        for alpha in (1.0, 2.0)
    }
    capped = {
        alpha: Curves(np.minimum(losses, alpha), (losses < alpha).astype(float))
        for alpha in (1.0, 2.0)
    }
    figure = regularizer_figure(losses, smooth, capped)
    left, right = figure.axes
    for axes, heights in (
        (left, {1.0: 1 - np.exp(-1), 2.0: 2 - 2 * np.exp(-1)}),
        (right, dict.fromkeys((1.0, 2.0), np.exp(-1))),
    ):
        dots = {
            line.get_xdata()[0]: line.get_ydata()[0]
            for line in axes.lines
            if line.get_marker() == "o"
        }
        assert dots == pytest.approx(heights, rel=1e-6)
        ends = {
            line.get_color(): line.get_ydata()[-1]
            for line in axes.lines
            if line.get_linestyle() == ":"
        }
        assert ends == {"#000000": 6.0 if axes is left else 1.0}
    solid = {
        line.get_ydata()[-1]
        for line in left.lines
        if line.get_linestyle() == "-" and len(line.get_ydata()) > 1
    }
    assert solid == {smooth[1.0].loss[-1], smooth[2.0].loss[-1]}
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[:3] == ["$\\alpha$ = 1", "$\\alpha$ = 2", "$\\alpha \\to \\infty$"]


def test_the_report_draws_the_library_s_regularizers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = {}

    def keep(
        losses: np.ndarray, kl: dict[float, Curves], binary: dict[float, Curves]
    ) -> object:
        drawn.update(losses=losses, kl=kl, binary=binary)
        return regularizer_figure(losses, kl, binary)

    monkeypatch.setattr(figure_regularizer, "regularizer_figure", keep)
    figure_regularizer.report({}, tmp_path)
    losses = drawn["losses"]
    assert list(drawn["kl"]) == list(drawn["binary"]) == [0.5, 1.0, 2.0, 4.0]
    np.testing.assert_allclose(
        drawn["kl"][2.0].loss, 2 * (1 - np.exp(-losses / 2)), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(drawn["kl"][2.0].weight, np.exp(-losses / 2), rtol=1e-5)
    np.testing.assert_allclose(drawn["binary"][4.0].loss, np.minimum(losses, 4))
