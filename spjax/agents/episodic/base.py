"""What the episodic learners share: rollouts, the buffer of samples, and the frame of an update.

Rollouts are drawn by the current policy; the batch joins a buffer of the last iterations, whose samples all count as drawn from
the current distributions. Two deviations from the released code: where all rewards in the buffer are equal they say nothing,
and the policy (with alpha = 0 the contexts too) stays as it is instead of being refitted to noise; where a reward is not finite
or a fit fails, the old distributions are kept.
"""

import abc
import dataclasses
from typing import Literal, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.agents.base import Episodic, Rollouts
from spjax.agents.episodic.buffer import Batch, flatten, store
from spjax.agents.episodic.dual import Minimiser, Weights, reward_spread
from spjax.agents.episodic.features import Features, Polynomial
from spjax.agents.episodic.fit import Fit
from spjax.agents.episodic.policy import LinearGaussian, sample_inside
from spjax.agents.formula import Formula
from spjax.contexts import ContextDistribution, ContextSpace, Gaussian
from spjax.envs.episodic import EpisodicTask
from spjax.episodes import ContextFit, Episodes
from spjax.self_paced.joint import JointProblem
from spjax.settings import setting
from spjax.solvers.augmented_lagrangian import Result
from spjax.solvers.precision import in_float64

TARGET_BATCHES = 10  # of contexts, whose mean features C-REPS aims at

Tree = TypeVar("Tree")


@struct.dataclass
class State:
    """What a learner carries from iteration to iteration."""

    policy: LinearGaussian
    buffer: Batch
    mean_features: Float[Array, " F"]  # of the value function, over the target contexts
    minimiser: Minimiser  # of the last dual
    iteration: Int[Array, ""]  # iterations completed


@struct.dataclass
class Metrics:
    """Of one iteration."""

    kl: Float[
        Array, ""
    ]  # KL(old || new) of what was taken from the fit, nats; 0 where nothing was
    eta: Float[
        Array, ""
    ]  # multiplier of the fit; infinite where nothing was taken from it
    effective_sample_size: Float[Array, ""]  # of the policy weights
    entropy: Float[Array, ""]  # of the new policy, nats
    dual_trips: Int[Array, ""]
    dual_result: Int[Array, ""]  # a `Result`
    moved: Bool[
        Array, ""
    ]  # whether the policy is the fit's; not where all rewards are equal or one is not finite


@struct.dataclass
class Data:
    """What an update works on, in its precision."""

    policy: LinearGaussian
    mean_features: Float[Array, " F"]
    minimiser: Minimiser
    samples: Batch
    max_kl: Float[Array, ""]  # of the dual
    fit_max_kl: Float[Array, ""]
    ridge: Float[Array, ""]  # 1 / reward unit
    contexts: "ContextData | None"  # where they are fitted together with the policy


@struct.dataclass
class ContextData:
    """What a joint fit knows of the contexts, in its precision."""

    old: Gaussian  # p(c | nu)
    target: Gaussian  # mu
    alpha: Float[Array, ""]
    std_floor: Float[Array, " dim"]  # of the new contexts, context units; 0 for none


