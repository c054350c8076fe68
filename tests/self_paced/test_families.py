"""A family of a user's own: the chart's abstract methods are all that it writes, the derivatives are automatic."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct

from spjax.contexts import Chart, ContextDistribution, Gaussian, Summary
from spjax.self_paced import update_context
from spjax.solvers.augmented_lagrangian import Result


@struct.dataclass
class Line(ContextDistribution):
    """A Gaussian on the line, by its mean and the logarithm of its standard deviation."""

    mean: jax.Array
    log_std: jax.Array

    @property
    def dim(self):
        return 1

    @property
    def chart(self):
        return LineChart()

    def sample(self, key, space=None):
        return self.mean + jnp.exp(self.log_std) * jax.random.normal(key, (1,))

    def log_prob(self, context):
        return (
            -0.5 * ((context[0] - self.mean[0]) / jnp.exp(self.log_std[0])) ** 2
            - self.log_std[0]
        )

    def summary(self):
        return Summary(self.mean, jnp.diag(jnp.exp(2 * self.log_std)))

    def kl_to(self, other):
        scale, shift = (
            jnp.exp(self.log_std - other.log_std),
            (self.mean - other.mean) * jnp.exp(-other.log_std),
        )
        return (0.5 * (scale**2 + shift**2 - 1) - self.log_std + other.log_std)[0]

    def check(self, space, what):
        space.check(self.mean.tolist(), what)


@struct.dataclass
class LineData:
    old: Line
    target: Line
    contexts: jax.Array


@dataclasses.dataclass(frozen=True)
class LineChart(Chart[Line, LineData]):
    def size(self, old):
        return 2

    def prepare(self, old, target, contexts, mask):
        return LineData(old, target, contexts)

    def at(self, data, z):
        return Line(
            data.old.mean + jnp.exp(data.old.log_std) * z[:1], data.old.log_std + z[1:]
        )

    def coordinates(self, data, new):
        shift = (new.mean - data.old.mean) * jnp.exp(-data.old.log_std)
        return jnp.concatenate([shift, new.log_std - data.old.log_std])

    def log_ratios(self, data, z):
        new = self.at(data, z)
        return jax.vmap(
            lambda context: new.log_prob(context) - data.old.log_prob(context)
        )(data.contexts)

    def kl_from_old(self, data, z, direction):
        new = self.at(data, z)
        return data.old.kl_to(new) if direction == "old-new" else new.kl_to(data.old)

    def kl_to_target_gain(self, data, z):
        return self.at(data, z).kl_to(data.target) - data.old.kl_to(data.target)


def problem():
    rng = np.random.default_rng(4)
    contexts = 2.0 + 1.5 * rng.normal(size=(30, 1))
    return (
        jnp.asarray(contexts),
        jnp.asarray(np.tanh(contexts[:, 0]) + 0.1 * rng.normal(size=30)),
        jnp.ones(30, bool),
    )


def settings_of(rule, values):
    return (
        {"alpha": 0.02}
        if rule == "proportion"
        else {"performance_bound": values.mean() - 0.01, "reached": False}
    )


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["old-new", "new-old"])
@pytest.mark.parametrize("rule", ["proportion", "bound"])
def test_a_foreign_family_moves_as_the_gaussian_that_it_is(rule, direction):
    with jax.enable_x64(True):
        samples = problem()
        settings = settings_of(rule, samples[1]) | {
            "max_kl": 0.05,
            "kl_direction": direction,
        }
        line, update = update_context(
            Line(jnp.array([2.0]), jnp.log(jnp.array([1.5]))),
            Line(jnp.array([-1.0]), jnp.log(jnp.array([0.2]))),
            *samples,
            **settings,
        )
        gaussian, _ = update_context(
            Gaussian.from_std([2.0], [1.5]),
            Gaussian.from_std([-1.0], [0.2]),
            *samples,
            **settings,
        )
    assert update.result == Result.CONVERGED
    np.testing.assert_allclose(line.mean, gaussian.mean, atol=1e-6)
    np.testing.assert_allclose(jnp.exp(line.log_std), gaussian.chol[0], atol=1e-6)


@pytest.mark.slow
def test_derivatives_of_a_foreign_family_are_those_of_the_gaussian():
    with jax.enable_x64(True):
        contexts, values, mask = problem()

        def end(old, target):
            def mean(alpha):
                new, _ = update_context(
                    old, target, contexts, values, mask, max_kl=0.05, alpha=alpha
                )
                return new.summary().mean[0] + new.summary().std[0]

            return jax.grad(mean)(0.02)

        line = end(
            *(
                Line(jnp.array([m]), jnp.log(jnp.array([s])))
                for m, s in ((2.0, 1.5), (-1.0, 0.2))
            )
        )
        gaussian = end(
            *(Gaussian.from_std([m], [s]) for m, s in ((2.0, 1.5), (-1.0, 0.2)))
        )
    assert abs(line) > 1e-3
    np.testing.assert_allclose(line, gaussian, rtol=1e-5)


def test_a_foreign_family_refuses_a_floor():
    line = Line(jnp.array([2.0]), jnp.array([0.0]))
    with pytest.raises(ValueError, match="LineChart has no floors"):
        update_context(
            line,
            line,
            *map(jnp.float32, problem()[:2]),
            problem()[2],
            max_kl=0.05,
            alpha=0.1,
            std_floor=0.1,
        )
