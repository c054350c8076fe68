"""The WAM arm and the ball-catching scene against the published acceptance numbers, in plain C MuJoCo."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from mujoco import mjx
from mujoco.batch import Batch

from spjax.envs import ball_catching_scene as scene
from spjax.envs import wam

LOWER, UPPER = (np.pi / 8, 0.6, 0.75), (np.pi / 2, 1.1, 4.0)
INITIAL = ((0.68, 0.9, 0.85), np.sqrt((1e-3, 1e-3, 0.1)))
TARGET = ((0.3375 * np.pi, 0.85, 2.375), np.sqrt((0.2 * np.pi, 0.15, 1.0)))
LIMITS = np.array([150, 125, 40, 60, 5, 5, 2])
MOVED = [1, 3, 4, 5, 6]

# The cup's inertia, with string and ball as a weight that swings below it.
CUP = """
<body name="cup" quat="-0.000204 0 0 1">
  <inertial pos="0 8.28e-5 0.0947" mass="0.132" diaginertia="2.856e-4 2.705e-4 9.657e-5" quat="0.999945 -0.0104888 0 0"/>
  <body pos="0 -0.045 0.1165">
    <joint type="ball" damping="1e-3"/><inertial pos="0 0 0" mass="0.02325" diaginertia="1e-5 1e-5 1e-5"/>
  </body>
</body>"""


# How many contacts the ball has with the net and with anything.
SENSORS = """
<sensor>
  <contact name="ball_net" geom1="ball" geom2="net" data="found"/>
  <contact name="ball_any" geom1="ball" data="found"/>
</sensor>"""


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(
        scene.mjcf().replace("</mujoco>", f"{SENSORS}</mujoco>")
    )


def at_home(model, ball=(3.0, -0.7, 500.0)):
    """The arm in its home posture, the ball somewhere else."""
    data = mujoco.MjData(model)
    data.qpos[:] = (*scene.HOME, *ball)
    data.act[:] = np.array(scene.HOME)[MOVED]
    mujoco.mj_forward(model, data)
    return data


def throws(model, distribution, count, noise, seed):
    """Returns what each of so many throws ended with, and the discounted returns without the bonus of a catch."""
    random = np.random.default_rng(seed)
    contexts = np.clip(random.normal(*distribution, (count, 3)), LOWER, UPPER).astype(
        np.float32
    )
    starts = jax.vmap(scene.reset)(
        jax.random.split(jax.random.key(seed), count), jnp.asarray(contexts)
    )
    batch = Batch(model, count)
    for field, values in zip(("qpos", "qvel", "act"), starts, strict=True):
        batch.bind(field)[:] = values
    caught, returns, live = np.zeros(count, bool), np.zeros(count), np.arange(count)
    for time_step in range(200):
        action = np.clip(
            noise * random.normal(size=(live.size, 5)),
            -np.array(scene.ACTION_LIMIT),
            scene.ACTION_LIMIT,
        )
        batch.bind("ctrl")[live] = np.concatenate(
            [action, action, np.zeros((live.size, 2))], axis=1
        )
        contacts = batch.rollout(5, record=("sensordata",), ids=live)["sensordata"]
        net, anything = contacts[..., 0] > 0, contacts[..., 1] > 0
        first = (np.arange(live.size), anything.argmax(axis=1))
        caught[live] = net[first] & (contacts[..., 0] == contacts[..., 1])[first]
        returns[live] += 0.995**time_step * (0.275 - 0.005 * (action**2).sum(axis=1))
        live = live[~anything.any(axis=1)]
    assert live.size == 0  # every ball lands within the horizon of 2 s
    return caught, returns


def test_the_net_is_where_it_was_published_in_the_home_posture(model):
    net = at_home(model).body("net")
    np.testing.assert_allclose(net.xpos, (0, -0.696, 1.330), atol=5e-4)
    axes = ((0, 0.323, -0.946), (0, -0.946, -0.323), (-1, 0, 0))
    np.testing.assert_allclose(net.xmat.reshape(3, 3).T, axes, atol=5e-4)


def test_the_held_arm_sags_under_gravity_as_published(model):
    data = at_home(model)
    mujoco.mj_step(model, data, 1000)
    sag = data.qpos[:7] - scene.HOME
    np.testing.assert_allclose(sag, (0, 0.051, 0, 0.048, 0.003, 0.014, 0), atol=6e-4)
    np.testing.assert_allclose(data.body("net").xpos, (0, -0.707, 1.272), atol=6e-4)


def test_the_undamped_arm_with_a_cup_stands_and_sags_as_published():
    model = mujoco.MjModel.from_xml_string(f"""
