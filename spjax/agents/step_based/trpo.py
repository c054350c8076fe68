"""Trust region policy optimisation (Schulman et al., 2015) as the published experiments ran it (Stable Baselines 2.9 `TRPO`).

The natural gradient comes from conjugate gradients on Fisher products of every fifth sample; a backtracking line search
accepts the first step that keeps the mean KL divergence below 1.5 times the limit and does not make the surrogate worse,
and takes no step where none does. The critic is fitted apart, by three epochs of Adam on TD(lambda) returns. Equations and
appendices are those of the article.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from spjax.agents.base import Slots
from spjax.agents.step_based.adam import adam
from spjax.agents.step_based.minibatches import minibatches, packed
from spjax.agents.step_based.networks import Params, gaussian_log_prob
from spjax.agents.step_based.on_policy import (
    Batch,
    OnPolicy,
    OnPolicyState,
    gaussian_entropy,
)
from spjax.catalogue import part
from spjax.envs.base import Env
from spjax.episodes import Episodes
from spjax.settings import setting


@part("agent", "trpo")
@struct.dataclass
class TRPO(OnPolicy):
    """Trust-region policy optimisation."""

    fisher_stride: int = setting(
        5,
        static=True,
        least=1,
        unit="control steps",
        help="Fisher products on every n-th of a slot",
    )
    value_batch: int = setting(
        128,
        static=True,
        least=1,
        unit="rows",
        help="of the critic; a last partial batch is dropped",
    )
    value_epochs: int = setting(
        3, static=True, least=1, help="of the critic in an iteration"
    )
    max_kl: float = setting(
        0.01, least=0, unit="nats", help="an iteration, mean over the batch"
    )
    kl_tolerance: float = setting(
        1.5,
        least=1,
        infinite=True,
        help="multiple of max_kl that the line search accepts",
    )
    cg_iterations: int = setting(10, least=1, help="of conjugate gradients")
    cg_damping: float = setting(
        0.01, least=0, help="added to the Fisher matrix's diagonal"
    )
    line_search_steps: int = setting(
        10, least=1, unit="halvings", help="of a step that is too long"
    )
    value_learning_rate: float = setting(3e-4, least=0, help="of the critic")

    def check(self) -> None:
        """Checks concrete settings.

        Raises:
            ValueError: a value out of its range, or a critic batch larger than an iteration.
        """
        super().check()
        if self.value_batch > self.steps_per_iteration:
            raise ValueError(
                f"agent.value_batch must be at most num_envs * num_steps = {self.steps_per_iteration}, "
                f"got {self.value_batch}"
            )

    def init(self, key: Array, env: Env) -> "TRPOState":
        """Returns fresh networks and the critic's optimiser."""
        params = self.init_params(key, env)
        return TRPOState(
            params=params,
            normalizer=self.init_normalizer(env),
            optimiser=_ADAM.init(ravel_pytree(params["value"])[0]),
        )

    def iterate(
        self, state: "TRPOState", world: Slots, key: Array
    ) -> tuple["TRPOState", Slots, Episodes, "TRPOMetrics"]:
        """Runs one iteration: num_envs * num_steps environment steps, one policy step, then the critic's epochs."""
        key_rollout, key_value = jax.random.split(key)
        state, world, batch, episodes, num_failed = self.collect(
            state, world, key_rollout
        )
        policy, step = self.step_policy(state.params["policy"], world.env, batch)
        value, optimiser, value_loss = self._fit_critic(state, key_value, batch)
        metrics = TRPOMetrics(
            surrogate=step.surrogate,
            value_loss=value_loss,
            mean_kl=step.kl,
            halvings=step.halvings,
            accepted=step.accepted,
            policy_std=jnp.exp(policy["params"]["log_std"]).mean(),
            num_failed=num_failed,
        )
        params = {"policy": policy, "value": value}
        state = dataclasses.replace(state, params=params, optimiser=optimiser)
        return state, world, episodes, metrics

    def step_policy(
        self, params: Params, env: Env, batch: Batch
    ) -> tuple[Params, "PolicyStep"]:
        """Returns the policy after one trust-region step, exactly the old one where no step is accepted."""
        start, unravel = ravel_pytree(params)
        old = self.policy(params, env, batch.observation)

        centred = batch.advantage - batch.advantage.mean()
        std = batch.advantage.std()
        advantage = centred / jnp.where(std > 0, std, 1.0)

        def surrogate_and_kl(flat_params: Array) -> tuple[Array, Array]:
            mean, log_std = self.policy(unravel(flat_params), env, batch.observation)
            log_ratio = gaussian_log_prob(mean, log_std, batch.action) - batch.log_prob
            ratio = jnp.exp(log_ratio)

            # Eq. (14): the objective and its constraint
            surrogate = (
                ratio * advantage
            ).mean() + self.entropy_coefficient * gaussian_entropy(log_std)
            return surrogate, gaussian_kl(*old, mean, log_std).mean()

        # the surrogate's gradient alone
        (before, _), pullback = jax.vjp(surrogate_and_kl, start)
        (gradient,) = pullback((jnp.ones_like(before), jnp.zeros_like(before)))

        # s with F s = g: appendix C
        fisher = self._fisher_product(
            start, unravel, env, batch.observation[self.fisher_rows()]
        )
        direction = conjugate_gradient(fisher, gradient, self.cg_iterations)

        # beta = sqrt(2 delta / s' F s), at which the quadratic model of the KL divergence is delta: appendix C
        curvature = direction @ fisher(direction)
        usable = (curvature > 0) & jnp.isfinite(curvature)
        length = jnp.sqrt(2 * self.max_kl / jnp.where(usable, curvature, 1.0))
        full_step = jnp.where(usable, length, 0.0) * direction

        def searching(carry: tuple[Array, PolicyStep]) -> Bool[Array, ""]:
            _, step = carry
            return (
                usable & ~step.accepted & (step.halvings < self.line_search_steps - 1)
            )

        def shorten(carry: tuple[Array, PolicyStep]) -> tuple[Array, PolicyStep]:
            _, step = carry
            halvings = step.halvings + 1
            candidate = start + 0.5 ** halvings.astype(start.dtype) * full_step
            surrogate, kl = surrogate_and_kl(candidate)

            accepted = (kl <= self.kl_tolerance * self.max_kl) & (surrogate >= before)
            return candidate, PolicyStep(
                accepted=accepted,
                halvings=halvings,
                surrogate=surrogate - before,
                kl=kl,
            )

        zero = jnp.zeros_like(before)
        first = PolicyStep(
            accepted=jnp.asarray(False),
            halvings=jnp.asarray(-1, jnp.int32),
            surrogate=zero,
            kl=zero,
        )
        candidate, step = jax.lax.while_loop(searching, shorten, (start, first))

        step = jax.tree.map(
            lambda taken, none: jnp.where(step.accepted, taken, none), step, first
        )
        return unravel(jnp.where(step.accepted, candidate, start)), step

    def fisher_rows(self) -> Int[np.ndarray, " row"]:
        """Returns the rows of the flat batch [T * B] for Fisher products: every n-th step of each slot, the slots in turn.

        Every n-th row would be the same few slots all the time where n divides B.
        """
        time, slot = np.divmod(np.arange(self.steps_per_iteration), self.num_envs)
        return np.flatnonzero((slot - time) % self.fisher_stride == 0)

    def _fisher_product(
        self,
        start: Array,
        unravel: Callable[[Array], PyTree],
        env: Env,
        observation: Float[Array, "row observation"],
    ) -> Callable[[Array], Array]:
        """Returns v -> (F + damping) v; the Fisher matrix is J' M J with the Gaussian's metric M (appendix C.1).

        At the old policy the gradient of the KL divergence is zero, so this is its exact Hessian, for one forward and one
        backward pass of the linearised network instead of a derivative of a derivative.
        """
        (_, log_std), push = jax.linearize(
            lambda flat: self.policy(unravel(flat), env, observation), start
        )
        pull = jax.linear_transpose(push, start)

        def product(vector: Array) -> Array:
            mean_part, log_std_part = push(vector)  # J v

            # M: of a mean 1 / sigma^2, of a log sigma 2
            mean_metric = mean_part * jnp.exp(-2 * log_std)[None] / observation.shape[0]
            (out,) = pull((mean_metric, 2 * log_std_part))
            return out + self.cg_damping * vector

        return product

    def _fit_critic(
        self, state: "TRPOState", key: Array, batch: Batch
    ) -> tuple[Params, PyTree, Float[Array, ""]]:
        """Returns the critic, its optimiser and the mean squared error of its last epoch."""
        rows, unpack = packed((batch.observation, batch.target))
        params, unravel = ravel_pytree(state.params["value"])

        def loss(params: Array, part: Array) -> Float[Array, ""]:
            observation, target = unpack(part)
            return ((self.critic(unravel(params), observation) - target) ** 2).mean()

        def minibatch_step(
            carry: tuple[Array, PyTree], part: Array
        ) -> tuple[tuple[Array, PyTree], Array]:
            params, optimiser = carry
            error, gradient = jax.value_and_grad(loss)(params, part)
            direction, optimiser = _ADAM.update(gradient, optimiser)
            params = params - self.value_learning_rate * direction
            return (params, optimiser), error

        def epoch(
            carry: tuple[Array, PyTree], epoch_key: Array
        ) -> tuple[tuple[Array, PyTree], Array]:
            return jax.lax.scan(
                minibatch_step, carry, minibatches(epoch_key, rows, self.value_batch)
            )

        keys = jax.random.split(key, self.value_epochs)
        (params, optimiser), errors = jax.lax.scan(
            epoch, (params, state.optimiser), keys
        )
        return unravel(params), optimiser, errors[-1:].mean()


