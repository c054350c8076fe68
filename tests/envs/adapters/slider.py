"""A mass on a rail in Brax's physics, small enough to compile in a moment; its context is the mass."""

import dataclasses

import jax
import jax.numpy as jnp
from brax.envs.base import Env as BraxEnv
from brax.envs.base import PipelineEnv, State
from brax.io import mjcf
from flax import struct

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.adapters.brax import FromBrax
from spjax.settings import setting

XML = """
<mujoco>
  <option timestep="0.05"/>
  <worldbody>
    <body>
      <joint name="rail" type="slide" axis="1 0 0"/>
      <geom type="sphere" size="0.1" mass="1" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor joint="rail" gear="1" ctrlrange="-1 1" ctrllimited="true"/></actuator>
</mujoco>
"""


class OnRail(PipelineEnv):
    """Starts near 0 m, ends beyond 0.1 m; the reward is the place."""

    def __init__(self):
        super().__init__(sys=mjcf.loads(XML), backend="generalized", n_frames=1)

    def reset(self, rng):
        place = jax.random.uniform(rng, (1,), minval=-0.01, maxval=0.01)
        physics = self.pipeline_init(place, jnp.zeros(1))
        zero = jnp.zeros(())
        return State(physics, self.seen(physics), zero, zero, {"steps": 0}, {"n": 0})

    def step(self, state, action):
        physics = self.pipeline_step(state.pipeline_state, action)
        return state.replace(
            pipeline_state=physics,
            obs=self.seen(physics),
            reward=physics.q[0],
            done=jnp.where(physics.q[0] > 0.1, 1.0, 0.0),
            info={"n": state.info["n"] + 1},
        )

    def seen(self, physics):
        return jnp.concatenate([physics.q, physics.qd])


@part("task", "slider")
@struct.dataclass
class Slider(FromBrax):
    """The mass [kg] is the context."""

    stiff: bool = setting(False, static=True, help="nothing at all")

    context_space = ContextSpace(("mass",), ("kg",), (0.5,), (4.0,))
    initial = property(lambda self: Gaussian.from_std((1.0,), (0.2,)))
    target = property(lambda self: Gaussian.from_std((3.0,), (0.1,)))
    horizon = 20

    def make(self):
        return OnRail()

    def system(self, system, context):
        inertia = system.link.inertia.replace(mass=context)
        return system.replace(link=system.link.replace(inertia=inertia))

    def success(self, state):
        return state.done > 0


@struct.dataclass
class Model:
    """Stands for MuJoCo's, of Playground."""

    push: jnp.ndarray


class Pushed(BraxEnv):
    """What Playground's environments look like; Brax's class lends its abstract methods alone."""

    dt, action_size, backend = 0.02, 1, "mjx"
    observation_size = property(lambda self: {"state": 1, "privileged_state": 1})
    mjx_model = property(lambda self: self._mjx_model)

    def __init__(self):
        self._mjx_model = Model(jnp.ones(1))

    def reset(self, rng):
        return self.at(jnp.zeros(1))

    def step(self, state, action):
        return self.at(state.pipeline_state + self.mjx_model.push * action)

    def at(self, place):
        obs = {"state": place, "privileged_state": 2 * place}
        return State(place, obs, place[0], jnp.zeros(()))


@part("task", "pushed")
@struct.dataclass
class OfPlayground(Slider):
    """Each step goes as far as the context says."""

    system_name = "_mjx_model"
    observes_context = False

    def make(self):
        return Pushed()

    def system(self, system, context):
        return dataclasses.replace(system, push=context)

    def observe(self, state):
        return state.obs["state"]

    def trace(self, state):
        return jnp.concatenate([state.observation, state.context])
