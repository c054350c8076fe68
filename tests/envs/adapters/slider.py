"""A mass on a rail in Brax's physics, small enough to compile in a moment; its context is the mass."""

import jax
import jax.numpy as jnp
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