@struct.dataclass
class TRPOState(OnPolicyState):
    """Networks, statistics, and the moments of the critic's optimiser."""

    optimiser: PyTree


@struct.dataclass
class PolicyStep:
    """How the line search ended."""

    accepted: Bool[Array, ""]
    halvings: Int[Array, ""]  # of the accepted step, -1 where none was
    surrogate: Float[Array, ""]  # improvement, standardised advantages
    kl: Float[Array, ""]  # nats, old to new policy, mean over the batch


@struct.dataclass
class TRPOMetrics:
    """Of one iteration."""

    surrogate: Float[
        Array, ""
    ]  # improvement of the accepted step, standardised advantages
    value_loss: Float[Array, ""]  # mean squared error
    mean_kl: Float[Array, ""]  # nats, old to new policy
    halvings: Int[Array, ""]  # of the line search, -1 where no step was accepted
    accepted: Bool[Array, ""]
    policy_std: Float[Array, ""]  # raw action units, mean over action dimensions
    num_failed: Array  # environment slots that ended non-finite


def gaussian_kl(
    old_mean: Float[Array, "*batch action"],
    old_log_std: Float[Array, " action"],
    mean: Float[Array, "*batch action"],
    log_std: Float[Array, " action"],
) -> Float[Array, "*batch"]:
    """Returns KL(old || new) of diagonal Gaussians in nats."""
    log_ratio = old_log_std - log_std
    shift = (old_mean - mean) * lax.broadcast_to_rank(jnp.exp(-log_std), mean.ndim)

    # r^2 - 1 - log r^2, r the ratio of the standard deviations, without cancellation near r = 1
    spread = jnp.expm1(2 * log_ratio) - 2 * log_ratio
    spread = lax.broadcast_to_rank(spread, mean.ndim)
    return (0.5 * spread + 0.5 * shift**2).sum(-1)


CGCarry = tuple[
    Array, Array, Array, Array, Array
]  # count, x, residual, direction, squared residual


def conjugate_gradient(
    product: Callable[[Array], Array],
    target: Float[Array, " n"],
    iterations: int | Int[Array, ""],
    tol: float = 1e-10,
) -> Float[Array, " n"]:
    """Returns x with product(x) = target, to a squared residual of `tol` or as far as the iterations reach."""

    def running(carry: CGCarry) -> Bool[Array, ""]:
        count, _, _, _, squared = carry
        return (count < iterations) & (squared > tol)

    def step(carry: CGCarry) -> CGCarry:
        count, x, residual, direction, squared = carry
        image = product(direction)
        length = squared / (direction @ image)

        x = x + length * direction
        residual = residual - length * image

        after = residual @ residual
        direction = residual + after / squared * direction
        return count + 1, x, residual, direction, after

    start = (
        jnp.zeros((), jnp.int32),
        jnp.zeros_like(target),
        target,
        target,
        target @ target,
    )
    return jax.lax.while_loop(running, step, start)[1]


_ADAM = adam(1e-8)
