"""An episodic task that moves in a scene is filmed as every other."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

import spjax
from spjax import catalogue
from spjax.catalogue import part
from spjax.cli import main
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.episodic import EpisodicTask, whole_rollout
from spjax.envs.physics import PhysicsState, Scene
from spjax.episodes import Outcome
from spjax.training.config import RunConfig

MJCF = """
<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="4 4 0.1"/>
    <body name="bead" pos="0 0 0.5">
      <joint name="x" type="slide" axis="1 0 0"/>
      <geom name="bead" type="sphere" size="0.1"/>
    </body>
  </worldbody>
</mujoco>
"""


@part("task", "bead")
@struct.dataclass
class Bead(EpisodicTask):
    """A bead that slides at a constant speed, theta; the context is where it should be after a second."""

    horizon = 10
    control_period = 0.1
    context_space = ContextSpace(("goal",), ("m",), (-1.0,), (1.0,))
    parameter_lower = (-2.0,)
    parameter_upper = (2.0,)
    parameter_std = (0.5,)
    trail = "bead"

    @property
    def initial(self):
        return Gaussian.from_std((0.0,), (0.3,))

    @property
    def target(self):
        return Gaussian.from_std((0.5,), (0.1,))

    def rollout(self, key, theta, context):
        distance = jnp.abs(theta - context)[0]
        return Outcome(
            reward=-distance, success=distance < 0.1, length=jnp.int32(self.horizon)
        )

    def states(self, key, theta, context):
        time = jnp.arange(self.horizon + 1.0)
        none = jnp.zeros((self.horizon + 1, 1))
        physics = PhysicsState(
            qpos=self.control_period * time[:, None] * theta[None],
            qvel=jnp.broadcast_to(theta, none.shape),
            act=none[:, :0],
            warmstart=none,
            fields=(),
            contacts=none[:, :0] > 0,
            failed=none[:, 0] > 0,
        )
        return whole_rollout(physics, self.rollout(key, theta, context), context)

    def trace(self, state):
        return jnp.concatenate([state.physics.qpos, jnp.full(1, 0.5)])

    def physics_scene(self):
        return Scene(MJCF, substeps=50)

    def mark(self, context):
        return (context[0], 0.0, 0.5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    config = RunConfig(
        task=Bead(),
        agent=catalogue.make("agent", "c-reps", num_samples=10, buffer_size=2),
        teacher=catalogue.make("teacher", "default"),
        num_iterations=1,
        evaluation_episodes=2,
    )
    return spjax.train(config, tmp_path_factory.mktemp("bead") / "run", progress=False)


@pytest.mark.slow
def test_an_episodic_task_in_a_scene_is_filmed_where_it_moves(trained, capsys):
    assert main(["render", str(trained), "--format", "html", "--context", "0.75"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = r"episode 1: goal 0.75 m: (failure|success) after 1.00 s, discounted return (-?\d+\.\d\d)"
    end, reward = re.fullmatch(told, lines[0]).groups()
    text = (trained / "videos" / "seed-1-0.75.html").read_text()
    film = json.loads(
        re.search(r'type="application/json">(.*?)</script>', text).group(1)
    )
    (episode,) = film["episodes"]
    bead = [geom["name"] for geom in film["geoms"]].index("bead")
    way = np.array(episode["poses"][bead])[:, 0]
    assert len(way) == 11
    np.testing.assert_allclose(np.diff(way), way[-1] / 10, atol=2e-4)
    assert -abs(way[-1] - 0.75) == pytest.approx(float(reward), abs=6e-3)
    assert (end == "success") == (abs(way[-1] - 0.75) < 0.1)


@pytest.mark.slow
def test_the_states_are_those_of_the_rollouts_that_play_evaluates(trained):
    config = RunConfig.built(
        json.loads((trained / "config.json").read_text())["config"]
    )
    experiment = jax.tree.map(jnp.asarray, config.experiment(config.lanes()[0]))
    state = experiment.init(jax.random.key(0))
    contexts = jnp.asarray([[0.5], [-0.25]])
    outcome, path = experiment.play(state, jax.random.key(1), contexts)
    states = experiment.states(state, jax.random.key(1), contexts)
    assert states.physics.qpos.shape == (11, 2, 1)
    np.testing.assert_array_equal(path[:, :, 0], states.physics.qpos[:, :, 0])
    np.testing.assert_allclose(
        -jnp.abs(states.physics.qpos[-1] - contexts)[:, 0],
        outcome.discounted_return,
        atol=1e-6,
    )
