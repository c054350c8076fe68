"""The ant and its gate: masses, joints and contacts in plain C MuJoCo, the printed reward, the wall, and the guard."""

import dataclasses

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from spjax import settings
from spjax.agents.step_based import PPO
from spjax.agents.step_based.rollout import init_slots, rollout
from spjax.envs import ant, physics
from spjax.envs import ant_scene as scene
from spjax.envs.ant import Ant
from spjax.teachers import Target
from spjax.training.collect_slots import SlotCollector

ENV = Ant(engine="native")
AHEAD, ASIDE = jnp.asarray([0.0, 3.0]), jnp.asarray([-10.0, 3.0])
DENSITY = 5.0
PARTS = ("hip", "leg", "foot")
GEOMS = ["torso"] + [f"{name}_{part}" for name, *_ in scene.LEGS for part in PARTS]
WALLS = ("wall_right", "wall_left")
DROPPED = 3.5  # m, a height at which the ant touches nothing but the wall


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(scene.mjcf(0.01, 0.03))


@pytest.fixture(scope="module")
def step():
    return jax.jit(ENV.step)


def standing(model, x=0.0, z=scene.START_HEIGHT):
    """An ant at rest in plain C MuJoCo, with the gate straight ahead."""
    data = mujoco.MjData(model)
    data.qpos[:] = (x, 0.0, z, 1.0, 0.0, 0.0, 0.0, *scene.REST)
    data.mocap_pos[:] = scene.walls(AHEAD)
    mujoco.mj_forward(model, data)
    return data


def touching(model, data):
    """Returns the pairs of names of geoms that push each other."""
    near = data.contact.geom[data.contact.efc_address >= 0]
    return {frozenset(model.geom(int(one)).name for one in pair) for pair in near}


def moved(state, qpos=None, qvel=None):
    """Returns a state at other positions and velocities."""
    now = state.physics
    changed = dataclasses.replace(
        now,
        qpos=now.qpos if qpos is None else jnp.asarray(qpos, jnp.float32),
        qvel=now.qvel if qvel is None else jnp.asarray(qvel, jnp.float32),
    )
    return dataclasses.replace(state, physics=changed)


def at(state, x, y=0.0, z=scene.START_HEIGHT, velocity=(0.0, 0.0, 0.0)):
    """Returns a state with the ant at rest but for its torso's velocity."""
    qpos = (x, y, z, 1.0, 0.0, 0.0, 0.0, *scene.REST)
    return moved(state, qpos, (*velocity, *(0.0,) * 11))


def test_the_masses_are_those_of_a_sphere_and_twelve_capsules(model):
    def capsule(length, radius):
        return DENSITY * np.pi * radius**2 * (length + 4 / 3 * radius)

    hip = leg = capsule(0.2 * np.sqrt(2), 0.08)
    foot = capsule(0.4 * np.sqrt(2), 0.08)
    torso = DENSITY * 4 / 3 * np.pi * 0.25**3 + 4 * hip
    assert model.body("torso").mass == pytest.approx(torso)
    for name, *_ in scene.LEGS:
        assert model.body(f"{name}_leg").mass == pytest.approx(leg)
        assert model.body(f"{name}_foot").mass == pytest.approx(foot)
    whole = model.body_subtreemass[model.body("torso").id]
    assert whole == pytest.approx(torso + 4 * (leg + foot))


def test_joints_have_the_ranges_of_gym_and_motors_of_20_newton_metres(model):
    degrees = np.rad2deg(model.jnt_range[1:])
    np.testing.assert_allclose(degrees[::2], [(-30, 30)] * 4)
    np.testing.assert_allclose(np.abs(degrees[1::2]).min(axis=1), 30)
    np.testing.assert_allclose(np.abs(degrees[1::2]).max(axis=1), 70)
    assert (model.dof_damping[6:] == 1).all()
    assert (model.dof_armature[6:] == 0.03).all()
    assert not model.dof_damping[:6].any() | model.dof_armature[:6].any()
    data = standing(model)
    for number in range(8):
        data.ctrl[:] = 0
        data.ctrl[number] = -2.0  # clipped
        mujoco.mj_forward(model, data)
        torques = np.zeros(14)
        torques[6 + number] = -20.0
        np.testing.assert_allclose(data.qfrc_actuator, torques)


def test_without_armature_the_model_is_the_printed_one():
    printed = mujoco.MjModel.from_xml_string(Ant(armature=0.0).physics_scene().mjcf)
    assert not printed.dof_armature.any()


