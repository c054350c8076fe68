"""CMA-ES on the mean target context: the baseline of Klink et al. (2021), Section 6, by evosax (Hansen, arXiv:1604.00772).

The published results come from pycma 2.7.0 with one initial step size, the largest standard deviation of the policy that the
other learners start with, one rollout a candidate in the mean of the target distribution, and box bounds by `into_bounds`. As
there, nothing but the number of iterations ends a run. Different from there:

    constants               those of the tutorial; c_sigma is 4-12 % and c_mu 9-17 % larger in pycma
    smallest step size      1e-6 of the initial one: in single precision smaller steps get lost in the mean. pycma: none
    largest step size       1e9 times the initial one. pycma makes C larger instead
    reward not finite       the worst; pycma gives a NaN the median

Negative weights ("active" CMA) are used by both. evosax gives candidates of equal reward the weight of their mean rank, whereupon
the weights no longer sum to one and the step size collapses on a plateau; here, as in pycma, they are ranked as they were drawn.
"""

import functools
import importlib.util
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Array, Float, Int, PyTree

from spjax.agents.base import Episodic, Rollouts
from spjax.agents.episodic.base import whole_episodes
from spjax.agents.episodic.bounds import into_bounds
from spjax.agents.formula import Formula
from spjax.catalogue import part
from spjax.contexts import ContextDistribution
from spjax.envs.episodic import EpisodicTask
from spjax.episodes import Episodes
from spjax.promotion import lenient
from spjax.settings import setting

LEAST_STD, LARGEST_STD = 1e-6, 1e9  # initial step sizes
LEAST_POPULATION = 3


@struct.dataclass
class CMAESState:
    """What CMA-ES carries from generation to generation."""

    search: PyTree  # evosax's: mean, step size, covariance and paths, of parameters not yet mapped into the bounds


@struct.dataclass
class CMAESMetrics:
    """Of one generation."""

    best_reward: Float[Array, ""]  # of the population; -inf where none is finite
    std: Float[Array, ""]  # sigma that the population was drawn with, parameter units
    entropy: Float[
        Array, ""
    ]  # of the Gaussian that the population was drawn from, before the bounds, nats


