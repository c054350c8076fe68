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
from flax import struct
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from spjax.agents.episodic.buffer import Batch, flatten, store
from spjax.agents.episodic.dual import Minimiser, Weights, reward_spread
from spjax.agents.episodic.features import Features, Polynomial, RadialBasis
from spjax.agents.episodic.fit import Fit
from spjax.agents.episodic.policy import LinearGaussian, sample_inside
from spjax.checks import check_at_least
from spjax.contexts import ContextSpace, Gaussian
from spjax.envs.episodic import EpisodicTask
from spjax.solvers.augmented_lagrangian import Result
from spjax.solvers.precision import in_float64

TARGET_BATCHES = 10  # of contexts, whose mean features C-REPS aims at

Tree = TypeVar("Tree")


@struct.dataclass
class State:
    """What a learner carries from iteration to iteration."""

    policy: LinearGaussian
    contexts: Gaussian  # p(c | nu); of C-REPS the target
    target: Gaussian  # mu
    buffer: Batch
    mean_features: Float[Array, " F"]  # of the value function, over the target contexts
    minimiser: Minimiser  # of the last dual
    iteration: Int[Array, ""]  # iterations completed


@struct.dataclass
class Metrics:
    """Of one iteration."""

    reward: Float[Array, ""]  # mean over the new rollouts
    success_rate: Float[Array, ""]
    environment_steps: Int[Array, ""]
    curriculum: "CurriculumMetrics | None"  # of a learner that moves its contexts
    kl: Float[Array, ""]  # KL(old || new) of what was taken from the fit, nats; 0 where nothing was
    eta: Float[Array, ""]  # multiplier of the fit; infinite where nothing was taken from it
    effective_sample_size: Float[Array, ""]  # of the policy weights
    entropy: Float[Array, ""]  # of the new policy, nats
    dual_trips: Int[Array, ""]
    dual_result: Int[Array, ""]  # a `Result`
    moved: Bool[Array, ""]  # whether the policy is the fit's; not where all rewards are equal or one is not finite


@struct.dataclass
class CurriculumMetrics:
    """Of one iteration of a learner that moves its context distribution."""

    alpha: Float[Array, ""]
    kl_to_target: Float[Array, ""]  # KL(p || mu) as alpha's rule takes it, nats
    mean: Float[Array, " dim"]  # of the new distribution, context units
    covariance: Float[Array, "dim dim"]


@struct.dataclass
class Data:
    """What an update works on, in its precision."""

    policy: LinearGaussian
    contexts: Gaussian
    mean_features: Float[Array, " F"]
    minimiser: Minimiser
    samples: Batch
    target: Gaussian
    alpha: Float[Array, ""]
    std_floor: Float[Array, " dim"]  # of the new contexts, context units; 0 for none
    max_kl: Float[Array, ""]  # of the dual
    fit_max_kl: Float[Array, ""]
    ridge: Float[Array, ""]  # 1 / reward unit