def test_an_ant_at_rest_stands_on_its_four_feet(model):
    data = standing(model)
    mujoco.mj_step(model, data, 500)
    feet = {frozenset(("floor", f"{name}_foot")) for name, *_ in scene.LEGS}
    assert touching(model, data) == feet
    assert np.abs(data.qvel).max() < 0.05
    assert np.abs(data.qpos[:2]).max() < 0.05
    assert data.qpos[2] > scene.TORSO_RADIUS + 0.05


@pytest.mark.parametrize("geom", GEOMS)
def test_every_part_of_the_ant_collides_with_both_walls_and_the_floor(model, geom):
    """The part's middle is put into one of them after the other."""
    for other in (*WALLS, "floor"):
        data = standing(model, z=DROPPED)
        part = data.geom(geom).xpos.copy()
        aim = data.geom(other).xpos.copy()
        if other in WALLS:
            aim[1] = {"wall_right": -2.0, "wall_left": 2.0}[other]
        else:
            aim[:2] = part[:2]
        data.qpos[:3] += aim - part
        mujoco.mj_forward(model, data)
        assert frozenset((geom, other)) in touching(model, data)


def test_parts_of_the_ant_never_collide_with_each_other(model):
    random, data = np.random.default_rng(0), standing(model, z=100.0)
    for _ in range(200):
        data.qpos[7:] = random.uniform(model.jnt_range[1:, 0], model.jnt_range[1:, 1])
        mujoco.mj_forward(model, data)
        assert data.ncon == 0


@pytest.mark.parametrize("context", [(-8.0, 3.0), (0.0, 8.0), (10.0, 13.0)])
def test_the_gate_is_the_gap_of_its_width_around_its_position(model, context):
    data = standing(model)
    data.mocap_pos[:] = scene.walls(jnp.asarray(context))
    mujoco.mj_forward(model, data)
    position, width = context
    half = {wall: model.geom(wall).size for wall in WALLS}
    right, left = (data.geom(wall).xpos for wall in WALLS)
    inner = right[1] + half["wall_right"][1], left[1] - half["wall_left"][1]
    np.testing.assert_allclose(inner, (position - width / 2, position + width / 2))
    for wall, place in zip(WALLS, (right, left), strict=True):
        assert (place[0], half[wall][0]) == (3.0, 0.25)
        np.testing.assert_allclose(place[2] - half[wall][2], 0)
        assert (
            np.abs(place[1]) + half[wall][1] > ant.FURTHEST
        )  # not to be walked around
    edges = sorted(y for line in ENV.scenery(context) for _, y in line)
    np.testing.assert_allclose(edges[1:3], inner)


def test_the_gate_is_state_so_all_gates_share_one_compiled_model(key):
    states = jax.vmap(ENV.reset, (None, 0))(key, jnp.stack([AHEAD, ASIDE]))
    (walls,) = states.physics.fields
    np.testing.assert_allclose(walls[:, 1, 1] - walls[:, 0, 1], 103.0)
    assert Ant().physics_scene() is Ant().physics_scene()


