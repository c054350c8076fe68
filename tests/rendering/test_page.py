import json
import re

import mujoco
import numpy as np
import pytest

from spjax.rendering.page import space_content, write_page
from spjax.rendering.space import MARK, stage


def content_of(path):
    text = path.read_text()
    (data,) = re.findall(
        r'<script id="film" type="application/json">(.*?)</script>', text, re.DOTALL
    )
    return json.loads(data), text


@pytest.fixture
def shown(space_film):
    return stage(space_film, (960, 656))


def test_a_page_in_the_plane_has_the_paths_and_walls_and_needs_nothing_else(
    plane_film, tmp_path
):
    write_page(tmp_path / "film.html", plane_film, None)
    content, text = content_of(tmp_path / "film.html")
    assert [len(episode["path"]) for episode in content["episodes"]] == [
        e.length + 1 for e in plane_film.episodes
    ]
    for shown, episode in zip(content["episodes"], plane_film.episodes, strict=True):
        np.testing.assert_allclose(shown["path"], episode.path, atol=6e-5)
        np.testing.assert_allclose(shown["returns"], episode.returns, atol=6e-5)
    assert content["episodes"][0]["walls"] == [
        [[-4, 0], [-3.25, 0]],
        [[-2.75, 0], [4, 0]],
    ]
    assert content["goal"] == [0, -3]
    assert (content["episodes"][0]["success"], content["episodes"][0]["end"]) == (
        False,
        "failure",
    )
    assert (content["period"], content["speed"], content["title"]) == (
        0.1,
        1.0,
        "noise, seed 3",
    )
    assert not re.findall(r"https?://", text)


def test_a_page_in_space_has_the_poses_that_mujoco_computes_and_needs_nothing_else(
    space_film, shown, tmp_path
):
    write_page(tmp_path / "film.html", space_film, shown)
    content, text = content_of(tmp_path / "film.html")
    plain = mujoco.MjModel.from_xml_string(space_film.env.physics_scene().mjcf)
    data = mujoco.MjData(plain)
    names = [geom["name"] for geom in content["geoms"]]
    for episode, recorded in zip(content["episodes"], space_film.episodes, strict=True):
        data.qpos[:] = recorded.states.physics.qpos[-1]
        mujoco.mj_forward(plain, data)
        for geom in range(plain.ngeom):
            pose = episode["poses"][names.index(plain.geom(geom).name)][-1]
            np.testing.assert_allclose(pose[:3], data.geom_xpos[geom], atol=1e-4)
            matrix = np.empty(9)
            mujoco.mju_quat2Mat(matrix, np.array(pose[3:]))
            np.testing.assert_allclose(matrix, data.geom_xmat[geom], atol=4e-4)
    assert (
        len(content["episodes"][0]["poses"][names.index("ball")])
        == space_film.episodes[0].length + 1
    )
    assert (
        len(content["episodes"][0]["poses"][names.index("ground")]) == 1
    )  # stands still
    assert not re.findall(r"https?://", text)


def test_geoms_have_their_kinds_colors_and_the_sizes_that_their_kind_has(
    space_film, shown
):
    content = space_content(space_film, shown)
    geoms = {
        geom["name"]: (geom, size)
        for geom, size in zip(
            content["geoms"], content["episodes"][0]["sizes"], strict=True
        )
    }
    assert (geoms["ball"][0]["kind"], geoms["ball"][1]) == ("sphere", [0.02])
    assert (geoms["net"][0]["kind"], geoms["net"][1]) == ("cylinder", [0.06, 0.01])
    assert (geoms["ground"][0]["kind"], geoms["ground"][1]) == ("plane", [0.0, 0.0])
    assert geoms["wrist_tab"][0]["kind"] == "capsule"
    np.testing.assert_allclose(geoms["ball"][0]["color"], [0.8, 0.3, 0.2, 1], atol=1e-4)
    assert content["geoms"][content["trail"]]["name"] == "ball"
    assert 0 < geoms[MARK][0]["color"][3] < 1


@pytest.mark.slow
def test_the_camera_of_the_page_stands_where_that_of_the_video_does(space_film, shown):
    camera = space_content(space_film, shown)["camera"]
    view = np.subtract(camera["lookat"], camera["from"])
    assert np.linalg.norm(view) == pytest.approx(shown.camera.distance, abs=1e-3)
    assert np.degrees(np.arctan2(view[1], view[0])) == pytest.approx(
        shown.camera.azimuth, abs=0.01
    )
    assert np.degrees(np.arcsin(view[2] / np.linalg.norm(view))) == pytest.approx(
        shown.camera.elevation, abs=0.01
    )


def test_no_text_of_the_film_ends_the_script_that_holds_it(plane_film, tmp_path):
    object.__setattr__(
        odd := type(plane_film)(plane_film.env, plane_film.episodes, "</script><b>"),
        "speed",
        1.0,
    )
    write_page(tmp_path / "film.html", odd, None)
    content, text = content_of(tmp_path / "film.html")
    assert content["title"] == "</script><b>"
    assert "<title>&lt;/script&gt;&lt;b&gt;</title>" in text
