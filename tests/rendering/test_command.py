import hashlib
import json
import re
import subprocess
import sys

import pytest
from rich.console import Console

import spjax
from spjax.cli import main
from spjax.cli.errors import Failure
from spjax.cli.filming import write
from spjax.cli.terminal import console
from spjax.rendering import offscreen
from tests.training.conftest import tiny

SMALL = ["--size", "320", "240", "--speed", "4"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two seeds and two values of a setting."""
    config = tiny(
        seeds=(3, 5), num_iterations=2, over={"agent.learning_rate": (1e-3, 1e-2)}
    )
    return spjax.train(
        config, tmp_path_factory.mktemp("render") / "run", progress=False
    )


def content(folder):
    return {
        str(p): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def film_in(path):
    return json.loads(
        re.search(r'type="application/json">(.*?)</script>', path.read_text()).group(1)
    )


@pytest.mark.slow
def test_render_writes_the_three_files_says_what_happened_and_changes_nothing_else(
    trained, capsys
):
    before = content(trained)
    context = ["--context", "2.5", "0.5"]
    assert main(["render", str(trained), *context, "--seed", "5", *SMALL]) == 0
    lines = capsys.readouterr().out.splitlines()
    name = f"{trained}/videos/seed-5-learning_rate-0.001-2.5-0.5"
    assert lines[1:] == [
        f"page: {name}.html",
        f"video: {name}.mp4",
        f"video: {name}.gif",
    ]
    told = r"episode 1: gate position 2.5 m, gate width 0.5 m: (failure|success) after (\d+\.\d0) s, discounted return (.+)"
    end, seconds, total = re.fullmatch(told, lines[0]).groups()
    film = film_in(trained / "videos" / f"{name}.html")
    (episode,) = film["episodes"]
    assert film["title"] == "point-mass-2d, learning_rate 0.001, seed 5, iteration 2"
    assert (episode["end"], len(episode["returns"]) - 1) == (
        end,
        round(10 * float(seconds)),
    )
    assert episode["returns"][-1] == pytest.approx(float(total), abs=0.006)
    new = content(trained)
    assert {
        path: new.pop(path) for path in list(new) if "/videos/" not in path
    } == before
    assert len(new) == 3


@pytest.mark.slow
def test_the_same_command_films_the_same_episodes_and_another_draw_or_lane_others(
    trained, tmp_path
):
    seen = []
    for number, change in enumerate(
        (
            [],
            [],
            ["--draw", "1"],
            ["--seed", "5"],
            ["--lane", "agent.learning_rate=0.01"],
        )
    ):
        out = tmp_path / str(number)
        assert (
            main(
                [
                    "render",
                    str(trained),
                    "--format",
                    "html",
                    "--episodes",
                    "3",
                    "--out",
                    str(out),
                    *change,
                ]
            )
            == 0
        )
        (page,) = out.iterdir()
        seen.append(film_in(page)["episodes"])
    assert [len(episodes) for episodes in seen] == [3] * 5
    assert seen[0] == seen[1]
    assert all(episodes != seen[0] for episodes in seen[2:])
    assert {episode["task"] for episode in seen[0]} != {
        episode["task"] for episode in seen[2]
    }


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--seed", "4"], "--seed 4 is not in the run; its seeds are 3, 5"),
        (
            ["--lane", "agent.learning_rate=0.02"],
            "unknown --lane 'agent.learning_rate=0.02'; did you mean agent.learning_rate=0.01?",
        ),
        (
            ["--lane", "x=1"],
            "unknown --lane 'x=1'; the run has agent.learning_rate=0.001, agent.learning_rate=0.01",
        ),
        (
            ["--lane", "agent.learning_rate=0.001", "agent.learning_rate=0.01"],
            "no lane of the run has the settings agent.learning_rate=0.001 agent.learning_rate=0.01 together",
        ),
        (["--format", "htm"], "unknown format 'htm'; did you mean html?"),
        (["--format", "avi"], "unknown format 'avi'; known: mp4, gif, html"),
        (["--episodes", "0"], "--episodes must lie in [1, 100], got 0"),
        (["--draw", "-1"], "--draw must lie in [0, 2^32), got -1"),
        (["--speed", "0"], "--speed must lie in [0.01, 100], got 0"),
        (["--size", "640"], "--size needs two even numbers in [160, 4096], got 640"),
        (
            ["--size", "641", "480"],
            "--size needs two even numbers in [160, 4096], got 641 480",
        ),
        (
            ["--camera", "90"],
            "--camera is for tasks in space; point-mass-2d is drawn in the plane",
        ),
        (
            ["--context", "9", "1"],
            "--context: gate position = 9 lies outside its bounds [-4, 4] m",
        ),
    ],
)
def test_what_the_user_gets_wrong_is_one_sentence(trained, capsys, flags, sentence):
    before = content(trained)
    assert main(["render", str(trained), *flags]) == 2
    assert capsys.readouterr() == ("", f"spjax: {sentence}\n")
    assert content(trained) == before


def test_a_run_that_does_not_exist_is_one_sentence(capsys):
    assert main(["render", "nowhere"]) == 2
    assert capsys.readouterr().err == "spjax: there is no run folder nowhere\n"


@pytest.mark.slow
def test_without_opengl_the_page_is_written_all_the_same(
    space_film, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(offscreen, "BACKENDS", ("bogus",))
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    with pytest.raises(
        Failure,
        match=r"^no frame can be drawn: OpenGL is missing\. .* html needs none$",
    ):
        write(Console(), space_film, tmp_path / "film", size=(320, 240))
    assert [path.name for path in tmp_path.iterdir()] == ["film.html"]
    assert capsys.readouterr().out == f"page: {tmp_path}/film.html\n"


@pytest.mark.slow
def test_without_an_encoder_the_gif_is_written_all_the_same(
    plane_film, tmp_path, monkeypatch
):
    monkeypatch.setattr("spjax.rendering.video.can_write_mp4", lambda: False)
    with pytest.raises(
        Failure,
        match=r"^mp4 needs imageio-ffmpeg: pip install 'spjax\[render\]'; gif and html do not$",
    ):
        write(Console(), plane_film, tmp_path / "film", ["gif", "mp4"], (320, 240))
    assert [path.name for path in tmp_path.iterdir()] == ["film.gif"]


def test_without_an_encoder_all_formats_are_those_that_can_be_written(
    plane_film, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("spjax.rendering.video.can_write_mp4", lambda: False)
    monkeypatch.setattr("spjax.rendering.video.write_videos", lambda paths, *_: paths)
    write(console(), plane_film, tmp_path / "film")
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("mp4 needs imageio-ffmpeg: pip install 'spjax[render]'")
    assert [line.partition(":")[0] for line in (said[0], said[2])] == ["page", "video"]
    assert said[2].endswith("film.gif")


def run_python(script, **environment):
    import os

    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_nothing_that_trains_imports_what_renders():
    script = (
        "import sys, spjax, spjax.cli.training, spjax.cli.evaluation, spjax.training.train, spjax.envs\n"
        "heavy = ('spjax.rendering', 'imageio_ffmpeg', 'OpenGL', 'matplotlib.animation')\n"
        "sys.exit(' '.join(name for name in heavy if name in sys.modules) or 0)"
    )
    done = run_python(script, MUJOCO_GL="")
    assert done.returncode == 0, done.stderr


def test_an_opengl_that_does_not_exist_stops_no_other_command():
    script = "from spjax.cli import main; import os; code = main(['evaluate', 'nowhere']); print(code, os.environ['MUJOCO_GL'])"
    done = run_python(script, MUJOCO_GL="bogus")
    assert done.stdout == "2 bogus\n", done.stderr
    assert done.stderr == "spjax: there is no run folder nowhere\n"
