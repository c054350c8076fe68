"""A task, a teacher and a schedule as a user would write them, in one file of his own."""

import jax.numpy as jnp
from flax import struct

from spjax.catalogue import part
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.base import Env, EnvState
from spjax.episodes import masked_mean
from spjax.self_paced.schedules import Aim, Evidence, Schedule
from spjax.settings import setting
from spjax.teachers.base import Teacher


@part("task", "hit-the-mark")
@struct.dataclass
class HitTheMark(Env):
    """Five steps on a line; the nearer to the mark, which is the context, the better."""

    reach: float = setting(0.5, above=0, unit="m", help="of a step")

    observation_size = 2
    action_lower = (-1.0,)
    action_upper = (1.0,)
    horizon = 5
    control_period = 0.2
    context_space = ContextSpace(("mark",), ("m",), (-2.0,), (2.0,))

    @property
    def initial(self):
        return Gaussian.from_std((0.0,), (0.5,))

    @property
    def target(self):
        return Gaussian.from_std((1.5,), (0.1,))

    def reset(self, key, context):
        return EnvState.start(
            jnp.zeros(1), jnp.concatenate([jnp.zeros(1), context]), context
        )

    def dynamics(self, key, state, action):
        place = state.physics + self.reach * action
        distance = jnp.abs(place - state.context)[0]
        return state.replace(
            physics=place,
            observation=jnp.concatenate([place, state.context]),
            reward=jnp.exp(-distance),
            success=distance < 0.2,
        )

    def trace(self, state):
        return jnp.concatenate([state.physics, state.context])


@part("schedule", "steady")
@struct.dataclass
class Steady(Schedule):
    """The way that is done grows by the same share in each update."""

    share: float = setting(0.25, least=0, most=1, help="of the way, an update")

    def aim(self, evidence):
        return Aim(alpha=self.share * evidence.update)


@struct.dataclass
class LinearState:
    done: jnp.ndarray
    updates: jnp.ndarray


@struct.dataclass
class LinearMetrics:
    done: jnp.ndarray


@part("teacher", "linear")
@struct.dataclass
class Linear(Teacher):
    """The mean goes from the initial to the target distribution in a straight line."""

    schedule: Schedule = setting(Steady(), help="how much of the way is done")

    def init(self, key, space):
        return LinearState(done=jnp.zeros(()), updates=jnp.zeros((), jnp.int32))

    def sample(self, state, key, space):
        start, end = self.starts_at, self.aims_at
        here = Gaussian(start.mean + state.done * (end.mean - start.mean), start.chol)
        return here.sample(key, space)

    def update(self, state, key, episodes, value):
        returns = episodes.discounted_return
        evidence = Evidence(
            contexts=episodes.context,
            values=returns,
            mask=episodes.mask,
            mean_return=masked_mean(returns, episodes.mask),
            kl_to_target=jnp.zeros(()),
            update=state.updates + 1,
        )
        done = jnp.minimum(1.0, self.schedule.aim(evidence).alpha)
        return LinearState(done=done, updates=state.updates + 1), LinearMetrics(
            done=done
        )
