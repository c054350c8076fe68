"""The reacher against plain C MuJoCo, the published rules of its ends and rewards, and the published acceptance numbers."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from spjax import settings
from spjax.envs import reacher_scene as scene
from spjax.envs.reacher import Reacher, ReacherStep

TASK, STEP_TASK = Reacher(engine="native"), ReacherStep(engine="native")
GOAL = np.asarray(scene.GOAL)
NUM_INITIAL = 200  # rollouts
SHORT, LONG = (0.01, 0.01), (0.08, 0.08)
# m, a way past short obstacles, and the phases at which it is there
WAY = np.array([(1.3, 1.115), (1.3, 0.72), (1.41, 0.55), (1.38, 0.42), (1.3, 0.35)])
PHASES = (0.0, 0.4, 0.7, 0.85, 1.0)


def jit(function):
    return jax.jit(function, compiler_options=TASK.compiler_options)


def bases():
    """Returns the basis functions of the movement primitive at all control steps, in NumPy."""
    centres = np.linspace(-0.2, 1.2, 20)
    bumps = np.exp(-((np.linspace(0, 1, 150)[:, None] - centres) ** 2) / (2 * 0.03))
    return bumps / bumps.sum(axis=1, keepdims=True)


def promp(theta):
    """Returns the actions of a rollout."""
    return bases() @ np.reshape(theta, (20, 2))


def past_short_obstacles():
    """Returns parameters that follow `WAY`, by what an action of 1 moves in a control step."""
    times = np.linspace(0, 1, 151)
    way = np.stack([np.interp(times, PHASES, column) for column in WAY.T], axis=1)
    actions = np.diff(way, axis=0) / 0.034
    return np.linalg.lstsq(bases(), actions, rcond=1e-2)[0].reshape(-1)


class Arm:
    """The published control loop, step by step in C MuJoCo, of a model compiled with the obstacles of one context."""

    def __init__(self, context=(0.05, 0.05)):
        spec = mujoco.MjSpec.from_string(scene.mjcf())
        (c0, c1), tilts = context, ((0.5, 1), (0.2, -1))
        ends = ((1.14, 0.92), (1.47, 0.65))
        for name, half, (turn, sign), (x, y) in zip(
            ("obstacle_a", "obstacle_b"), (c0, c1), tilts, ends, strict=True
        ):
            geom = spec.geom(name)
            geom.pos = [
                x + sign * half * math.cos(turn),
                y - sign * half * math.sin(turn),
                0.45,
            ]
            geom.size = [half, 0.025, 0.05]
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.gripper = self.data.body("gripper_link")
        self.obstacles = [self.model.geom(f"obstacle_{one}").id for one in "abcd"]
        self.data.qpos[:] = scene.start()
        mujoco.mj_forward(self.model, self.data)

    @property
    def grip(self):
        return self.gripper.xpos + 0.02 * self.gripper.xmat[::3]

    @property
    def touches(self):
        return np.isin(self.data.contact.geom, self.obstacles).any()

    def step(self, action):
        """Moves the gripper for a control step, and returns whether an obstacle is touched in the last substep."""
        data, (x, y) = self.data, np.clip(action, -1, 1)
        lift = np.clip(2 * (0.5 - self.grip[2]), -1, 1)
        data.mocap_pos[0] = self.gripper.xpos + 0.05 * np.array([x, y, lift])
        data.mocap_quat[0] = self.gripper.xquat + np.array([1, 0, 1, 0])
        mujoco.mj_step(self.model, data, nstep=5)
        touches = self.touches
        data.qpos[-2:] = 0
        mujoco.mj_forward(self.model, data)
        return touches

    def rollout(self, theta):
        """Returns control steps until the end, whether an obstacle was touched, and the place of the grip."""
        for number, action in enumerate(promp(theta), 1):
            if self.step(action):
                return number, True, self.grip
            if np.linalg.norm(self.grip - GOAL) < 0.05:
                return number, False, self.grip
        return 150, False, self.grip


@pytest.fixture(scope="module")
def initial():
    """Parameters, contexts and states [rollout, time] of rollouts of the initial policy in initial contexts."""
    key_thetas, key_contexts = jax.random.split(jax.random.key(3))
    thetas = 2 * jax.random.normal(key_thetas, (NUM_INITIAL, 40))
    contexts = TASK.initial.sample_many(key_contexts, TASK.context_space, NUM_INITIAL)
    return np.asarray(thetas), np.asarray(contexts), states_of(thetas, contexts)


def states_of(thetas, contexts):
    def states(theta, context):
        return TASK.states(jax.random.key(0), theta, context)

    return jax.device_get(jit(jax.vmap(states))(thetas, contexts))


@pytest.fixture(scope="module")
def step():
    return jit(STEP_TASK.step)


def ends(states):
    """Returns control steps until the end of each rollout."""
    return (states.terminated | states.truncated).argmax(axis=-1)


def grips(states):
    """Returns the places of the grip [rollout, time, 3]."""
    place = jit(jax.vmap(jax.vmap(lambda state: scene.grip(TASK.pose(state)))))
    return np.asarray(place(states.physics))


def test_the_arm_settles_where_the_published_one_does():
    model = mujoco.MjModel.from_xml_string(scene.mjcf())
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    gripper = data.body("gripper_link")
    data.mocap_pos[0] = (1.30, 1.15, 0.50)
    data.mocap_quat[0] = (1, 0, 1, 0)
    mujoco.mj_step(model, data, nstep=50)
    mujoco.mj_kinematics(model, data)
    after_ten_steps = gripper.xpos + 0.02 * gripper.xmat[::3]
    np.testing.assert_allclose(after_ten_steps, [1.301, 1.120, 0.482], atol=2e-3)
    np.testing.assert_allclose(Arm().grip, [1.300, 1.120, 0.480], atol=1e-3)
    start = TASK.start(jnp.asarray(SHORT))
    assert not start.qvel.any()
    assert not start.qpos[-2:].any()


def test_an_action_of_one_moves_the_gripper_by_34_millimetres_and_the_height_relaxes():
    arm = Arm(SHORT)
    for _ in range(100):
        arm.step((0.0, 0.0))
    assert arm.grip[2] == pytest.approx(0.5, abs=5e-3)
    arm.step((0.0, -1.0))
    for action in ((0.0, -1.0), (0.0, -0.5), (0.5, 0.0), (-0.5, 0.0)):
        arm.step(action)
        before = arm.grip.copy()
        arm.step(action)
        np.testing.assert_allclose(
            (arm.grip - before)[:2], 0.0335 * np.asarray(action), atol=1e-3
        )


def test_nothing_but_the_block_of_the_fingers_reaches_down_to_the_obstacles():
    """Their tops are at 0.5 m; the block is about +-13.6 mm by +-15 mm, and 18 mm deep below the grip."""
    arm = Arm()
    model, data = arm.model, arm.data
    fingers = [model.geom(name).id for name in scene.FINGERS]
    np.testing.assert_array_equal(np.flatnonzero(model.geom_contype), fingers)
    reach = np.concatenate(
        [
            data.geom_xpos[one]
            + sign * np.abs(data.geom_xmat[one].reshape(3, 3)) @ model.geom_size[one]
            for one in fingers
            for sign in (-1, 1)
        ]
    ).reshape(-1, 3)
    np.testing.assert_allclose(
        reach.max(0) - arm.grip, [0.0136, 0.015, 0.058], atol=1e-3
    )
    np.testing.assert_allclose(
        reach.min(0) - arm.grip, [-0.0136, -0.015, -0.018], atol=1e-3
    )


def test_the_actions_are_the_normalised_bumps_weighted_by_rows_of_theta(key):
    theta = 30 * jax.random.normal(key, (40,))
    np.testing.assert_allclose(TASK.actions(theta), promp(theta), atol=1e-4)


@pytest.mark.slow
def test_rollouts_end_like_those_of_the_published_loop(initial):
    """A difference in the last bit is another way in 150 steps along a rim, so nearly all must agree."""
    thetas, contexts, states = initial
    count, places = 40, grips(states)[:, -1]
    loops = [Arm(contexts[n]).rollout(thetas[n]) for n in range(count)]
    lengths, touched, grip = (np.array(part) for part in zip(*loops, strict=True))
    assert 10 < touched.sum() < 35
    assert (states.physics.contacts[:count, -1, 0] == touched).mean() >= 0.95
    assert (ends(states)[:count] == lengths).mean() >= 0.95
    apart = np.linalg.norm(places[:count] - grip, axis=1)
    assert np.median(apart[~touched]) < 1e-3
    assert (
        np.median(apart[touched]) < 5e-3
    )  # the published loop goes on to the step's end


@pytest.mark.slow
def test_the_initial_policy_touches_an_obstacle_in_three_of_five_rollouts(initial):
    """62 % of 2,000 rollouts; a band of four standard errors of the 200 here."""
    *_, states = initial
    touched = states.physics.contacts[:, -1, 0]
    assert touched.mean() == pytest.approx(0.62, abs=0.14)
    assert states.success.any(axis=1).mean() < 0.05


@pytest.mark.slow
def test_from_the_first_touch_on_the_arm_stays_where_it_is(initial):
    *_, states = initial
    touched = np.flatnonzero(states.physics.contacts[:, -1, 0])
    for number in touched:
        length = int(ends(states)[number])
        own = jax.tree.map(lambda leaf, n=number: leaf[n], states.physics)
        assert own.contacts[:, 0].argmax() == length
        for leaf in jax.tree.leaves(own):
            np.testing.assert_array_equal(
                leaf[length:], leaf[length:][:1].repeat(151 - length, 0)
            )


@pytest.mark.slow
def test_the_reward_is_that_of_the_last_place_less_the_cost_of_all_actions(initial):
    thetas, _, states = initial
    distances = np.linalg.norm(grips(states)[:, -1] - GOAL, axis=1)
    costs = np.array([(promp(theta) ** 2).sum() for theta in thetas])
    expected = 10 * (2 * np.exp(-distances) - 0.01 * costs)
    rewards = states.reward.sum(axis=1)
    np.testing.assert_allclose(rewards, expected, rtol=1e-4, atol=1e-3)
    assert (rewards < 0).any()


@pytest.fixture(scope="module")
def planned():
    """States and outcomes of one way among short and among long obstacles, and of a push to the right."""
    way = past_short_obstacles()
    push = np.linalg.lstsq(bases(), np.tile([1.0, 0.0], (150, 1)), rcond=1e-2)[0]
    thetas = jnp.asarray(np.stack([way, way, push.reshape(-1)]), jnp.float32)
    return states_of(thetas, jnp.asarray([SHORT, LONG, SHORT]))


@pytest.mark.slow
def test_the_goal_ends_a_movement_that_long_obstacles_stop(planned):
    places, lengths = grips(planned), ends(planned)
    distances = np.linalg.norm(places - GOAL, axis=2)
    short, long, _ = np.arange(3)
    assert planned.success[short, lengths[short]]
    assert 100 < lengths[short] < 150
    assert (
        distances[short, lengths[short]] < 0.05 < distances[short, lengths[short] - 1]
    )
    assert np.ptp(places[short, lengths[short] :], axis=0).max() == 0
    assert not planned.physics.contacts[short].any()

    assert planned.physics.contacts[long, -1, 0]
    assert not planned.success[long].any()
    assert places[long, -1, 1] == pytest.approx(0.88, abs=0.01)  # before the end of A


@pytest.mark.slow
def test_a_rim_stops_the_gripper_but_is_no_obstacle(planned):
    pushed = grips(planned)[2]
    assert ends(planned)[2] == 150
    assert not planned.physics.contacts[2].any()
    assert pushed[75:, 0].max() < 1.48  # the inner edge
    assert pushed[75:, 0].min() > 1.45


def test_the_variable_obstacles_grow_from_one_end(key):
    short, _ = scene.obstacles(jnp.asarray(SHORT))
    long, sizes = scene.obstacles(jnp.asarray((0.09, 0.07)))
    for context, centres in ((SHORT, short), ((0.09, 0.07), long)):
        c0, c1 = context
        published = [
            (1.14 + c0 * math.cos(0.5), 0.92 - c0 * math.sin(0.5), 0.45),
            (1.47 - c1 * math.cos(0.2), 0.65 + c1 * math.sin(0.2), 0.45),
        ]
        np.testing.assert_allclose(centres, published, rtol=1e-6)
    np.testing.assert_allclose(sizes, [(0.09, 0.025, 0.05), (0.07, 0.025, 0.05)])


def test_outlines_are_the_corners_of_the_boxes():
    arm = Arm((0.03, 0.07))
    for name, outline in zip("abcd", scene.outlines((0.03, 0.07)), strict=True):
        geom = arm.data.geom(f"obstacle_{name}")
        axes, size = geom.xmat.reshape(3, 3), arm.model.geom(geom.id).size
        corners = {
            tuple((geom.xpos + axes @ (size * (a, b, 0)))[:2].round(6))
            for a in (-1, 1)
            for b in (-1, 1)
        }
        assert {tuple(np.round(point, 6)) for point in outline} == corners
        assert outline[0] == outline[-1]


@pytest.mark.slow
def test_the_step_after_a_touch_is_the_start_and_the_clock_goes_on(step, key):
    """The gripper is driven straight on to obstacle A."""
    state = STEP_TASK.reset(key, jnp.asarray(LONG))
    start = state
    for number in range(20):
        before = state
        state = step(jax.random.fold_in(key, number), state, jnp.asarray([-0.2, -1.0]))
        if before.physics.contacts.any():
            break
        assert not (state.terminated | state.truncated)
    assert int(state.time_step) == number + 1 < 20
    np.testing.assert_array_equal(state.physics.qpos, start.physics.qpos)
    np.testing.assert_array_equal(state.observation, start.observation)
    assert float(state.reward) == pytest.approx(float(before.reward), rel=1e-6)
    assert not state.physics.contacts.any()
    assert not before.success


@pytest.mark.slow
def test_the_observation_is_where_the_grip_is_and_how_far_it_goes_in_a_step(step, key):
    state = STEP_TASK.reset(key, jnp.asarray(SHORT))
    np.testing.assert_allclose(state.observation, [1.3, 0, 1.12, 0], atol=1e-3)
    for _ in range(8):
        before = state
        state = step(jax.random.clone(key), state, jnp.asarray([0.1, -0.5]))
    arm = Arm(SHORT)
    arm.data.qpos[:], arm.data.qvel[:] = state.physics.qpos, state.physics.qvel
    mujoco.mj_forward(arm.model, arm.data)
    jacobian = np.zeros((3, arm.model.nv))
    mujoco.mj_jac(
        arm.model, arm.data, jacobian, None, arm.grip, arm.model.body("gripper_link").id
    )
    x, y, _ = arm.grip
    change_x, change_y, _ = 0.04 * jacobian @ arm.data.qvel
    np.testing.assert_allclose(state.observation, [x, change_x, y, change_y], atol=1e-5)
    assert change_y < -0.01
    assert float(state.reward) == pytest.approx(
        math.exp(-2.5 * np.linalg.norm(arm.grip - GOAL)), rel=1e-5
    )
    planar = dataclasses.replace(STEP_TASK, distance="plane")
    assert float(planar.step(key, before, jnp.asarray([0.1, -0.5])).reward) == (
        pytest.approx(math.exp(-2.5 * np.hypot(x - GOAL[0], y - GOAL[1])), rel=1e-5)
    )


def test_the_step_based_task_has_a_hard_and_an_easy_context():
    np.testing.assert_allclose(STEP_TASK.target.mean, LONG)
    np.testing.assert_allclose(ReacherStep(case="easy").target.mean, SHORT)
    np.testing.assert_allclose(TASK.target.mean, LONG)
    np.testing.assert_allclose(TASK.target.covariance, 3e-6 * np.eye(2), rtol=1e-5)
    np.testing.assert_allclose(TASK.initial.std, [0.04, 0.04])


def test_a_wrong_case_distance_or_engine_is_one_sentence():
    for setting, value, known in (
        ("case", "medium", "hard or easy"),
        ("distance", "arc", "space or plane"),
        ("engine", "mujoco", "native or mjx"),
    ):
        wrong = dataclasses.replace(STEP_TASK, **{setting: value})
        with pytest.raises(
            ValueError, match=rf"^task\.{setting} must be {known}, got '{value}'$"
        ):
            settings.check("task", wrong)


@pytest.mark.slow
def test_mjx_moves_as_native_does_and_stops_at_the_same_touch(planned):
    """From rest, in a state each that is free, touches an obstacle, and touches the rim.

    C MuJoCo adds what the change of the weld's Jacobian does, v^2, which MJX lacks: the free gripper is moved a little only.
    """
    rows, times = np.arange(3), np.array([60, 150, 100])
    there = jax.tree.map(lambda leaf: leaf[rows, times], planned.physics)
    still = jnp.zeros_like(there.qvel)
    none = np.zeros_like(there.contacts)
    states = dataclasses.replace(there, qvel=still, warmstart=still, contacts=none)
    actions = jnp.asarray([[0.02, -0.02], [0.0, -0.02], [0.02, 0.0]])

    def after(engine):
        task = Reacher(engine=engine)

        def step(state, action):
            return task.moved(state, task.pose(state), action)

        return jit(jax.vmap(step))(states, actions)

    native, mjx = after("native"), after("mjx")
    np.testing.assert_array_equal(native.contacts[:, 0], [False, True, False])
    np.testing.assert_array_equal(mjx.contacts, native.contacts)
    assert not (native.failed | mjx.failed).any()
    apart = np.abs(mjx.qpos - native.qpos).max(axis=1)
    free, *touching = apart
    assert free < 1e-5
    assert max(touching) < 5e-4  # their contacts have other points
    moved = np.abs(native.qpos - states.qpos).max(axis=1)
    assert (moved > 5 * apart).all()
