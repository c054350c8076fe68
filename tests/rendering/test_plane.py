import numpy as np
import pytest
from matplotlib.colors import to_rgb

from spjax.analysis.style import BAD, GOOD
from spjax.rendering import plane

SIZE = (320, 240)


@pytest.fixture(scope="module")
def drawn(plane_film):
    return list(plane.frames(plane_film, SIZE))


def count_pixels(frame, color):
    return int((np.abs(frame - 255 * np.array(to_rgb(color))).max(axis=-1) < 3).sum())


def test_there_is_a_frame_for_every_moment_and_the_path_grows(plane_film, drawn):
    lengths = [len(plane_film.moments(episode)) for episode in plane_film.episodes]
    assert len(drawn) == sum(lengths)
    assert {frame.shape for frame in drawn} == {(240, 320, 3)}
    changed = [
        int((frame != drawn[0]).any(axis=-1).sum()) for frame in drawn[: lengths[0]]
    ]
    assert changed[0] == 0
    assert changed[5] < changed[lengths[0] // 3]


def test_the_end_has_the_color_of_failure_and_nothing_before_it(plane_film, drawn):
    first = len(plane_film.moments(plane_film.episodes[0]))
    assert count_pixels(drawn[first - 1], BAD) > 30
    assert (
        count_pixels(drawn[first - 23], BAD) == 0
    )  # one before the end, which is held for 21 frames
    assert not any(count_pixels(frame, GOOD) for frame in drawn[:first])


def test_the_path_is_straight_between_control_steps():
    path = np.array([[0.0, 0.0], [2.0, 4.0], [2.0, 6.0]])
    np.testing.assert_allclose(plane.position(path, 0.5), [1, 2])
    np.testing.assert_allclose(plane.position(path, 1.25), [2, 4.5])
    np.testing.assert_allclose(plane.position(path, 2.0), [2, 6])


def test_the_box_holds_walls_goal_and_paths(plane_film):
    left, right, bottom, top = plane.box(plane_film)
    assert left < -4.0
    assert right > 4.0
    assert bottom < -3.0
    assert top > 3.0