@struct.dataclass
class EpisodicLearner(Episodic):
    """What both share. Traced settings first; static ones are shapes and choices."""

    max_kl: float = setting(0.25, above=0, unit="nats", help="epsilon of the dual")
    fit_max_kl: float | None = setting(
        None, above=0, unit="nats", help="epsilon of the fit; None for that of the dual"
    )
    ridge: float = setting(
        1e-5,
        above=0,
        unit="1 / ridge_unit",
        help="on the weights of the value function",
    )
    value_features: Features = setting(
        Polynomial(2), static=True, help="that the value function is linear in"
    )
    policy_features: Features = setting(
        Polynomial(1), static=True, help="that the policy is linear in"
    )
    num_samples: int = setting(
        100, static=True, least=1, unit="rollouts", help="of an iteration"
    )
    buffer_size: int = setting(
        10,
        static=True,
        least=1,
        unit="iterations",
        help="whose rollouts an update sees",
    )
    ridge_unit: Literal["reward", "spread"] = setting(
        "spread", static=True, help="of the ridge; published: reward"
    )
    precision: Literal["float64", "float32"] = setting(
        "float64", static=True, help="of the update"
    )

    def check_contexts(self, space: ContextSpace) -> None:
        """Checks that all features are for contexts of this space.

        Raises:
            ValueError: a grid of other dimensions.
        """
        self.value_features.check(space, "agent.value_features")
        self.policy_features.check(space, "agent.policy_features")

    def num_rollouts(self, task: EpisodicTask) -> int:
        """Returns the number of rollouts an iteration."""
        return self.num_samples

    def environment_steps_before(self, state: State) -> Int[Array, ""]:
        """Returns how many control steps filled the buffer of a new state."""
        return state.buffer.lengths.sum()

    def init(
        self,
        key: Array,
        task: EpisodicTask,
        initial: ContextDistribution,
        target: ContextDistribution,
    ) -> State:
        """Returns the state before the first iteration: the buffer but for one batch is filled by the initial policy."""
        key_target, key_contexts, key_rollouts = jax.random.split(key, 3)
        space = task.context_space
        start = initial if self.fits_contexts else target
        features = self.policy_features(jnp.zeros((1, space.size)))
        policy = LinearGaussian.around_zero(task.parameter_std, features.shape[1])
        target_contexts = target.sample_many(
            key_target, space, TARGET_BATCHES * self.num_samples
        )
        contexts = start.sample_many(
            key_contexts, space, (self.buffer_size - 1) * self.num_samples
        )
        filled = self._rollouts(policy, task, key_rollouts, contexts)
        mean_features = self.value_features(target_contexts).mean(axis=0)
        return State(
            policy=policy,
            buffer=jax.tree.map(self._first_buffer, filled),
            mean_features=mean_features,
            minimiser=Minimiser(
                jnp.zeros_like(mean_features), jnp.ones(self._num_temperatures)
            ),
            iteration=jnp.zeros((), jnp.int32),
        )

    def iterate(
        self, state: State, world: Rollouts, key: Array
    ) -> tuple[State, Rollouts, Episodes, Metrics]:
        """Runs the rollouts of one iteration and learns from them."""
        key_contexts, key_rollouts = jax.random.split(key)
        contexts, tickets = world.batch(key_contexts, self.num_samples)
        batch = self.collect(state, world.task, key_rollouts, contexts)
        state, metrics, fit = self.learn(state, batch, world.joint)
        episodes = whole_episodes(
            contexts, batch.rewards, batch.successes, batch.lengths, tickets
        )
        return state, world, dataclasses.replace(episodes, fit=fit), metrics

    def sample_parameters(
        self,
        state: State,
        task: EpisodicTask,
        key: Array,
        contexts: Float[Array, "M dim"],
    ) -> Float[Array, "M parameter"]:
        """Returns a draw of the policy in each context, inside the bounds."""
        return self._sample_parameters(state.policy, task, key, contexts)

    def mean_parameters(
        self, state: State, task: EpisodicTask, contexts: Float[Array, "M dim"]
    ) -> Float[Array, "M parameter"]:
        """Returns the mean of the policy in each context, clipped to the bounds."""
        means = state.policy.mean(self.policy_features(contexts))
        lower, upper = (
            jnp.asarray(bound, means.dtype)[None]
            for bound in (task.parameter_lower, task.parameter_upper)
        )
        return jnp.clip(means, lower, upper)

    def formula(self, state: State, task: EpisodicTask) -> Formula:
        """Returns the mean of the policy, which is linear in its features."""
        gain = np.asarray(state.policy.gain)
        return Formula(
            layers=((gain.T, np.zeros(len(gain), gain.dtype)),),
            lower=np.asarray(task.parameter_lower, gain.dtype),
            upper=np.asarray(task.parameter_upper, gain.dtype),
            features=self.policy_features.arrays(task.context_space.size),
        )

    def collect(
        self,
        state: State,
        task: EpisodicTask,
        key: Array,
        contexts: Float[Array, "M dim"],
    ) -> Batch:
        """Returns one rollout of the current policy in each context; for `learn` there must be num_samples of them."""
        return self._rollouts(state.policy, task, key, contexts)

    def learn(
        self, state: State, batch: Batch, joint: JointProblem | None = None
    ) -> tuple[State, Metrics, ContextFit | None]:
        """Returns the state after the new rollouts are learned from, its metrics, and the contexts fitted with the policy."""
        state = dataclasses.replace(
            state, buffer=store(state.buffer, batch, state.iteration)
        )
        samples = flatten(state.buffer)
        aim = (
            joint.aim(samples.contexts, samples.rewards, batch.rewards)
            if joint and self.fits_contexts
            else None
        )
        ridge = self.ridge / (
            reward_spread(samples.rewards) if self.ridge_unit == "spread" else 1.0
        )
        data = Data(
            policy=state.policy,
            mean_features=state.mean_features,
            minimiser=state.minimiser,
            samples=samples,
            max_kl=jnp.asarray(self.max_kl),
            fit_max_kl=jnp.asarray(
                self.max_kl if self.fit_max_kl is None else self.fit_max_kl
            ),
            ridge=jnp.asarray(ridge),
            contexts=ContextData(joint.old, joint.target, aim.alpha, aim.std_floor)
            if joint and aim
            else None,
        )
        update = (
            in_float64(self._update_function)
            if self.precision == "float64"
            else self._update_function
        )
        policy, contexts, weights, record = update(data)

        # what is worth taking: equal rewards say nothing of the policy, and of contexts only that the target is better
        finite = weights.result != Result.NOT_FINITE
        informative = samples.rewards.max() > samples.rewards.min()
        takes_policy = finite & informative
        taken = takes_policy[None]
        policy = select(takes_policy, policy, state.policy)
        fitted = None
        if joint is not None and aim is not None:
            takes_contexts = finite & (informative | (aim.alpha > 0))
            taken = jnp.stack([takes_policy, takes_contexts])
            contexts = select(takes_contexts, contexts, joint.old)
            fitted = ContextFit(contexts, aim.alpha, aim.kl_to_target, aim.memory)

        kl = jnp.where(
            taken.all(), record.kl, jnp.where(taken, record.parts, 0.0).sum()
        )
        metrics = Metrics(
            kl=kl,
            eta=jnp.where(taken.any(), record.eta, jnp.inf),
            effective_sample_size=1 / (weights.policy**2).sum(),
            entropy=policy.entropy,
            dual_trips=weights.trips,
            dual_result=weights.result,
            moved=takes_policy & record.moved,
        )
        learned = dataclasses.replace(
            state,
            policy=policy,
            minimiser=weights.minimiser,
            iteration=state.iteration + 1,
        )
        return learned, metrics, fitted

    def _first_buffer(self, filled: Array) -> Array:
        """Returns the batches of the buffer; the first, still blank, is the one that the first iteration writes."""
        blank = jnp.zeros(
            (self.buffer_size, self.num_samples, *filled.shape[1:]), filled.dtype
        )
        return blank.at[1:].set(filled.reshape(-1, *blank.shape[1:]))

    def _rollouts(
        self,
        policy: LinearGaussian,
        task: EpisodicTask,
        key: Array,
        contexts: Float[Array, "M dim"],
    ) -> Batch:
        key_theta, key_task = jax.random.split(key)
        thetas = self._sample_parameters(policy, task, key_theta, contexts)
        outcome = jax.vmap(task.rollout)(
            jax.random.split(key_task, len(contexts)), thetas, contexts
        )
        features = self.value_features(contexts)
        return Batch(
            contexts, thetas, features, outcome.reward, outcome.success, outcome.length
        )

    def _sample_parameters(
        self,
        policy: LinearGaussian,
        task: EpisodicTask,
        key: Array,
        contexts: Float[Array, "M dim"],
    ) -> Float[Array, "M parameter"]:
        means = policy.mean(self.policy_features(contexts))
        return sample_inside(
            key, means, policy.chol, task.parameter_lower, task.parameter_upper
        )

    def _update_function(
        self, data: Data
    ) -> tuple[LinearGaussian, Gaussian | None, Weights, Fit]:
        """Returns new policy and contexts, in the dtype of the state, from data in any dtype."""
        dtype = data.policy.chol.dtype
        outputs = self._update(
            _cast(data, jnp.float64 if self.precision == "float64" else dtype)
        )
        return _cast(outputs, dtype)

    @property
    @abc.abstractmethod
    def _num_temperatures(self) -> int: ...

    @abc.abstractmethod
    def _update(
        self, data: Data
    ) -> tuple[LinearGaussian, Gaussian | None, Weights, Fit]:
        """Returns new policy and contexts, None where they are not fitted, by static settings and data alone."""


def whole_episodes(
    contexts: Float[Array, "M dim"],
    rewards: Float[Array, " M"],
    successes: Bool[Array, " M"],
    lengths: Int[Array, " M"],
    tickets: PyTree,
) -> Episodes:
    """Returns rollouts as episodes; a rollout has one reward, whatever is discounted in it."""
    count = len(rewards)
    return Episodes(
        mask=jnp.ones(count, bool),
        context=contexts,
        first_observation=jnp.zeros((count, 0)),
        episode_return=rewards,
        discounted_return=rewards,
        length=lengths,
        success=successes,
        ticket=tickets,
    )


def select(condition: Bool[Array, ""], new: Tree, old: Tree) -> Tree:
    """Returns one of two pytrees, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _cast(tree: Tree, dtype: DTypeLike) -> Tree:
    return jax.tree.map(
        lambda leaf: (
            leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
        ),
        tree,
    )
