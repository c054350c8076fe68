import dataclasses

import numpy as np
import pytest

from spjax.rendering.film import Film, end_text, fitting_speed, task_text


def test_frames_are_a_twentyfifth_of_a_second_apart_and_the_end_stays_for_four_fifths(
    space_film,
):
    film = dataclasses.replace(space_film, speed=0.25)
    episode = film.episodes[0]
    moments = film.moments(episode)
    np.testing.assert_allclose(
        moments[: episode.length], np.arange(episode.length)
    )  # 0.25 of 0.04 s: a control step
    np.testing.assert_array_equal(moments[episode.length :], [episode.length] * 21)
    np.testing.assert_allclose(
        np.diff(dataclasses.replace(film, speed=0.1).moments(episode))[:10], 0.4
    )


def test_without_a_speed_short_episodes_are_slow_and_long_ones_in_real_time(
    plane_film, space_film
):
    assert Film(plane_film.env, plane_film.episodes[1:], "").speed == 1.0
    assert Film(space_film.env, space_film.episodes, "").speed == 0.25  # about a second
    assert fitting_speed(plane_film.env, plane_film.episodes) == 1.0
    assert space_film.tempo() == "0.25 × real time"
    assert plane_film.tempo() == "real time"
    assert dataclasses.replace(plane_film, speed=0.7).speed == 0.7


def test_captions_name_the_task_in_its_units_and_the_end_in_its_own_words(
    plane_film, space_film
):
    assert (
        task_text(space_film.env, space_film.episodes[0])
        == "angle 0.68 rad, radius 0.9 m, distance 0.85 m"
    )
    assert (
        task_text(plane_film.env, plane_film.episodes[0])
        == "gate position -3 m, gate width 0.5 m"
    )
    assert [end_text(space_film.env, episode) for episode in space_film.episodes] == [
        "caught",
        "missed",
    ]
    assert end_text(plane_film.env, plane_film.episodes[0]) == "failure"


def test_a_caught_ball_ends_at_the_net_and_a_missed_one_on_the_ground(space_film):
    caught, missed = space_film.episodes
    assert caught.path[0, 0] == pytest.approx(0.85)
    assert caught.path[-1, 0] == pytest.approx(0, abs=0.1)
    assert missed.path[0, 0] == pytest.approx(3.5)
    assert missed.path[-1, 1] < 0.1
