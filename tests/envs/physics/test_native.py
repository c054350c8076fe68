"""The engine on CPU against C MuJoCo stepped by hand, and its promises as a pure function."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import mujoco
import mujoco.batch
import numpy as np
import pytest

from spjax.envs.physics import Physics, PhysicsState, Scene, make
from spjax.training.lanes import Calls
from tests.envs.physics import scenes

NET = (0.654, 0.214, 0.489)  # m, where the net is at zero angles
NAMES = ("world", "upper", "lower", "palm", "ball", "wall", "post")


@pytest.fixture(scope="module")
def physics() -> Physics:
    return make(scenes.SCENE, "native")


def throw(
    physics: Physics, velocity, fields=None, ball=(1.5, 0.0, 0.6)
) -> PhysicsState:
    return scenes.start(
        physics, jnp.asarray(ball), jnp.asarray(velocity, jnp.float32), fields=fields
    )


def stacked(states: list[PhysicsState]) -> PhysicsState:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def mixed(physics: Physics, count: int) -> PhysicsState:
    """Instances that hit the net, the floor, the wall, the post, or nothing."""
    throws = [
        throw(physics, (0.0, 0.0, -0.5), ball=(NET[0], NET[1], NET[2] + 0.15)),
        throw(physics, (0.0, 0.0, -3.0)),
        throw(physics, (2.0, 0.0, 1.0), scenes.place(wall=(2.0, 0.0, 0.5))),
        throw(
            physics, (2.0, 0.0, 1.0), scenes.place(radius=0.3, post=(11.0, 0.0, 0.0))
        ),
        throw(physics, (2.0, 0.0, 4.0)),
    ]
    return stacked([throws[i % len(throws)] for i in range(count)])


def slot(tree, index):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], tree)


def assert_identical(one, two) -> None:
    jax.tree.map(
        lambda a, b: np.testing.assert_array_equal(np.asarray(a), np.asarray(b)),
        one,
        two,
    )


def test_a_control_step_is_the_substeps_of_the_simulator_with_the_set_point_moving_in_each(
    physics,
):
    state = throw(physics, (0.1, 0.2, 0.3), ball=(1.5, 0.0, 1.6))
    action = np.asarray([1.0, -2.0])
    after = physics.step(
        physics.step(state, scenes.control(action)), scenes.control(action)
    )

    data = by_hand(physics, state)
    data.ctrl[:] = scenes.control(action)
    desired = 0.0
    for _ in range(2 * scenes.SCENE.substeps):
        desired += 0.002 * action[1]
        torque = (
            300 * (desired - data.qpos[1]) - 15 * data.qvel[1]
        )  # q_des moves, then tau = P (q_des - q) - D qd
        mujoco.mj_step(physics.compiled.model, data)
        assert data.qfrc_actuator[1] == pytest.approx(
            np.clip(torque, -60, 60), rel=1e-12
        )
    np.testing.assert_allclose(after.qpos, data.qpos, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(after.qvel, data.qvel, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(after.act, [0.02, -0.04], rtol=1e-6)


def test_torques_saturate_at_the_limits_of_the_joint(physics):
    state = throw(physics, (0.0, 0.0, 0.0), ball=(1.5, 0.0, 1.6)).replace(
        act=jnp.asarray([0.0, 1.0])
    )
    data = by_hand(physics, state)
    mujoco.mj_step(physics.compiled.model, data)
    assert data.qfrc_actuator[1] == 60.0  # not 300
    for _ in range(4):
        mujoco.mj_step(physics.compiled.model, data)
    np.testing.assert_allclose(
        physics.step(state, jnp.zeros(3)).qvel, data.qvel, rtol=1e-5, atol=1e-6
    )


def by_hand(physics: Physics, state: PhysicsState) -> mujoco.MjData:
    """A single simulation in this state."""
    data = mujoco.MjData(physics.compiled.model)
    data.qpos[:], data.qvel[:], data.act[:] = state.qpos, state.qvel, state.act
    data.mocap_pos[0] = state.fields[0][0]
    return data


@pytest.mark.parametrize(
    ("height", "contacts"),
    [(0.15, (True, False)), (0.2, (True, True)), (-0.3, (False, True))],
)
def test_the_first_contacts_tell_their_groups_and_freeze_the_state_of_their_substep(
    physics, height, contacts
):
    state = throw(physics, (0.0, 0.0, -0.5), ball=(NET[0], NET[1], NET[2] + height))
    states = scenes.follow(physics, state, jnp.zeros((40, 2)))
    model, data = physics.compiled.model, by_hand(physics, state)
    ball = {model.geom("ball").id}
    substeps = 0
    while not any(ball & set(contact.geom) for contact in data.contact[: data.ncon]):
        mujoco.mj_step(model, data)
        substeps += 1
    assert (
        substeps % scenes.SCENE.substeps != 0
    )  # or the test would not see a stop amid a control step
    index = -(-substeps // scenes.SCENE.substeps) - 1
    assert not states.contacts[:index].any()
    assert tuple(states.contacts[index].tolist()) == contacts
    np.testing.assert_allclose(states.qpos[index], data.qpos, atol=2e-6)
    np.testing.assert_allclose(states.qvel[index], data.qvel, atol=2e-5)
    assert_identical(slot(states, -1), slot(states, index))


@pytest.mark.slow
def test_a_batch_of_mixed_instances_computes_the_bits_of_single_runs_in_any_order(
    physics,
):
    states = mixed(physics, 23)
    actions = jnp.asarray([[0.01, -0.01]]).repeat(40, axis=0)
    run = jax.jit(lambda state: scenes.follow(physics, state, actions))
    batch = jax.jit(jax.vmap(run))(states)
    order = np.random.default_rng(1).permutation(23)
    shuffled = jax.jit(jax.vmap(run))(slot(states, order))
    assert_identical(shuffled, slot(batch, order))
    for index in range(5):
        assert_identical(run(slot(states, index)), slot(batch, index))
    ends = np.asarray(batch.contacts[:5, -1]).tolist()
    assert ends == [
        [True, False],
        [False, True],
        [False, True],
        [False, True],
        [False, False],
    ]


def test_sizes_and_places_of_an_instance_act_as_in_a_model_compiled_with_them(physics):
    radius, post, wall = 0.3, (11.0, 0.2, 0.1), (5.0, 0.0, 0.5)
    state = throw(physics, (2.0, 0.0, 1.0), scenes.place(wall, radius, post))
    states = scenes.follow(physics, state, jnp.ones((40, 2)))
    mjcf = scenes.MJCF.replace(
        '<geom name="post" type="sphere" size="0.1"/>',
        f'<geom name="post" type="sphere" size="{radius}" pos="11 0.2 0.1"/>',
    )
    model = mujoco.MjModel.from_xml_string(
        mjcf.replace('pos="9 0 0.5"', 'pos="5 0 0.5"')
    )
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = state.qpos, state.qvel
    data.ctrl[:] = 1.0
    ball, post_id = model.geom("ball").id, model.geom("post").id
    count = 0
    while not data.ncon:
        mujoco.mj_step(model, data)
        count += 1
    assert set(data.contact[0].geom) == {ball, post_id}
    index = -(-count // scenes.SCENE.substeps) - 1
    assert states.contacts[:, 1].tolist() == [False] * index + [True] * (40 - index)
    np.testing.assert_allclose(states.qpos[index], data.qpos, atol=1e-5)


def test_a_new_context_compiles_nothing_anew(physics):
    traces = []

    @jax.jit
    def run(state):
        traces.append(1)
        return physics.step(state, jnp.zeros(3))

    run(throw(physics, (0.0, 0.0, 0.0)))
    run(throw(physics, (0.0, 0.0, 1.0), scenes.place(wall=(1.0, 2.0, 3.0), radius=0.5)))
    assert len(traces) == 1


@pytest.mark.parametrize(
    "trouble",
    ["nan position", "nan control", "infinite velocity", "explosion", "nan field"],
)
def test_an_instance_in_trouble_fails_finite_and_leaves_the_others_bit_identical(
    physics, trouble, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    states = mixed(physics, 8)
    controls = jnp.zeros((8, 3))
    step = jax.jit(jax.vmap(physics.step))
    good = step(states, controls)
    if trouble == "nan position":
        states = states.replace(qpos=states.qpos.at[3, 0].set(jnp.nan))
    elif trouble == "nan control":
        controls = controls.at[3, 1].set(jnp.nan)
    elif trouble == "infinite velocity":
        states = states.replace(qvel=states.qvel.at[3, 1].set(jnp.inf))
    elif trouble == "explosion":
        states = states.replace(qvel=states.qvel.at[3, 1].set(9e9))
    else:
        states = states.replace(
            fields=(states.fields[0].at[3].set(jnp.nan), *states.fields[1:])
        )
    bad = step(states, controls)
    assert np.asarray(bad.failed).tolist() == [index == 3 for index in range(8)]
    others = np.asarray([0, 1, 2, 4, 5, 6, 7])
    assert_identical(slot(bad, others), slot(good, others))
    assert_identical(slot(bad, 3).replace(failed=np.asarray(False)), slot(states, 3))
    assert_identical(slot(step(bad, controls), 3), slot(bad, 3))
    assert not list(
        tmp_path.iterdir()
    )  # MuJoCo would write its warnings to a file here


def test_an_error_of_the_simulator_fails_its_instance_alone(physics, monkeypatch):
    states, controls = mixed(physics, 9), jnp.zeros((9, 3))
    good = jax.vmap(physics.step)(states, controls)
    rollout = mujoco.batch.Batch.rollout

    def stumble(batch, *arguments, **keywords):
        rollout(batch, *arguments, **keywords)
        raise mujoco.batch.SimulationError(np.asarray([4]), "out of memory")

    monkeypatch.setattr(mujoco.batch.Batch, "rollout", stumble)
    bad = jax.vmap(physics.step)(states, controls)
    assert np.asarray(bad.failed).tolist() == [index == 4 for index in range(9)]
    assert_identical(slot(bad, np.arange(4)), slot(good, np.arange(4)))
    assert_identical(slot(bad, 4).replace(failed=np.asarray(False)), slot(states, 4))


@pytest.mark.slow
def test_two_vmaps_are_one(physics):
    states = mixed(physics, 12)
    nested = jax.tree.map(lambda leaf: leaf.reshape(3, 4, *leaf.shape[1:]), states)
    once = jax.vmap(physics.step)(states, jnp.ones((12, 3)))
    twice = jax.jit(
        jax.vmap(jax.vmap(physics.step, in_axes=(0, None)), in_axes=(0, None))
    )(nested, jnp.ones(3))
    assert_identical(
        jax.tree.map(lambda leaf: leaf.reshape(12, *leaf.shape[2:]), twice), once
    )


@pytest.mark.slow
def test_two_lanes_at_the_same_time_compute_the_bits_of_one_batch(physics):
    states = mixed(physics, 40)
    lanes = jax.tree.map(lambda leaf: leaf.reshape(4, 10, *leaf.shape[1:]), states)
    actions = jnp.zeros((5, 2))

    def lane(states: PhysicsState) -> PhysicsState:
        return jax.vmap(lambda state: scenes.follow(physics, state, actions))(states)

    layout = Calls(4)
    lanes = layout.to_devices(lanes)
    mapped = layout.compile(lane, (lanes,))
    together = jax.jit(lane)(states)
    for _ in range(20):
        apart = layout.to_host(mapped(lanes))
    assert_identical(
        jax.tree.map(lambda leaf: leaf.reshape(40, *leaf.shape[2:]), apart), together
    )


@pytest.mark.slow
def test_many_rollouts_in_a_row_do_not_lock_up():
    command = [sys.executable, "-m", "benchmarks.callback_stress", "--rollouts", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("10 rollouts in") == 2


def test_shapes_are_checked(physics):
    with pytest.raises(
        ValueError, match=r"^qpos must have the shape \(9,\), got \(3,\)$"
    ):
        physics.reset(jnp.zeros(3))
    with pytest.raises(
        ValueError, match=r"^control must have the shape \(3,\), got \(2,\)$"
    ):
        physics.step(throw(physics, (0.0, 0.0, 0.0)), jnp.zeros(2))
    with pytest.raises(ValueError, match=r"^the scene has 3 fields, got values for 1$"):
        physics.reset(jnp.zeros(9), fields=(jnp.zeros((1, 3)),))
    with pytest.raises(
        ValueError, match=r"^geom_size must have the shape \(1, 3\), got \(2, 3\)$"
    ):
        physics.reset(
            jnp.zeros(9),
            fields=(jnp.zeros((1, 3)), jnp.zeros((2, 3)), jnp.zeros((1, 3))),
        )


def test_a_reset_without_further_values_is_the_model_as_written_at_rest(physics):
    state = physics.reset(jnp.zeros(9))
    np.testing.assert_array_equal(
        state.fields[0], np.asarray([[9.0, 0.0, 0.5]], np.float32)
    )
    np.testing.assert_array_equal(
        state.fields[1], np.asarray([[0.1, 0.0, 0.0]], np.float32)
    )
    assert not state.qvel.any()
    assert not state.act.any()
    assert not state.failed


def test_body_poses_are_those_of_mujoco_at_the_positions_of_the_state(physics):
    rng = np.random.default_rng(3)
    model = physics.compiled.model
    data = mujoco.MjData(model)
    all_poses = jax.jit(
        lambda state: {name: physics.body_pose(state, name) for name in NAMES}
    )
    for _ in range(10):
        data.qpos[:] = rng.normal(size=9)
        data.mocap_pos[0] = rng.normal(size=3)
        mujoco.mj_kinematics(model, data)
        with jax.enable_x64(True):
            fields = (jnp.asarray(data.mocap_pos), jnp.ones((1, 3)), jnp.ones((1, 3)))
            state = physics.reset(jnp.asarray(data.qpos), fields=fields)
            poses = all_poses(state)
        for name, (position, rotation) in poses.items():
            np.testing.assert_allclose(
                position, data.body(name).xpos, rtol=1e-12, atol=1e-14
            )
            np.testing.assert_allclose(
                rotation, data.body(name).xmat.reshape(3, 3), rtol=1e-12, atol=1e-14
            )
    with pytest.raises(
        ValueError, match=r"^the MJCF has no body 'hand'; it has world, upper, lower"
    ):
        physics.body_pose(state, "hand")


def test_a_scene_without_activations_falls_as_the_simulator_says():
    mjcf = """
    <mujoco>
      <option timestep="0.002"/>
      <worldbody><body><joint name="slide" type="slide" axis="0 0 1"/><geom size="0.1"/></body></worldbody>
      <actuator><motor joint="slide" gear="2"/></actuator>
    </mujoco>
    """
    physics = make(Scene(mjcf=mjcf, substeps=5, contacts=(), fields=()), "native")
    states = stacked([physics.reset(jnp.asarray([height])) for height in (0.0, 1.0)])
    after = jax.jit(jax.vmap(physics.step))(states, jnp.asarray([[0.0], [3.0]]))
    data = mujoco.MjData(physics.compiled.model)
    for index, (height, force) in enumerate(((0.0, 0.0), (1.0, 3.0))):
        mujoco.mj_resetData(physics.compiled.model, data)
        data.qpos[:], data.ctrl[:] = height, force
        for _ in range(5):
            mujoco.mj_step(physics.compiled.model, data)
        np.testing.assert_allclose(after.qpos[index], data.qpos, rtol=1e-6)
        np.testing.assert_allclose(after.qvel[index], data.qvel, rtol=1e-6)
    assert after.act.shape == (2, 0)
    assert not after.failed.any()
