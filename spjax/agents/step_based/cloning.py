"""The "hold position" initialisation: the policy is cloned to the zero action before reinforcement learning starts.

As in the ball-catching experiments of Klink et al. (2021): episodes of the zero action in contexts of the initial
distribution, then 25 epochs over 70 % of about 2,800 observations, mean squared error of the deterministic action, Adam. The
noise of a Gaussian policy stays as it is. The published code also draws all other networks anew, SAC's slow critic
apart from the fast one; here they stay as initialised. Tasks with longer episodes have fewer of them, but at least 20, so
that whole episodes are seen.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from spjax.agents.step_based.minibatches import minibatches, shuffled
from spjax.agents.step_based.networks import Params
from spjax.agents.step_based.rollout import init_slots, rollout
from spjax.contexts import ContextDistribution
from spjax.envs.base import Env
from spjax.episodes import Attempt
from spjax.promotion import lenient

NUM_OBSERVATIONS = 2800
LEAST_EPISODES = 20
FRACTION = 0.7  # of the observations that is learned from
NUM_EPOCHS = 25
BATCH_SIZE = 64
LEARNING_RATE = 1e-4


def hold_position(
    agent: PyTree,
    agent_state: PyTree,
    env: Env,
    key: Array,
    initial: ContextDistribution | None = None,
) -> PyTree:
    """Returns the agent's state with a policy whose deterministic action is close to zero.

    Args:
        agent: any learner with `deterministic_action` and a state with `params["policy"]`; one that keeps statistics of its
            observations begins them with all of these.
        agent_state: freshly initialised.
        env: the task.
        key: for episodes and minibatches.
        initial: distribution of the contexts, inside the bounds; None for the task's initial one.
    """
    key_data, key_choice, key_epochs = jax.random.split(key, 3)
    rows = resting_observations(env, key_data, initial)
    agent_state = agent.acquainted(agent_state, rows)
    chosen = shuffled(key_choice, rows.shape[0])[: int(FRACTION * rows.shape[0])]
    observations = rows[chosen]
    adam = optax.adam(LEARNING_RATE)

    def cloned(policy: Params) -> PyTree:
        params = {**agent_state.params, "policy": policy}
        return dataclasses.replace(agent_state, params=params)

    def loss(policy: Params, observation: Array) -> Float[Array, ""]:
        action = agent.deterministic_action(cloned(policy), env, observation)
        return (action**2).mean()

    def minibatch_step(
        carry: tuple[Params, PyTree], observation: Array
    ) -> tuple[tuple[Params, PyTree], None]:
        policy, optimiser = carry
        gradient = jax.grad(loss)(policy, observation)
        with lenient():
            updates, optimiser = adam.update(gradient, optimiser)
        return (optax.apply_updates(policy, updates), optimiser), None

    def epoch(
        carry: tuple[Params, PyTree], epoch_key: Array
    ) -> tuple[tuple[Params, PyTree], None]:
        return jax.lax.scan(
            minibatch_step, carry, minibatches(epoch_key, observations, BATCH_SIZE)
        )

    policy = agent_state.params["policy"]
    keys = jax.random.split(key_epochs, NUM_EPOCHS)
    (policy, _), _ = jax.lax.scan(epoch, (policy, adam.init(policy)), keys)
    return cloned(policy)


def resting_observations(
    env: Env, key: Array, initial: ContextDistribution | None = None
) -> Float[Array, "row observation"]:
    """Returns about 2,800 observations of episodes of the zero action, from their first step to their last.

    Args:
        env: the task.
        key: for contexts and episodes.
        initial: distribution of the contexts, inside the bounds; None for the task's initial one.
    """
    key_slots, key_rollout = jax.random.split(key)
    distribution = env.initial if initial is None else initial

    def assign(
        context_key: Array, last: Attempt
    ) -> tuple[Float[Array, " dim"], tuple[()]]:
        return distribution.sample(context_key, env.context_space), ()

    def rest(act_key: Array, observation: Array) -> tuple[Array, tuple[()]]:
        return jnp.zeros(len(env.action_lower)), ()

    num_steps = env.resting_steps
    num_slots = max(LEAST_EPISODES, NUM_OBSERVATIONS // num_steps)
    slots = init_slots(env, key_slots, num_slots, assign, ())
    _, transitions, _, _ = rollout(
        env, key_rollout, slots, rest, assign, num_steps, 1.0
    )
    return transitions.observation.reshape(-1, env.observation_size)
