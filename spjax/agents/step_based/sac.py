"""Soft actor-critic (Haarnoja et al., 2018) with a learned temperature.

Two forms. "state-value" is the first one, which the published experiments ran (Stable Baselines 2.9 `SAC`): two action-value
networks, a state-value network and its slow copy as the target of both; the policy climbs the first action-value network only.
"twin-q" is today's: no state-value network, slow copies of both action-value networks, the policy climbs their minimum.

The state-value network estimates the *soft* value, which contains the expected entropy. A curriculum that compares values
with a bound on the return (V_LB) should therefore read sample returns: `SelfPaced.value_source = "return"`.

Equation numbers are those of the article; (T18) is that of Haarnoja et al. (arXiv:1812.05905), where the temperature is learned.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import optax
from flax import struct
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree

from spjax.agents.base import Slots, StepBased
from spjax.agents.formula import Formula
from spjax.agents.step_based.adam import EpsilonPlace, adam
from spjax.agents.step_based.minibatches import packed
from spjax.agents.step_based.networks import (
    ActionValue,
    Params,
    SquashedPolicy,
    Value,
    check_hidden,
    squashed_sample,
)
from spjax.agents.step_based.replay import Replay
from spjax.agents.step_based.rollout import (
    Slot,
    Transitions,
    flat,
    step_keys,
    step_slots,
)
from spjax.catalogue import part
from spjax.envs.base import Env
from spjax.episodes import Episodes
from spjax.settings import setting


@struct.dataclass
class Rows:
    """Transitions as the replay buffer keeps them."""

    observation: Float[Array, "row observation"]
    action: Float[Array, "row action"]  # in [-1, 1]
    reward: Float[Array, " row"]
    next_observation: Float[Array, "row observation"]
    goes_on: Float[Array, " row"]  # 0 where nothing follows


@part("agent", "sac")
@struct.dataclass
class SAC(StepBased):
    """Soft actor-critic with a learned temperature."""

    num_envs: int = setting(5, static=True, least=1, help="parallel environment slots")
    num_steps: int = setting(
        410,
        static=True,
        least=1,
        unit="control steps",
        help="of each slot in an iteration",
    )
    updates_per_step: int = setting(
        1,
        static=True,
        least=0,
        help="gradient steps after each control step of all slots",
    )
    critic: Literal["state-value", "twin-q"] = setting(
        "state-value", static=True, help="networks of the critic"
    )
    hidden: tuple[int, ...] = setting(
        (64, 64), static=True, least=1, help="widths of every network"
    )
    batch_size: int = setting(
        64, static=True, least=1, unit="rows", help="of a gradient step"
    )
    replay_size: int = setting(
        10_000, static=True, least=1, unit="transitions", help="newest ones, kept"
    )
    bootstrap_time_limit: bool = setting(
        True, static=True, help="value what a time limit cuts off; else it is an end"
    )
    discount: float = setting(0.95, least=0, most=1, help="gamma")
    learning_rate: float = setting(
        3e-4, least=0, help="of policy, values and temperature"
    )
    learning_starts: int = setting(
        500,
        least=0,
        unit="environment steps",
        help="uniform random actions before the first update",
    )
    target_rate: float = setting(0.005, least=0, most=1, help="tau, of the slow copies")
    target_entropy: float | None = setting(
        None, unit="nats", help="None for minus the number of action dimensions"
    )
    initial_temperature: float = setting(
        1.0, above=0, help="weight of the entropy at the start"
    )
    adam_epsilon: EpsilonPlace = setting(
        "after-correction",
        static=True,
        help="where Adam's epsilon stands; published: before-correction",
    )

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps."""
        return self.num_envs * self.num_steps

    def check(self) -> None:
        """Checks concrete settings.

        Raises:
            ValueError: a value out of its range, or a replay buffer that the slots do not divide.
        """
        check_hidden(self.hidden)
        if self.replay_size % self.num_envs:
            raise ValueError(
                f"agent.replay_size must be a multiple of num_envs = {self.num_envs}, got {self.replay_size}"
            )

    def init(self, key: Array, env: Env) -> "SACState":
        """Returns fresh networks, optimiser and an empty replay buffer."""
        keys = jax.random.split(key, 4)
        observation, action = (
            jnp.zeros(env.observation_size),
            jnp.zeros(len(env.action_lower)),
        )
        params = {
            "policy": self._policy_network(env).init(keys[0], observation),
            "q1": ActionValue(self.hidden).init(keys[1], observation, action),
            "q2": ActionValue(self.hidden).init(keys[2], observation, action),
            "log_temperature": jnp.log(jnp.asarray(self.initial_temperature, float)),
        }
        if self.critic == "state-value":
            params["value"] = Value(self.hidden, None).init(keys[3], observation)
        return SACState(
            params=params,
            target=self._slow(params),
            optimiser=self._adam.init(ravel_pytree(params)[0]),
            replay=Replay.empty(self.replay_size, _blank(env)),
        )

    def act(
        self,
        state: "SACState",
        env: Env,
        key: Array,
        observation: Float[Array, "*batch observation"],
    ) -> Float[Array, "*batch action"]:
        """Returns actions drawn from the policy, inside the env's box."""
        return _to_box(env, self._draw(state.params["policy"], env, key, observation))

    def deterministic_action(
        self,
        state: "SACState",
        env: Env,
        observation: Float[Array, "*batch observation"],
    ) -> Float[Array, "*batch action"]:
        """Returns the squashed means of the policy, inside the env's box."""
        mean, _ = self._policy(state.params["policy"], env, observation)
        return _to_box(env, jnp.tanh(mean))

    def formula(self, state: "SACState", task: Env) -> Formula:
        """Returns the squashed means of the policy."""
        return Formula.of_network(
            state.params["policy"]["params"]["MLP_0"],
            task.action_lower,
            task.action_upper,
            squashed=True,
        )

    @property
    def has_value(self) -> bool:
        """Whether the critic has a state value."""
        return self.critic == "state-value"

    def value(
        self, state: "SACState", observation: Float[Array, "*batch observation"]
    ) -> Float[Array, "*batch"]:
        """Returns the soft value of these observations; only the "state-value" critic has one.

        Raises:
            ValueError: the critic is "twin-q".
        """
        if self.critic != "state-value":
            raise ValueError(
                "the twin-q critic has no state value; set teacher.value_source to return"
            )
        return self._value(state.params["value"], observation)

    def iterate(
        self, state: "SACState", world: Slots, key: Array
    ) -> tuple["SACState", Slots, Episodes, "SACMetrics"]:
        """Runs one iteration: num_steps control steps of every slot, each followed by the gradient steps."""
        env, assign = world.env, world.assign
        key_steps, key_rows, key_noise = jax.random.split(key, 3)
        shape = (self.num_steps, self.updates_per_step, self.batch_size)
        noise_shape = (
            *shape[:2],
            1 if self.critic == "state-value" else 2,
            self.batch_size,
            len(env.action_lower),
        )
        draws = (
            jax.random.uniform(key_rows, shape),
            jax.random.normal(key_noise, noise_shape),
        )
        flat_params, unravel = ravel_pytree(
            state.params
        )  # one vector: the optimiser is one loop, not one a layer

        def control_step(
            carry: tuple["_Learner", Replay, Slot], inputs: PyTree
        ) -> tuple[PyTree, PyTree]:
            learner, replay, slots = carry
            keys, (uniform, noise) = inputs
            act = self._explorer(unravel(learner.params)["policy"], env, replay.count)
            slots, (transitions, episodes, failed) = step_slots(
                env, keys, slots, act, assign, self.discount
            )
            replay = replay.add(self._rows(transitions))
            ready = (replay.count >= self.learning_starts) & (
                replay.count >= self.batch_size
            )

            def update(learner: "_Learner", draw: PyTree) -> tuple["_Learner", Losses]:
                rows = self._unpacked(env, replay.sample(draw[0]))
                return self._gradient_step(learner, unravel, env, rows, draw[1])

            def learn(learner: "_Learner") -> tuple["_Learner", Losses]:
                return jax.lax.scan(update, learner, (uniform, noise))

            def wait(learner: "_Learner") -> tuple["_Learner", Losses]:
                zeros = jnp.zeros(self.updates_per_step)
                return learner, Losses(*[zeros] * len(dataclasses.fields(Losses)))

            learner, losses = jax.lax.cond(ready, learn, wait, learner)
            return (learner, replay, slots), (episodes, failed, losses, ready)

        learner = _Learner(
            params=flat_params, target=state.target, optimiser=state.optimiser
        )
        inputs = (step_keys(key_steps, self.num_steps, world.slots), draws)
        (learner, replay, slots), (episodes, failed, losses, ready) = jax.lax.scan(
            control_step, (learner, state.replay, world.slots), inputs
        )
        state = SACState(
            params=unravel(learner.params),
            target=learner.target,
            optimiser=learner.optimiser,
            replay=replay,
        )
        updates = ready.sum() * self.updates_per_step
        sums = {
            f.name: getattr(losses, f.name).sum() for f in dataclasses.fields(losses)
        }
        metrics = SACMetrics(
            **{
                name: total / jnp.maximum(updates, 1).astype(total.dtype)
                for name, total in sums.items()
            },
            temperature=jnp.exp(state.params["log_temperature"]),
            num_updates=updates,
            num_failed=failed.sum(),
        )
        return state, dataclasses.replace(world, slots=slots), flat(episodes), metrics

    def loss(
        self,
        params: Params,
        target: Params,
        env: Env,
        rows: Rows,
        noise: Float[Array, "draw row action"],
    ) -> tuple[Float[Array, ""], "Losses"]:
        """Returns the sum of all losses; each reaches only the parameters that it is about."""
        fixed = jax.lax.stop_gradient(params)
        temperature = jnp.exp(fixed["log_temperature"])

        # a = f(epsilon; s) of Eq. (11)
        moments = self._policy(params["policy"], env, rows.observation)
        action, log_prob = self._squashed_sample(noise[0], moments)
        q1 = self._action_value(fixed["q1"], rows.observation, action)
        q2 = self._action_value(fixed["q2"], rows.observation, action)
        lower = jnp.minimum(q1, q2)

        # J_pi; published with the first network
        climbed = q1 if self.critic == "state-value" else lower
        policy_loss = (temperature * log_prob - climbed).mean()  # Eq. (12)

        # J_Q
        following = self._next_value(fixed, target, env, rows, noise)
        backup = rows.reward + self.discount * rows.goes_on * following  # Eq. (8)
        q1_error, q2_error = (
            self._action_value(params[name], rows.observation, rows.action) - backup
            for name in ("q1", "q2")
        )
        q_loss = 0.5 * (q1_error**2).mean() + 0.5 * (q2_error**2).mean()  # Eq. (7)

        # J_V
        value_loss = jnp.zeros(())
        if self.critic == "state-value":
            soft = jax.lax.stop_gradient(lower - temperature * log_prob)
            value_error = self._value(params["value"], rows.observation) - soft
            value_loss = 0.5 * (value_error**2).mean()  # Eq. (5)

        # J(temperature), in its logarithm
        wanted = (
            -len(env.action_lower)
            if self.target_entropy is None
            else self.target_entropy
        )
        surplus = jax.lax.stop_gradient(log_prob + wanted).mean()
        temperature_loss = -params["log_temperature"] * surplus  # Eq. (T18)

        total = policy_loss + q_loss + value_loss + temperature_loss
        return total, Losses(
            policy_loss=policy_loss,
            q_loss=q_loss,
            value_loss=value_loss,
            entropy=-log_prob.mean(),
        )

    def _gradient_step(
        self,
        learner: "_Learner",
        unravel: Callable[[Array], Params],
        env: Env,
        rows: Rows,
        noise: Array,
    ) -> tuple["_Learner", "Losses"]:
        def loss(flat_params: Array) -> tuple[Float[Array, ""], Losses]:
            return self.loss(unravel(flat_params), learner.target, env, rows, noise)

        gradient, losses = jax.grad(loss, has_aux=True)(learner.params)
        direction, optimiser = self._adam.update(gradient, learner.optimiser)
        params = learner.params - self.learning_rate * direction

        # psi-bar <- tau psi + (1 - tau) psi-bar: Algorithm 1
        fast = self._slow(unravel(params))
        target = jax.tree.map(
            lambda old, new: old + self.target_rate * (new - old), learner.target, fast
        )
        return _Learner(params=params, target=target, optimiser=optimiser), losses

    def _next_value(
        self, fixed: Params, target: Params, env: Env, rows: Rows, noise: Array
    ) -> Float[Array, " row"]:
        if self.critic == "state-value":
            return self._value(target["value"], rows.next_observation)

        moments = self._policy(fixed["policy"], env, rows.next_observation)
        action, log_prob = self._squashed_sample(noise[1], moments)
        q1, q2 = (
            self._action_value(target[name], rows.next_observation, action)
            for name in ("q1", "q2")
        )

        temperature = jnp.exp(fixed["log_temperature"])
        return jnp.minimum(q1, q2) - temperature * log_prob  # Eq. (3)

    def _squashed_sample(
        self, noise: Array, moments: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Returns actions in [-1, 1] and their log density, as published with the published critic."""
        return squashed_sample(noise, *moments, exact=self.critic == "twin-q")

    def _slow(self, params: Params) -> Params:
        """Returns the parameters that have a slow copy."""
        return {
            name: params[name]
            for name in (("value",) if self.critic == "state-value" else ("q1", "q2"))
        }

    def _explorer(
        self, policy: Params, env: Env, steps: Array
    ) -> Callable[[Array, Array], tuple[Array, Array]]:
        """Returns the rollout's `act`: uniform actions at first, then the policy's; the extras are the action in [-1, 1]."""

        def act(key: Array, observation: Array) -> tuple[Array, Array]:
            key_uniform, key_policy = jax.random.split(key)
            uniform = jax.random.uniform(
                key_uniform, (len(env.action_lower),), minval=-1.0
            )
            action = jnp.where(
                steps < self.learning_starts,
                uniform,
                self._draw(policy, env, key_policy, observation),
            )
            return _to_box(env, action), action

        return act

    def _draw(self, policy: Params, env: Env, key: Array, observation: Array) -> Array:
        mean, log_std = self._policy(policy, env, observation)
        noise = jax.random.normal(key, mean.shape)
        action, _ = squashed_sample(noise, mean, log_std)
        return action

    def _rows(self, transitions: Transitions) -> Rows:
        ended: Bool[Array, " env"] = transitions.terminated
        if not self.bootstrap_time_limit:
            ended = ended | transitions.truncated
        return Rows(
            observation=transitions.observation,
            action=transitions.extras,
            reward=transitions.reward,
            next_observation=transitions.next_observation,
            goes_on=(~ended).astype(transitions.reward.dtype),
        )

    def _unpacked(self, env: Env, rows: Float[Array, "row column"]) -> Rows:
        unpacked: Rows = packed(_blank(env))[1](rows)
        return unpacked

    @property
    def _adam(self) -> optax.GradientTransformation:
        return adam(1e-8, self.adam_epsilon)

    def _policy_network(self, env: Env) -> SquashedPolicy:
        return SquashedPolicy(self.hidden, len(env.action_lower))

    def _policy(
        self, params: Params, env: Env, observation: Array
    ) -> tuple[Array, Array]:
        output: PyTree = self._policy_network(env).apply(params, observation)
        return output

    def _action_value(self, params: Params, observation: Array, action: Array) -> Array:
        output: PyTree = ActionValue(self.hidden).apply(params, observation, action)
        return output

    def _value(self, params: Params, observation: Array) -> Array:
        output: PyTree = Value(self.hidden, None).apply(params, observation)
        return output


@struct.dataclass
class SACState:
    """Networks, their slow copies, optimiser moments and the replay buffer."""

    params: Params  # {"policy": ..., "q1": ..., "q2": ..., "value": ..., "log_temperature": ...}
    target: Params  # {"value": ...}, or {"q1": ..., "q2": ...}
    optimiser: PyTree  # Adam's moments of all parameters as one vector
    replay: Replay


@struct.dataclass
class _Learner:
    """What a gradient step changes."""

    params: Float[Array, " n"]
    target: Params
    optimiser: PyTree


@struct.dataclass
class Losses:
    """Diagnostics of one gradient step."""

    policy_loss: Float[Array, "*update"]
    q_loss: Float[Array, "*update"]  # of both networks
    value_loss: Float[Array, "*update"]  # 0 for the twin-q critic
    entropy: Float[Array, "*update"]  # nats, of the squashed policy


@struct.dataclass
class SACMetrics:
    """Of one iteration; means over its gradient steps, 0 where there were none."""

    policy_loss: Float[Array, ""]
    q_loss: Float[Array, ""]
    value_loss: Float[Array, ""]
    entropy: Float[Array, ""]  # nats, of the squashed policy
    temperature: Float[Array, ""]
    num_updates: Array
    num_failed: Array  # environment slots that ended non-finite


def _blank(env: Env) -> Rows:
    """Returns one row of zeros, for its shapes."""
    observation, action, number = (
        jnp.zeros((1, env.observation_size)),
        jnp.zeros((1, len(env.action_lower))),
        jnp.zeros(1),
    )
    return Rows(
        observation=observation,
        action=action,
        reward=number,
        next_observation=observation,
        goes_on=number,
    )


def _to_box(
    env: Env, action: Float[Array, "*batch action"]
) -> Float[Array, "*batch action"]:
    """Returns an action in [-1, 1] in the env's units."""
    lower, upper = (
        lax.broadcast_to_rank(jnp.asarray(bound), action.ndim)
        for bound in (env.action_lower, env.action_upper)
    )
    return lower + 0.5 * (action + 1) * (upper - lower)