@pytest.mark.slow
def test_a_reset_starts_near_rest_in_front_of_the_wall(key):
    keys = jax.random.split(key, 2000)
    states = jax.jit(jax.vmap(ENV.reset, (0, None)))(keys, AHEAD)
    qpos, qvel = np.asarray(states.physics.qpos), np.asarray(states.physics.qvel)
    rest = np.array((0.0, 0.0, 0.6, *scene.REST))
    off = qpos[:, [0, 1, 2, *range(7, 15)]] - rest
    assert np.abs(off).max() <= 0.1 + 1e-6
    np.testing.assert_allclose(off.std(axis=0), 0.1 / np.sqrt(3), rtol=0.06)
    np.testing.assert_allclose(np.linalg.norm(qpos[:, 3:7], axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(qvel.std(axis=0), 0.1, rtol=0.06)


def test_the_observation_is_the_state_of_29_numbers_and_the_gate(step, key):
    raw = dataclasses.replace(ENV, scaled_observation=False)
    context = jnp.asarray([4.0, 5.0])
    state = step(key, ENV.reset(jax.random.clone(key), context), 0.3 * jnp.ones(8))
    plain = raw._observe(state.physics, context)
    qpos, qvel = state.physics.qpos, state.physics.qvel
    np.testing.assert_allclose(plain[:15], qpos, rtol=1e-5)
    np.testing.assert_array_equal(plain[15:29], qvel)
    np.testing.assert_array_equal(plain[29:], context)
    assert state.observation.shape == plain.shape == (ENV.observation_size,)
    np.testing.assert_allclose(state.observation[:2], 0.2 * qpos[:2], rtol=1e-6)
    np.testing.assert_allclose(state.observation[2:15], plain[2:15], rtol=1e-6)
    np.testing.assert_allclose(state.observation[15:18], 0.5 * qvel[:3], rtol=1e-6)
    np.testing.assert_allclose(state.observation[18:21], 0.2 * qvel[3:6], rtol=1e-6)
    np.testing.assert_allclose(state.observation[21:29], 0.1 * qvel[6:], rtol=1e-6)
    np.testing.assert_allclose(state.observation[29:], [0.8, 1.0], rtol=1e-6)


@pytest.mark.parametrize("x", [-1.0, 2.0, 4.0, 4.6, 20.0])
def test_the_reward_is_the_printed_one_of_the_clipped_action(step, key, x):
    action = jnp.asarray(
        [3.0, -3.0, 0.5, 0, 0, 0, 0, 0]
    )  # clipped: squares sum to 2.25
    state = step(jax.random.clone(key), at(ENV.reset(key, AHEAD), x), action)
    short = min(0.0, float(state.physics.qpos[0]) - 4.5)
    expected = 1 + 5 * np.exp(-0.5 * short**2) - 0.3 * 2.25
    assert float(state.reward) == pytest.approx(expected, rel=1e-5)
    assert not (state.terminated | state.truncated)


def test_standing_still_behind_the_goal_earns_the_largest_return_there_is(step, key):
    """6 a step: 1,172 discounted, so the 1,371 that the paper reports cannot be discounted."""
    best = float(
        step(jax.random.clone(key), at(ENV.reset(key, AHEAD), 6.0), jnp.zeros(8)).reward
    )
    assert best == pytest.approx(6.0)
    assert best * (1 - 0.995**750) / (1 - 0.995) == pytest.approx(1172, abs=0.5)


@pytest.mark.parametrize(
    ("rule", "x", "success"),
    [
        ("behind", 3.4, False),  # the torso is still in the gate
        ("behind", 3.6, True),
        ("goal", 4.4, False),
        ("goal", 4.6, True),
    ],
)
def test_a_success_is_an_ant_behind_the_wall_or_at_the_goal(key, rule, x, success):
    env = dataclasses.replace(ENV, success_rule=rule)
    state = at(env.reset(key, AHEAD), x, z=DROPPED)
    state = env.step(jax.random.clone(key), state, jnp.zeros(8))
    assert bool(state.success) == success


@pytest.fixture(scope="module")
def play(step):
    """Plays random actions; returns x, y and z of the torsos [time, ant]."""

    def played(key, states, steps):
        def control_step(states, key):
            key_act, key_step = jax.random.split(key)
            count = len(states.reward)
            actions = jax.random.normal(key_act, (count, 8))
            keys = jax.random.split(key_step, count)
            states = jax.vmap(ENV.step)(keys, states, actions)
            return states, states.physics.qpos[:, :3]

        return jax.lax.scan(control_step, states, jax.random.split(key, steps))[1]

    return jax.jit(played, static_argnums=2)


def launched(key, context, y, speeds):
    """Returns ants in front of the wall with these velocities of the torso [m/s]."""
    start = ENV.reset(key, context)
    states = [at(start, 1.8, y, velocity=speed) for speed in speeds]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


@pytest.mark.slow
def test_no_launch_takes_an_ant_through_the_wall_or_over_it(play, key):
    speeds = [(vx, 0.0, vz) for vx in np.linspace(1, 15, 15) for vz in (0.0, 2.0, 4.0)]
    states = launched(jax.random.fold_in(key, 0), ASIDE, 0.0, speeds)
    places = np.asarray(play(jax.random.fold_in(key, 1), states, 60))
    assert places[..., 0].max() < scene.WALL_X
    assert places[..., 0].max() > 2.0  # they do arrive
    assert places[..., 2].max() < scene.WALL_HEIGHT


@pytest.mark.slow
def test_a_launch_at_the_gate_takes_an_ant_through_it_and_one_beside_it_does_not(
    play, key
):
    speeds = [(vx, 0.0, 1.0) for vx in np.linspace(6, 15, 15) for _ in range(3)]
    for number, (y, through) in enumerate(((0.0, True), (2.5, False))):
        states = launched(jax.random.fold_in(key, 2 * number), AHEAD, y, speeds)
        keys = jax.random.fold_in(key, 2 * number + 1)
        places = np.asarray(play(keys, states, 60))
        beyond = places[..., 0].max(axis=0) > ant.BEHIND
        assert (beyond == through).all()


@pytest.mark.parametrize(
    ("place", "velocity"),
    [((0.0, 0.0, 0.6), (300.0, 0.0, 0.0)), ((95.0, 0.0, 0.6), (0.0, 0.0, 0.0))],
)
def test_an_ant_that_moves_as_none_can_ends_its_episode_without_success(
    step, key, place, velocity
):
    state = at(ENV.reset(key, AHEAD), *place, velocity=velocity)
    after = step(jax.random.clone(key), state, jnp.zeros(8))
    assert np.isnan(after.reward)
    assert bool(after.terminated)
    assert not (after.truncated | after.success)


def test_a_failure_of_the_simulator_ends_the_episode_too(step, key):
    state = moved(ENV.reset(key, AHEAD), qvel=np.full(14, np.nan))
    after = step(jax.random.clone(key), state, jnp.zeros(8))
    assert bool(after.physics.failed)
    assert bool(after.terminated)
    assert not bool(after.success)


@pytest.fixture
def exploding(monkeypatch):
    """Lets every ant start behind the wall and faster than any can move."""
    start = scene.start

    def fast(key, dtype):
        qpos, qvel = start(key, dtype)
        return qpos.at[0].set(10.0), qvel.at[0].set(500.0)

    monkeypatch.setattr(scene, "start", fast)


@pytest.mark.slow
def test_exploded_episodes_are_counted_in_training_and_earn_nothing(exploding, key):
    def act(key, observation):
        return jnp.zeros(8), None

    def assign(key, last):
        return AHEAD, None

    slots = init_slots(ENV, jax.random.fold_in(key, 0), 3, assign, None)
    *_, episodes, num_failed = jax.jit(
        lambda key, slots: rollout(ENV, key, slots, act, assign, 4, 0.995)
    )(jax.random.fold_in(key, 1), slots)
    assert int(num_failed) == int(episodes.mask.sum()) == 12
    np.testing.assert_array_equal(episodes.length, 1)
    assert not episodes.success.any() | episodes.discounted_return.any()


@pytest.mark.slow
def test_exploded_episodes_are_no_successes_of_an_evaluation(exploding, key):
    agent = PPO(hidden=(4,), discount=0.995)
    collector = SlotCollector(ENV, agent, Target().bound_to(ENV))
    state = agent.init(jax.random.fold_in(key, 0), ENV)
    contexts = jnp.stack([AHEAD, ASIDE])
    outcome, _ = jax.jit(collector.play)(state, jax.random.fold_in(key, 1), contexts)
    np.testing.assert_array_equal(outcome.length, 1)
    assert outcome.ended.all()
    assert not outcome.success.any() | outcome.episode_return.any()


@pytest.mark.slow
def test_mjx_moves_as_native_does(key):
    """A control step in the air, of legs pressed to their limits, on four feet, and at the wall.

    There the engines find other points of contact.
    """
    start = ENV.reset(key, ASIDE)
    states = [
        at(start, 0.0, z=2.0, velocity=(1.0, 0.5, 0.0)),
        at(start, 0.0, z=scene.START_HEIGHT),
        at(start, 0.0, z=0.47, velocity=(0.0, 0.0, -0.5)),
        at(start, 2.3, z=2.0, velocity=(3.0, 0.0, 0.0)),
    ]
    before = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states).physics
    actions = jnp.full((4, 8), 0.1).at[1].set(jnp.tile(jnp.asarray([1.0, -1.0]), 4))

    def after(engine):
        made = physics.make(ENV.physics_scene(), engine)
        return jax.jit(jax.vmap(made.step), compiler_options=made.compiler_options)(
            before, actions
        )

    native, mjx = after("native"), after("mjx")
    assert not (native.failed | mjx.failed).any()
    apart = np.abs(native.qpos - mjx.qpos).max(axis=1)
    moved = np.abs(native.qpos - before.qpos).max(axis=1)
    *alike, at_wall = apart
    assert (moved > 1e-2).all()
    assert max(alike) < 1e-5
    assert at_wall < 5e-3
    for after_step in (native, mjx):
        assert after_step.qvel[3, 0] < 0  # thrown back


def test_a_wrong_setting_is_one_sentence():
    for setting, value, sentence in (
        ("engine", "mujoco", "must be native, mjx or warp, got 'mujoco'"),
        ("success_rule", "gate", "must be behind or goal, got 'gate'"),
        ("armature", -1.0, "must be at least 0, got -1.0"),
        ("substeps", 0, "must be at least 1, got 0"),
    ):
        wrong = dataclasses.replace(ENV, **{setting: value})
        with pytest.raises(ValueError, match=rf"^task\.{setting} {sentence}$"):
            settings.check("task", wrong)