<mujoco><compiler angle="radian"/><option timestep="0.0005"/><worldbody>{wam.arm(CUP)}</worldbody></mujoco>""")
    data = mujoco.MjData(model)
    posture = np.array((0, 0.58760536, 0, 1.36004913, 0, -0.32072943, -1.57))
    stiffness, drag = (
        np.array((200, 300, 100, 100, 10, 10, 2.5)),
        np.array((7, 15, 5, 2.5, 0.3, 0.3, 0.05)),
    )
    data.qpos[:7] = posture
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(
        data.body("wrist_palm").xpos, (0, -0.698, 1.305), atol=5e-4
    )
    np.testing.assert_allclose(
        data.body("cup").xmat.reshape(3, 3)[:, 1], (0, -0.056, 0.998), atol=2e-3
    )
    for _ in range(1000):
        data.qfrc_applied[:7] = (
            stiffness * (posture - data.qpos[:7]) - drag * data.qvel[:7]
        )
        mujoco.mj_step(model, data, 4)
    np.testing.assert_allclose(
        data.qpos[:7] - posture, (0, 0.064, 0, 0.049, 0.006, 0.037, 0), atol=6e-4
    )


def test_the_actuators_are_the_published_controller_to_rounding(model):
    passive = mujoco.MjModel.from_xml_string(scene.mjcf())
    passive.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
    data, reference = at_home(model), at_home(passive)
    stiffness, drag = (
        np.array((200, 300, 100, 100, 20, 20, 5)),
        np.array((7, 15, 5, 2.5, 0.423, 0.423, 0.0705)),
    )
    desired, random, saturated = (
        np.array(scene.HOME),
        np.random.default_rng(0),
        np.zeros(7, int),
    )
    action = np.zeros(5)
    for time_step in range(120):
        if time_step % 20 == 0:
            action = random.uniform(-1, 1, 5) * scene.ACTION_LIMIT
        data.ctrl[:] = scene.controls(jnp.asarray(action))
        mujoco.mj_step(model, data, scene.SUBSTEPS)
        for _ in range(5):
            desired[MOVED] += 0.002 * data.ctrl[:5]
            torque = (
                stiffness * (desired - reference.qpos[:7]) - drag * reference.qvel[:7]
            )
            reference.qfrc_applied[:7] = np.clip(torque, -LIMITS, LIMITS)
            saturated += np.abs(torque) > LIMITS
            mujoco.mj_step(passive, reference)
        np.testing.assert_allclose(data.act, desired[MOVED], atol=1e-12)
        np.testing.assert_allclose(data.qpos[:7], reference.qpos[:7], atol=1e-12)
    assert saturated[[4, 6]].min() >= 20  # the limits matter
    assert np.ptp(data.qpos[:7]) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "published"), [(0.0, 0.82), (1.0, 0.65)])
def test_an_idle_arm_catches_the_published_share_of_the_initial_throws(
    model, noise, published
):
    caught, _ = throws(model, INITIAL, 400, noise, seed=3)
    assert abs(caught.mean() - published) < 3.5 * np.sqrt(
        published * (1 - published) / 400
    )


@pytest.mark.slow
def test_an_idle_arm_catches_one_target_throw_in_a_hundred_and_earns_20_otherwise(
    model,
):
    caught, returns = throws(model, TARGET, 400, 0.0, seed=3)
    assert 1 <= caught.sum() <= 12
    np.testing.assert_allclose(returns[~caught].mean(), 20, atol=0.6)


def test_the_ball_touches_every_shape_and_the_sensors_tell_the_net_from_the_rest(model):
    for geom in range(model.ngeom):
        name = model.geom(geom).name
        if name in ("ball", "mount"):  # the mount is there for the eye alone
            continue
        data = at_home(model)
        spot = data.geom_xpos[geom] if name != "ground" else np.array((2.0, 0.0, 0.01))
        data.qpos[7:] = spot
        mujoco.mj_forward(model, data)
        touched = {
            frozenset(model.geom(int(g)).name for g in pair)
            for pair in data.contact.geom
        }
        assert frozenset(("ball", name)) in touched
        count = len(data.contact.dist)
        assert (data.sensor("ball_net").data[0], data.sensor("ball_any").data[0]) == (
            float(name == "net"),
            count,
        )


def test_the_arm_never_collides_with_itself_but_the_net_may_hit_it(model):
    random, data, touched = np.random.default_rng(0), at_home(model), set()
    for _ in range(500):
        data.qpos[:7] = random.uniform(model.jnt_range[:7, 0], model.jnt_range[:7, 1])
        data.qpos[2] = 0
        mujoco.mj_fwdPosition(model, data)
        touched |= {
            frozenset(model.geom(int(g)).name for g in pair)
            for pair in data.contact.geom
        }
    assert frozenset(("net", "upper_arm_tube")) in touched
    assert all("net" in pair for pair in touched)


def test_the_shapes_fill_the_published_extents():
    published = {
        "shoulder_yaw": ((-0.14, -0.174, 0), (0.14, 0.174, 0.275)),
        "shoulder_pitch": ((-0.063, -0.109, -0.06), (0.063, 0.063, 0.06)),
        "upper_arm": ((-0.045, -0.045, -0.505), (0.085, 0.045, 0.085)),
        "forearm": ((-0.09, -0.279, -0.044), (0.053, 0.053, 0.044)),
        "wrist_yaw": ((-0.042, -0.042, 0.273), (0.042, 0.042, 0.324)),
        "wrist_pitch": ((-0.044, -0.06, -0.059), (0.044, 0.025, 0.044)),
        "wrist_palm": ((-0.0445, -0.0445, -0.012), (0.0445, 0.0445, 0.005)),
    }
    assert {link.name for link in wam.LINKS} == set(published)
    for link in wam.LINKS:
        boxes = [extent(solid) for solid in link.solids]
        lower, upper = (
            np.min([box[0] for box in boxes], axis=0),
            np.max([box[1] for box in boxes], axis=0),
        )
        np.testing.assert_allclose((lower, upper), published[link.name], atol=1e-3)


def extent(solid):
    """The box around a capsule or cylinder along an axis of its frame."""
    start, end = np.array(solid.start), np.array(solid.end)
    along = start != end
    reach = np.where(along & (solid.kind == "cylinder"), 0, solid.radius)
    return np.minimum(start, end) - reach, np.maximum(start, end) + reach


def test_mjx_accepts_the_scene(model):
    loaded = mjx.put_model(model)
    assert (loaded.nq, loaded.nu, loaded.na, loaded.nsensordata) == (10, 12, 5, 2)


def test_a_ball_flies_through_the_target_of_its_context(key):
    keys = jax.random.split(key, 50)
    random = np.random.default_rng(0)
    for each in keys:
        context = jnp.asarray(random.uniform(LOWER, UPPER), jnp.float32)
        start = scene.ball_start(each, context)
        assert start[0] == context[2]
        assert -0.75 <= start[1] <= -0.65
        assert 0.8 <= start[2] <= 1.8
        time = 0.5 + 0.05 * context[2]
        end = (
            start
            + time * scene.ball_velocity(context, start)
            - jnp.array((0, 0, 4.905)) * time**2
        )
        angle, radius = float(context[0]), float(context[1])
        np.testing.assert_allclose(
            end, (0, -radius * np.cos(angle), 0.75 + radius * np.sin(angle)), atol=2e-6
        )


def test_the_mean_initial_context_aims_at_the_net():
    np.testing.assert_allclose(
        scene.ball_target(jnp.asarray(INITIAL[0])), (0, -0.700, 1.316), atol=5e-4
    )


def test_a_reset_moves_only_the_controlled_joints_and_desires_where_they_are(key):
    context = jnp.asarray(INITIAL[0])
    positions, velocities, desired = jax.vmap(scene.reset, (0, None))(
        jax.random.split(key, 4000), context
    )
    offset, speed = (
        np.asarray(positions[:, :7] - jnp.asarray(scene.HOME)[None]),
        np.asarray(velocities[:, :7]),
    )
    np.testing.assert_array_equal(desired, positions[:, jnp.asarray(MOVED)])
    assert not offset[:, [0, 2]].any()
    assert not speed[:, [0, 2]].any()
    np.testing.assert_allclose(
        offset[:, MOVED].std(axis=0), 0.05 / np.sqrt(3), rtol=0.05
    )
    assert np.abs(offset).max() <= 0.05 + 1e-6
    np.testing.assert_allclose(speed[:, MOVED].std(axis=0), 0.05, rtol=0.05)
    assert (
        np.abs(np.corrcoef(offset[:, MOVED].T, speed[:, MOVED].T) - np.eye(10)).max()
        < 0.07
    )


def test_an_arm_needs_one_number_for_each_joint():
    with pytest.raises(
        ValueError, match="damping must have one entry for each of the 7 joints, got 3"
    ):
        wam.arm("", damping=(0.5, 0.5, 0.5))
    with pytest.raises(
        ValueError,
        match="torque_limits must have one entry for each of the 7 joints, got 1",
    ):
        wam.arm("", torque_limits=(150.0,))
