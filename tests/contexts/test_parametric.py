"""Families by automatic derivatives: in one dimension they must give what the Gaussian's hand-written chart gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from jaxtyping import Array, Float

from spjax import settings
from spjax.catalogue import build, part, spell
from spjax.cli import main
from spjax.contexts import ContextSpace, Gaussian, Parametric, Summary
from spjax.self_paced import update_context
from spjax.settings import setting
from spjax.teachers import SelfPaced

SPACE = ContextSpace(("mass", "length"), ("kg", "m"), (0.1, 0.2), (9.0, 9.0))


@part("distribution", "probe-scaled")
@struct.dataclass
class Scaled(Parametric):
    """Independent normals, by mean and log standard deviation."""

    mean: Float[Array, " dim"] = setting(help="of each dimension")
    std: Float[Array, " dim"] = setting(above=0, help="of each dimension")

    def sample(self, key: Array, space: ContextSpace | None = None) -> Array:
        return self.mean + self.std * jax.random.normal(key, self.mean.shape)

    def log_prob(self, context: Array) -> Array:
        standard = (context - self.mean) / self.std
        return -(
            0.5 * standard**2 + jnp.log(self.std) + 0.5 * jnp.log(2 * jnp.pi)
        ).sum()

    def summary(self) -> Summary:
        return Summary(self.mean, jnp.diag(self.std**2))

    def kl_to(self, other: "Scaled") -> Array:
        ratio, shift = self.std / other.std, (self.mean - other.mean) / other.std
        return 0.5 * (ratio**2 - 1 - 2 * jnp.log(ratio) + shift**2).sum()

    def unconstrained(self) -> Array:
        return jnp.concatenate([self.mean, jnp.log(self.std)])

    def at(self, numbers: Array) -> "Scaled":
        mean, log_std = jnp.split(numbers, 2)
        return Scaled(mean, jnp.exp(log_std))


def problem(count=40):
    rng = np.random.default_rng(3)
    contexts = (2.0 + 0.5 * rng.normal(size=(count, 1))).astype(np.float32)
    return (
        jnp.asarray(contexts),
        jnp.asarray(10 - contexts[:, 0] ** 2),
        jnp.ones(count, bool),
    )


RULES = {
    "alpha": {"alpha": 0.3},
    "no alpha": {"alpha": 0.0},
    "bound": {"performance_bound": 5.0, "reached": False},
    "bound not reached": {"performance_bound": 9.0, "reached": False},
    "bound lost": {"performance_bound": 9.0, "reached": True},
}


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["old-new", "new-old"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_update_is_that_of_the_gaussian(rule, direction):
    how = {"max_kl": 0.05, "kl_direction": direction, **rule}
    ours, record = update_context(
        Scaled((2.0,), (0.5,)), Scaled((5.0,), (0.1,)), *problem(), **how
    )
    gaussian, expected = update_context(
        Gaussian.from_std([2.0], [0.5]),
        Gaussian.from_std([5.0], [0.1]),
        *problem(),
        **how,
    )
    np.testing.assert_allclose(ours.mean, gaussian.mean, rtol=2e-6)
    np.testing.assert_allclose(ours.std, gaussian.std, rtol=2e-6)
    assert (int(record.mode), int(record.result)) == (
        int(expected.mode),
        int(expected.result),
    )
    np.testing.assert_allclose(record.kl, expected.kl, rtol=1e-4, atol=1e-9)
    assert float(record.kl) <= 0.05


@pytest.mark.slow
def test_the_update_has_the_gradient_of_the_gaussian():
    def mean_after(alpha, old, target):
        return (
            update_context(old, target, *problem(), alpha=alpha, max_kl=0.05)[0]
            .summary()
            .mean[0]
        )

    ours = jax.grad(mean_after)(0.3, Scaled((2.0,), (0.5,)), Scaled((5.0,), (0.1,)))
    expected = jax.grad(mean_after)(
        0.3, Gaussian.from_std([2.0], [0.5]), Gaussian.from_std([5.0], [0.1])
    )
    assert abs(float(expected)) > 1e-4
    np.testing.assert_allclose(ours, expected, rtol=1e-3)


def test_nothing_seen_keeps_the_distribution_bit_for_bit():
    old = Scaled((2.1,), (0.37,))
    contexts, values, mask = problem()
    new, _ = update_context(
        old, Scaled((5.0,), (0.1,)), contexts, values, ~mask, alpha=0.3, max_kl=0.05
    )
    np.testing.assert_array_equal(new.mean, old.mean)
    np.testing.assert_array_equal(new.std, old.std)


def test_settings_are_spelled_as_they_were_typed_and_built_again():
    distribution = Scaled((0.3, 2.4), (0.1, 0.2))
    spelled = spell(distribution)
    assert spelled == {
        "distribution": "probe-scaled",
        "mean": [0.3, 2.4],
        "std": [0.1, 0.2],
    }
    again = build(spelled)
    assert spell(again) == spelled
    assert jax.tree.structure(again) == jax.tree.structure(distribution)
    assert list(settings.traced(distribution)) == ["mean", "std"]
    np.testing.assert_array_equal(
        distribution.changed(std=(0.5, 0.6)).std, np.float32([0.5, 0.6])
    )


def test_a_vector_of_the_wrong_length_and_a_value_out_of_range_are_one_sentence():
    with pytest.raises(
        ValueError, match=r"^teacher.target.std needs 2 values \(mass, length\), got 1$"
    ):
        Scaled.made(mean=(1.0, 1.0), std=(0.1,)).check(SPACE, "teacher.target")
    with pytest.raises(
        ValueError, match=r"^teacher.target.std must be positive and finite, got -0.1$"
    ):
        settings.check("teacher.target", Scaled.made(mean=(1.0, 1.0), std=(0.1, -0.1)))
    with pytest.raises(
        ValueError, match=r"^Scaled.std needs as many values as mean, 2, got 1$"
    ):
        Scaled((1.0, 1.0), (0.1,))
    with pytest.raises(
        ValueError, match=r"^Scaled.std must be positive and finite, got -0.1$"
    ):
        Scaled((1.0, 1.0), (0.1, -0.1))


def test_a_curriculum_between_two_families_is_refused_before_anything_compiles():
    teacher = SelfPaced(
        initial=Scaled((1.0, 1.0), (0.1, 0.1)),
        target=Gaussian.from_std([2.0, 2.0], [0.1, 0.1]),
    )
    sentence = "teacher.initial and teacher.target do not go together: .* one family, got Scaled and Gaussian$"
    with pytest.raises(ValueError, match=sentence):
        teacher.check(SPACE)


def test_a_setting_without_a_default_is_asked_for_in_one_sentence(capsys):
    assert main(["train", "point-mass-2d", "--teacher.initial", "probe-scaled"]) == 2
    assert (
        capsys.readouterr().err
        == "spjax: --teacher.initial.mean needs numbers, got nothing\n"
    )
