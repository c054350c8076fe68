"""A scene is checked when it is compiled; every fault has a sentence of its own."""

import dataclasses

import pytest

from spjax.envs.physics import Contact, Field, Scene, make
from spjax.envs.physics.scene import compile_scene
from tests.envs.physics.scenes import MJCF, SCENE


def test_contacts_become_pairs_and_anything_else_is_what_remains_and_can_touch():
    compiled = compile_scene(SCENE)
    names = [compiled.model.sensor(i).name for i in range(compiled.model.nsensor)]
    assert names[0] == "contact of ball and net"
    assert sorted(names[1:]) == [
        f"contact of ball and {name}"
        for name in ("floor", "lower", "post", "upper", "wall")
    ]
    assert compiled.groups.sum(axis=0).tolist() == [1, 5]


def test_geoms_with_a_joint_between_them_or_an_exclusion_are_not_among_anything_else():
    compiled = compile_scene(
        dataclasses.replace(SCENE, contacts=(Contact(("lower",)),))
    )
    names = {
        compiled.model.sensor(i).name.removeprefix("contact of lower and ")
        for i in range(compiled.model.nsensor)
    }
    assert names == {
        "floor",
        "ball",
        "post",
    }  # not upper (its parent), net (same body), wall (excluded), itself


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"mjcf": "<mujoco><worldbody><geom/></worldbody></mujoco>"},
            "^the MJCF does not compile: ",
        ),
        ({"substeps": 0}, "^a control step needs at least 1 substep, got 0$"),
        (
            {"contacts": (Contact(("bal",), ("net",)),)},
            r"^the MJCF has no geom 'bal'; it has floor, upper, lower, net, ball, wall, post$",
        ),
        (
            {"contacts": (Contact(("upper",), ("lower",)),)},
            "^the geoms 'upper' and 'lower' can never touch, yet contact 0 asks for it$",
        ),
        (
            {"contacts": (Contact(("ball",), ("net",)), Contact(("net",), ("ball",)))},
            "^the geoms 'net' and 'ball' are in more than one contact$",
        ),
        (
            {
                "contacts": (
                    Contact(("post",), ("ball",)),
                    Contact(("post",)),
                    Contact(("post",)),
                )
            },
            "^nothing can touch the geoms post",
        ),
        (
            {"fields": (Field("body_mass", ("ball",)),)},
            "^'body_mass' cannot differ between instances; mocap_pos, ",
        ),
        (
            {"fields": (Field("mocap_pos", ("ball",)),)},
            "^the body 'ball' is not a mocap body$",
        ),
        (
            {"fields": (Field("geom_size", ("floor",)),)},
            "^the plane 'floor' cannot differ between instances$",
        ),
        (
            {"fields": (Field("geom_size", ()),)},
            "^the field 'geom_size' names no objects$",
        ),
        (
            {
                "mjcf": MJCF.replace(
                    'dyntype="integrator"',
                    'name="s" dyntype="integrator" actearly="true"',
                    1,
                )
            },
            "^actuator 's' has actearly, which MJX ignores;",
        ),
    ],
)
def test_a_fault_of_a_scene_is_told_in_one_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        compile_scene(dataclasses.replace(SCENE, **change))
    assert "\n" not in str(caught.value)


def test_an_unknown_engine_is_named_together_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"^unknown physics engine 'bullet'; known: native, mjx, warp$"
    ):
        make(SCENE, "bullet")


def test_warp_says_what_it_needs_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ValueError,
        match=r"^the physics engine 'warp' needs warp-lang: pip install 'spjax\[warp\]'$",
    ):
        make(Scene(MJCF, substeps=1), "warp")


def test_mjx_says_which_part_of_a_scene_it_cannot_run():
    mjcf = MJCF.replace(
        "<exclude", '<exclude body1="lower" body2="post"/><exclude', 1
    ).replace(
        '<geom name="post" type="sphere" size="0.1"/>',
        '<geom name="post" type="cylinder" size="0.1 0.1"/>',
    )
    boxed = mjcf.replace(
        'type="sphere" size="0.02" mass="0.1"',
        'type="box" size="0.02 0.02 0.02" mass="0.1"',
    )
    with pytest.raises(ValueError, match=r"^MJX cannot run this scene: "):
        make(Scene(boxed, substeps=1), "mjx")


def test_the_platform_chooses_the_engine_and_the_same_scene_gets_the_same_object():
    physics = make(SCENE)
    assert type(physics).__name__ == "Native"
    assert physics is make(dataclasses.replace(SCENE), "native")
    assert physics.control_period == pytest.approx(0.01, rel=1e-12)


def test_mujoco_and_mjx_must_be_of_the_same_minor_version(monkeypatch):
    versions = {"mujoco": "3.19.1", "mujoco-mjx": "3.17.0"}
    monkeypatch.setattr("spjax.envs.physics.mjx.metadata.version", versions.get)
    with pytest.raises(
        ValueError,
        match=r"^mujoco is 3\.19\.1 and mujoco-mjx 3\.17\.0.*'mujoco-mjx==3\.19\.\*'$",
    ):
        make(Scene(MJCF, substeps=1), "mjx")
