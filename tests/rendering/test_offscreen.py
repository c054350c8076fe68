"""Drawing goes on in a process of its own; here it is a stand-in that needs no OpenGL, or one that has none."""

import mujoco
import numpy as np
import pytest

from spjax.rendering import offscreen
from spjax.rendering.space import Motion, stage

SIZE = (160, 120)


@pytest.fixture(scope="module")
def shown(space_film):
    return stage(space_film, SIZE)


def painter(tmp_path, monkeypatch, body):
    """Makes a script the painter; it has the arrays of the frames and the output."""
    script = tmp_path / "painter.py"
    script.write_text(
        "import os, sys, numpy as np\n"
        "frames, output = np.load(sys.argv[1] + '/frames.npz'), sys.stdout.buffer\n"
        "width, height = frames['size']\n" + body
    )
    monkeypatch.setattr(offscreen, "_PAINTER", script)
    monkeypatch.delenv("MUJOCO_GL", raising=False)


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (
            None,
            "no frame can be drawn: OpenGL is missing. On Debian and Ubuntu install libegl1 and libgl1-mesa-dri, or libosmesa6. "
            "html needs none",
        ),
        (
            "bogus",
            "no frame can be drawn with MUJOCO_GL=bogus; unset it to have one chosen that works. html needs none",
        ),
    ],
)
def test_without_opengl_one_sentence_says_what_to_do(
    space_film, shown, monkeypatch, chosen, sentence
):
    monkeypatch.setattr(offscreen, "BACKENDS", ("bogus",))
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    if chosen:
        monkeypatch.setenv("MUJOCO_GL", chosen)
        monkeypatch.setattr(offscreen, "BACKENDS", ())
    with pytest.raises(offscreen.NoGraphics) as caught:
        next(offscreen.frames(space_film, shown, SIZE))
    assert str(caught.value) == sentence


def test_the_first_backend_that_works_draws_every_frame_in_order(
    space_film, shown, tmp_path, monkeypatch
):
    painter(
        tmp_path,
        monkeypatch,
        "assert os.environ['MUJOCO_GL'] == 'osmesa'\n"
        "for index in range(len(frames['positions'])):\n"
        "    output.write(np.full((height, width, 3), index, np.uint8).tobytes())\n",
    )
    monkeypatch.setattr(offscreen, "BACKENDS", ("egl", "osmesa"))
    drawn = list(offscreen.frames(space_film, shown, SIZE))
    assert len(drawn) == sum(
        len(space_film.moments(episode)) for episode in space_film.episodes
    )
    assert [int(frame[0, 0, 0]) for frame in drawn] == list(range(len(drawn)))
    assert all(
        frame.shape == (120, 160, 3) and (frame == frame[0, 0]).all() for frame in drawn
    )


def test_the_painter_gets_the_poses_of_every_frame_and_the_camera(
    space_film, shown, tmp_path, monkeypatch
):
    copy = tmp_path / "copy.npz"
    painter(
        tmp_path,
        monkeypatch,
        f"np.savez({str(copy)!r}, **frames)\noutput.write(bytes(3 * width * height))\n",
    )
    next(offscreen.frames(space_film, shown, SIZE))
    seen, ball = np.load(copy), shown.model.geom("ball").id
    first = len(space_film.moments(space_film.episodes[0]))
    np.testing.assert_array_equal(
        seen["episode"], np.repeat([0, 1], [first, len(seen["episode"]) - first])
    )
    np.testing.assert_allclose(
        seen["positions"][first - 1, ball], shown.motions[0].positions[-1, ball]
    )
    np.testing.assert_allclose(
        seen["positions"][first, ball], shown.motions[1].positions[0, ball]
    )
    np.testing.assert_allclose(
        seen["camera"],
        [*shown.camera.lookat, shown.camera.distance, *seen["camera"][4:]],
    )
    assert seen["trail"].tolist() == [ball]
    assert seen["size"].tolist() == list(SIZE)


def test_a_painter_that_stops_is_one_sentence(space_film, shown, tmp_path, monkeypatch):
    painter(tmp_path, monkeypatch, "output.write(bytes(3 * width * height * 2 + 5))\n")
    drawn = offscreen.frames(space_film, shown, SIZE)
    assert [next(drawn).shape, next(drawn).shape] == [(120, 160, 3)] * 2
    with pytest.raises(
        offscreen.NoGraphics, match=r"^MuJoCo stopped drawing after 2 of \d+ frames$"
    ):
        next(drawn)


def test_the_matrices_of_the_painter_are_those_of_the_quaternions():
    turns = np.random.default_rng(0).normal(size=(5, 1, 4))
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    found = offscreen._matrices(Motion(np.zeros((5, 1, 3)), turns, np.ones((1, 3))))
    for turn, matrix in zip(turns[:, 0], found[:, 0], strict=True):
        expected = np.empty(9)
        mujoco.mju_quat2Mat(expected, turn)
        np.testing.assert_allclose(matrix, expected, atol=1e-12)