@part("agent", "cma-es")
@struct.dataclass
class CMAES(Episodic):
    """Covariance matrix adaptation evolution strategy; a policy without contexts."""

    initial_std: float = setting(
        0.0,
        least=0,
        unit="parameter units",
        help="sigma_0; 0 for the largest of the task's",
    )
    population_size: int = setting(
        0, static=True, least=0, help="lambda; 0 for 4 + int(3 ln D)"
    )

    def check(self) -> None:
        """Checks the settings, outside jit.

        Raises:
            ValueError: one sentence that names the value and what would be right, or evosax is not installed.
        """
        if self.population_size != 0 and self.population_size < LEAST_POPULATION:
            raise ValueError(
                f"agent.population_size must be 0 or at least {LEAST_POPULATION}, got {self.population_size}"
            )
        if importlib.util.find_spec("evosax") is None:
            raise ValueError("CMA-ES needs evosax: pip install 'spjax[evosax]'")

    def num_rollouts(self, task: EpisodicTask) -> int:
        """Returns the rollouts of one iteration: the population size."""
        return self.population_size or population_size(task.parameter_size)

    def environment_steps_before(self, state: CMAESState) -> Int[Array, ""]:
        """Returns 0: a new state has seen no rollouts."""
        return jnp.zeros((), jnp.int32)

    def init(
        self,
        key: Array,
        task: EpisodicTask,
        initial: ContextDistribution,
        target: ContextDistribution,
    ) -> CMAESState:
        """Returns the state before the first generation: mean 0, covariance sigma_0^2 I."""
        strategy, params = self._strategy(task)
        with lenient():
            search = strategy.init(key, jnp.zeros(task.parameter_size), params)
        return jax.tree.map(_strongly_typed, CMAESState(search))

    def iterate(
        self, state: CMAESState, world: Rollouts, key: Array
    ) -> tuple[CMAESState, Rollouts, Episodes, CMAESMetrics]:
        """Runs one generation."""
        task = world.task
        key_ask, key_contexts, key_task, key_tell = jax.random.split(key, 4)
        strategy, params = self._strategy(task)
        with lenient():
            population, search = strategy.ask(key_ask, state.search, params)

        thetas = into_bounds(population, task.parameter_lower, task.parameter_upper)
        contexts, tickets = world.batch(key_contexts, len(thetas))
        outcome = jax.vmap(task.rollout)(
            jax.random.split(key_task, len(thetas)), thetas, contexts
        )
        cost = jnp.where(jnp.isfinite(outcome.reward), -outcome.reward, jnp.inf)
        with lenient():
            new, _ = strategy.tell(key_tell, population, cost, search, params)

        metrics = CMAESMetrics(
            best_reward=-cost.min(),
            std=search.std,
            entropy=_entropy(search.std * search.D),
        )
        episodes = whole_episodes(
            contexts, outcome.reward, outcome.success, outcome.length, tickets
        )
        return CMAESState(new), world, episodes, metrics

    def sample_parameters(
        self,
        state: CMAESState,
        task: EpisodicTask,
        key: Array,
        contexts: Float[Array, "M dim"],
    ) -> Float[Array, "M D"]:
        """Returns draws of the search distribution, the same in every context, mapped into the bounds."""
        strategy, params = _cma_es(
            max(len(contexts), LEAST_POPULATION), task.parameter_size
        )
        with lenient():
            population, _ = strategy.ask(key, state.search, params)

        return into_bounds(
            population[: len(contexts)], task.parameter_lower, task.parameter_upper
        )

    def mean_parameters(
        self, state: CMAESState, task: EpisodicTask, contexts: Float[Array, "M dim"]
    ) -> Float[Array, "M D"]:
        """Returns the mean of the search distribution, the same in every context, mapped into the bounds."""
        mean = into_bounds(
            state.search.mean, task.parameter_lower, task.parameter_upper
        )
        return jnp.broadcast_to(mean[None], (len(contexts), mean.size))

    def formula(self, state: CMAESState, task: EpisodicTask) -> Formula:
        """Returns the mean of the search distribution, as what does not depend on the context."""
        lower, upper = task.parameter_lower, task.parameter_upper
        mean = np.asarray(into_bounds(state.search.mean, lower, upper))
        nothing = np.zeros((task.context_space.size, mean.size), mean.dtype)
        return Formula(
            layers=((nothing, mean),),
            lower=np.asarray(lower, mean.dtype),
            upper=np.asarray(upper, mean.dtype),
        )

    def _strategy(self, task: EpisodicTask) -> tuple[PyTree, PyTree]:
        """Returns evosax's strategy and its parameters."""
        strategy, params = _cma_es(self.num_rollouts(task), task.parameter_size)
        std = jnp.where(
            self.initial_std == 0, max(task.parameter_std), self.initial_std
        )
        return strategy, params.replace(
            std_init=std, std_min=LEAST_STD * std, std_max=LARGEST_STD * std
        )


def population_size(num_parameters: int) -> int:
    """Returns the default population of a search in that many parameters: 4 + int(3 ln D)."""
    return 4 + int(3 * math.log(num_parameters))


@functools.cache
def _cma_es(population_size: int, num_parameters: int) -> tuple[PyTree, PyTree]:
    """Returns evosax's strategy, always the same object, by which its compiled functions are found again, and its constants."""
    from evosax.algorithms import CMA_ES  # an optional extra

    with jax.ensure_compile_time_eval(), lenient():
        strategy = CMA_ES(
            population_size,
            np.zeros(num_parameters, np.float32),
            fitness_shaping_fn=_weights_in_order,
        )
        return strategy, jax.device_get(
            strategy.default_params
        )  # on the host: it may be traced for other devices next


def _weights_in_order(
    population: Float[Array, "M D"],
    cost: Float[Array, " M"],
    search: PyTree,
    params: PyTree,
) -> Float[Array, " M"]:
    """Returns the weights of the candidates, each rank's once; equal ones rank as they were drawn."""
    return jnp.zeros_like(params.weights).at[jnp.argsort(cost)].set(params.weights)


def _entropy(stds: Float[Array, " D"]) -> Float[Array, ""]:
    """Returns the differential entropy of a Gaussian from the standard deviations along its axes, nats."""
    return jnp.log(stds).sum() + 0.5 * stds.size * jnp.log(2 * jnp.pi * jnp.e)


def _strongly_typed(leaf: Array) -> Array:
    """Returns the array as one that comes out of a generation, so that the second needs no other program than the first."""
    return jax.lax.convert_element_type(leaf, leaf.dtype)
