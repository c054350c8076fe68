"""An environment of Brax or of MuJoCo Playground as a step-based task whose context changes its system.

    @part("task", "cart-pole")
    @struct.dataclass
    class CartPole(FromBrax):
        backend: str = setting("generalized", static=True, help="of Brax")

        context_space = ContextSpace(("gravity",), ("m/s^2",), (1.0,), (20.0,))
        initial = property(lambda self: Gaussian.from_std((3.0,), (1.0,)))
        target = property(lambda self: Gaussian.from_std((9.81,), (0.1,)))
        horizon = 200

        def make(self):
            return brax.envs.get_environment("inverted_pendulum", backend=self.backend)

        def system(self, system, context):
            gravity = jnp.concatenate([jnp.zeros(2), -context])
            return system.tree_replace({"gravity": gravity, "opt.gravity": gravity})

        def success(self, state):
            return state.done == 0

The environment is never changed: each instance computes with a copy that has the system of its context. Brax's reset runs the
kinematics, or all of MuJoCo's forward pass, so slots are reset only where they have finished (`spjax.envs.resets`).
"""

import abc
import copy
import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
from brax.envs.base import Env as BraxEnv
from brax.envs.base import State
from jaxtyping import Array, Bool, Float, PyTree

from spjax.envs.base import Env, EnvState
from spjax.promotion import lenient


class FromBrax(Env):
    """What a subclass says: how the environment is made, what a context does to its system, and what success is.

    Beside that context space, initial and target distribution and the horizon [control steps], as every task does. The physics of
    `EnvState` is Brax's whole state.
    """

    costly_reset = True
    system_name: ClassVar[str] = "sys"  # of Brax; "_mjx_model" for MuJoCo Playground
    observes_context: ClassVar[bool] = True  # whether it follows Brax's observation

    @abc.abstractmethod
    def make(self) -> BraxEnv:
        """Returns the environment, without wrappers; by static settings alone, since those with the same share it."""

    @abc.abstractmethod
    def system(self, system: PyTree, context: Float[Array, " dim"]) -> PyTree:
        """Returns the system in this context; a pure function of JAX, which runs in every control step."""

    @abc.abstractmethod
    def success(self, state: State) -> Bool[Array, ""]:
        """Returns whether an episode that ends in this state of Brax's does so in success."""

    def observe(self, state: State) -> Float[Array, " observation"]:
        """Returns the vector that the policy sees of this state of Brax's, without the context.

        Raises:
            ValueError: there is a dictionary of observations; say here which of them count.
        """
        if isinstance(state.obs, dict):
            raise ValueError(
                f"{self.name} observes {', '.join(sorted(state.obs))}; let its `observe` return one vector"
            )
        return state.obs

    def reset(self, key: Array, context: Float[Array, " dim"]) -> EnvState:
        """Returns the first state of an episode in this context."""
        context = self.context_space.clip(context)
        with lenient():
            first = self._in(context).reset(jax.random.key_data(key))
        first = jax.tree.map(_settled, first)
        return EnvState.start(first, self._seen(first, context), context)

    def dynamics(
        self, key: Array, state: EnvState, action: Float[Array, " action"]
    ) -> EnvState:
        """Returns the state one control step of Brax's later; Brax draws from keys of its own, if at all."""
        before = state.physics
        with lenient():
            after = self._in(state.context).step(before, action)
        after = jax.tree.map(
            lambda new, old: jnp.asarray(new, old.dtype), after, before
        )
        return dataclasses.replace(
            state,
            physics=after,
            observation=self._seen(after, state.context),
            reward=jnp.asarray(after.reward, state.reward.dtype),
            terminated=after.done > 0,
            success=jnp.asarray(self.success(after), bool),
        )

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """Returns the first two entries of the observation."""
        return state.observation[:2]

    @property
    def plane(self) -> tuple[str, str]:
        """The axes of these pictures."""
        return "observation 0", "observation 1"

    @property
    def observation_size(self) -> int:
        """That of the environment, and the context's where it is observed."""
        context = self.context_space.size if self.observes_context else 0
        return self._made.observation_size + context

    @property
    def action_lower(self) -> tuple[float, ...]:
        """Brax's actions lie in [-1, 1]."""
        return (-1.0,) * self._made.action_size

    @property
    def action_upper(self) -> tuple[float, ...]:
        """Brax's actions lie in [-1, 1]."""
        return (1.0,) * self._made.action_size

    @property
    def control_period(self) -> float:
        """Seconds."""
        return self._made.control_period

    @property
    def _made(self) -> "_Made":
        """What the class and its static settings say, made when it is first asked for."""
        static = [
            getattr(self, name)
            for name, declared in self.declared().items()
            if declared.setting.static
        ]
        which = (type(self), *static)
        if which not in _MADE:
            # eager, also while a program is being traced
            with jax.ensure_compile_time_eval(), lenient():
                _MADE[which] = _Made.of(self)
        return _MADE[which]

    def _in(self, context: Float[Array, " dim"]) -> BraxEnv:
        env = copy.copy(self._made.env)
        system = self.system(getattr(env, self.system_name), context)
        setattr(env, self.system_name, system)
        return env

    def _seen(
        self, state: State, context: Float[Array, " dim"]
    ) -> Float[Array, " observation"]:
        observation = self.observe(state)
        if not self.observes_context:
            return observation
        return jnp.concatenate([observation, context])


@dataclasses.dataclass(frozen=True)
class _Made:
    """An environment, and what would cost time to ask it again."""

    env: BraxEnv
    observation_size: int
    action_size: int
    control_period: float  # s

    @classmethod
    def of(cls, task: FromBrax) -> "_Made":
        """Makes the environment of a task; raises ValueError where its system cannot be changed."""
        env = task.make()
        if env.unwrapped is not env:
            raise ValueError(
                f"{task.name} needs an environment without wrappers, got {type(env).__name__}"
            )
        if not hasattr(env, task.system_name):
            raise ValueError(
                f"{type(env).__name__} has no {task.system_name!r}; say in {type(task).__name__}.system_name "
                "where its system is, '_mjx_model' for MuJoCo Playground"
            )
        first = jax.eval_shape(env.reset, jax.random.PRNGKey(0))
        return cls(
            env=env,
            observation_size=_size(task, first),
            action_size=int(env.action_size),
            control_period=float(env.dt),
        )


_MADE: dict[tuple[object, ...], _Made] = {}


def _size(task: FromBrax, first: State) -> int:
    shape = jax.eval_shape(task.observe, first).shape
    if len(shape) != 1:
        raise ValueError(
            f"{task.name} must observe one vector, got an array of shape {shape}"
        )
    return int(shape[0])


def _settled(leaf: PyTree) -> Array:
    """Returns the leaf as an array whose type does not give way to others, as the states of a loop need it."""
    leaf = jnp.asarray(leaf)
    return jax.lax.convert_element_type(leaf, leaf.dtype)