@struct.dataclass
class EpisodicLearner(abc.ABC):
    """What both share. Traced settings first; static ones are shapes and choices."""

    max_kl: float = 0.25  # epsilon of the dual, nats
    fit_max_kl: float | None = None  # epsilon of the fit, nats; None for the same
    ridge: float = 1e-5  # of the value function's weights, 1 / `ridge_unit`
    value_features: Features = struct.field(pytree_node=False, default=Polynomial(2))
    policy_features: Features = struct.field(pytree_node=False, default=Polynomial(1))
    num_samples: int = struct.field(pytree_node=False, default=100)  # rollouts an iteration
    buffer_size: int = struct.field(pytree_node=False, default=10)  # iterations
    ridge_unit: Literal["reward", "spread"] = struct.field(pytree_node=False, default="spread")  # as published "reward"
    precision: Literal["float64", "float32"] = struct.field(pytree_node=False, default="float64")  # of the update

    def check(self) -> None:
        """Checks the settings, outside jit.

        Raises:
            ValueError: one sentence that names the value and what would be right.
        """
        check_at_least("agent", self, 1, "num_samples", "buffer_size")
        for field in ("max_kl", "fit_max_kl", "ridge"):
            value = getattr(self, field)
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"agent.{field} must be positive and finite, got {value}")

    def check_contexts(self, space: ContextSpace) -> None:
        """Checks that all features are for contexts of this space.

        Raises:
            ValueError: a grid of other dimensions.
        """
        for field in dataclasses.fields(self):
            features = getattr(self, field.name)
            if isinstance(features, RadialBasis) and len(features.counts) != space.size:
                grid = f"a grid of {len(features.counts)} dimensions"
                raise ValueError(f"agent.{field.name} has {grid}, contexts of this task have {space.size}")

    def num_rollouts(self, task: EpisodicTask) -> int:
        """Returns the number of rollouts an iteration."""
        return self.num_samples

    def environment_steps_before(self, state: State) -> Int[Array, ""]:
        """Returns how many control steps filled the buffer of a new state."""
        return state.buffer.lengths.sum()

    def init(
        self, key: Array, task: EpisodicTask, initial: Gaussian | None = None, target: Gaussian | None = None
    ) -> State:
        """Returns the state before the first iteration: the buffer but for one batch is filled by the initial policy.

        Args:
            key: for the rollouts.
            task: what to learn.
            initial: context distribution to start from; None for the task's.
            target: context distribution to end at; None for the task's.
        """
        key_target, key_contexts, key_rollouts = jax.random.split(key, 3)
        target = task.target if target is None else target
        start = self._start(task.initial if initial is None else initial, target)
        features = self.policy_features(start.mean[None])
        policy = LinearGaussian.around_zero(task.parameter_std, features.shape[1])
        target_contexts = draw_contexts(key_target, target, task, TARGET_BATCHES * self.num_samples)
        contexts = draw_contexts(key_contexts, start, task, (self.buffer_size - 1) * self.num_samples)
        filled = self._rollouts(policy, task, key_rollouts, contexts)
        mean_features = self.value_features(target_contexts).mean(axis=0)
        return State(
            policy=policy,
            contexts=start,
            target=target,
            buffer=jax.tree.map(self._first_buffer, filled),
            mean_features=mean_features,
            minimiser=Minimiser(jnp.zeros_like(mean_features), jnp.ones(self._num_temperatures)),
            iteration=jnp.zeros((), jnp.int32),
        )

    def iterate(self, state: State, task: EpisodicTask, key: Array) -> tuple[State, Metrics]:
        """Returns the state one iteration later."""
        key_contexts, key_rollouts = jax.random.split(key)
        contexts = self.sample_contexts(state, task, key_contexts, self.num_samples)
        return self.learn(state, task, self.collect(state, task, key_rollouts, contexts))

    def sample_contexts(self, state: State, task: EpisodicTask, key: Array, count: int) -> Float[Array, "count dim"]:
        """Returns contexts of the current distribution, inside the bounds."""
        return draw_contexts(key, state.contexts, task, count)

    def test_contexts(self, target: Gaussian, task: EpisodicTask, key: Array, count: int) -> Float[Array, "count dim"]:
        """Returns contexts to measure the result on: of the target distribution, inside the bounds."""
        return draw_contexts(key, target, task, count)

    def sample_parameters(
        self, state: State, task: EpisodicTask, key: Array, contexts: Float[Array, "M dim"]
    ) -> Float[Array, "M parameter"]:
        """Returns a draw of the policy in each context, inside the bounds."""
        return self._sample_parameters(state.policy, task, key, contexts)

    def collect(self, state: State, task: EpisodicTask, key: Array, contexts: Float[Array, "M dim"]) -> Batch:
        """Returns one rollout of the current policy in each context; for `learn` there must be num_samples of them."""
        return self._rollouts(state.policy, task, key, contexts)

    def learn(self, state: State, task: EpisodicTask, batch: Batch) -> tuple[State, Metrics]:
        """Returns the state after the new rollouts are learned from."""
        state = dataclasses.replace(state, buffer=store(state.buffer, batch, state.iteration))
        samples = flatten(state.buffer)
        alpha, kl_to_target, std_floor = self._schedule(state, samples, batch)
        ridge = self.ridge / (reward_spread(samples.rewards) if self.ridge_unit == "spread" else 1.0)
        data = Data(
            policy=state.policy,
            contexts=state.contexts,
            mean_features=state.mean_features,
            minimiser=state.minimiser,
            samples=samples,
            target=state.target,
            alpha=alpha,
            std_floor=std_floor,
            max_kl=jnp.asarray(self.max_kl),
            fit_max_kl=jnp.asarray(self.max_kl if self.fit_max_kl is None else self.fit_max_kl),
            ridge=jnp.asarray(ridge),
        )
        update = in_float64(self._update_function) if self.precision == "float64" else self._update_function
        policy, contexts, weights, record = update(data)

        # what is worth taking: equal rewards say nothing of the policy, and of contexts only that the target is better
        finite = weights.result != Result.NOT_FINITE
        informative = samples.rewards.max() > samples.rewards.min()
        takes_policy = finite & informative
        takes_contexts = finite & (informative | (alpha > 0))
        policy = select(takes_policy, policy, state.policy)
        contexts = select(takes_contexts, contexts, state.contexts)

        taken = jnp.stack([takes_policy, *[takes_contexts] * (len(record.parts) - 1)])
        kl = jnp.where(taken.all(), record.kl, jnp.where(taken, record.parts, 0.0).sum())
        metrics = Metrics(
            reward=batch.rewards.mean(),
            success_rate=batch.successes.mean(dtype=float),
            environment_steps=batch.lengths.sum(),
            curriculum=self._curriculum(
                CurriculumMetrics(alpha, kl_to_target, contexts.mean, contexts.chol @ contexts.chol.T)
            ),
            kl=kl,
            eta=jnp.where(taken.any(), record.eta, jnp.inf),
            effective_sample_size=1 / (weights.policy**2).sum(),
            entropy=policy.entropy,
            dual_trips=weights.trips,
            dual_result=weights.result,
            moved=takes_policy & record.moved,
        )
        learned = dataclasses.replace(
            state, policy=policy, contexts=contexts, minimiser=weights.minimiser, iteration=state.iteration + 1
        )
        return learned, metrics

    def _first_buffer(self, filled: Array) -> Array:
        """Returns the batches of the buffer; the first, still blank, is the one that the first iteration writes."""
        blank = jnp.zeros((self.buffer_size, self.num_samples, *filled.shape[1:]), filled.dtype)
        return blank.at[1:].set(filled.reshape(-1, *blank.shape[1:]))

    def _rollouts(
        self, policy: LinearGaussian, task: EpisodicTask, key: Array, contexts: Float[Array, "M dim"]
    ) -> Batch:
        key_theta, key_task = jax.random.split(key)
        thetas = self._sample_parameters(policy, task, key_theta, contexts)
        outcome = jax.vmap(task.rollout)(jax.random.split(key_task, len(contexts)), thetas, contexts)
        features = self.value_features(contexts)
        return Batch(contexts, thetas, features, outcome.reward, outcome.success, outcome.length)

    def _sample_parameters(
        self, policy: LinearGaussian, task: EpisodicTask, key: Array, contexts: Float[Array, "M dim"]
    ) -> Float[Array, "M parameter"]:
        means = policy.mean(self.policy_features(contexts))
        return sample_inside(key, means, policy.chol, task.parameter_lower, task.parameter_upper)

    def _update_function(self, data: Data) -> tuple[LinearGaussian, Gaussian, Weights, Fit]:
        """Returns new policy and contexts, in the dtype of the state, from data in any dtype."""
        dtype = data.policy.chol.dtype
        outputs = self._update(_cast(data, jnp.float64 if self.precision == "float64" else dtype))
        return _cast(outputs, dtype)

    @property
    @abc.abstractmethod
    def _num_temperatures(self) -> int: ...

    @abc.abstractmethod
    def _start(self, initial: Gaussian, target: Gaussian) -> Gaussian:
        """Returns the context distribution that training starts with."""

    @abc.abstractmethod
    def _curriculum(self, metrics: CurriculumMetrics) -> CurriculumMetrics | None:
        """Returns what there is to say of the context distribution; None where it does not move."""

    @abc.abstractmethod
    def _schedule(
        self, state: State, samples: Batch, batch: Batch
    ) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, " dim"]]:
        """Returns alpha, KL(p || mu) and the floor of the contexts' standard deviations, from old and new samples."""

    @abc.abstractmethod
    def _update(self, data: Data) -> tuple[LinearGaussian, Gaussian, Weights, Fit]:
        """Returns new policy and contexts, by static settings and data alone."""


def draw_contexts(key: Array, distribution: Gaussian, task: EpisodicTask, count: int) -> Float[Array, "count dim"]:
    """Returns contexts of a distribution inside the bounds: what lies outside is drawn again, in the end clipped."""
    space = task.context_space
    means = jnp.broadcast_to(distribution.mean, (count, space.size))
    return sample_inside(key, means, distribution.chol, space.lower, space.upper)


def select(condition: Bool[Array, ""], new: Tree, old: Tree) -> Tree:
    """Returns one of two pytrees, leaf by leaf."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)


def _cast(tree: Tree, dtype: DTypeLike) -> Tree:
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree)
