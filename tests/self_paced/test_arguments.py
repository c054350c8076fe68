"""What a context update refuses, each in one sentence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import Discrete, Gaussian
from spjax.self_paced import update_context
from spjax.self_paced.arguments import check_samples
from spjax.self_paced.closed_form import update_gaussian

OLD, TARGET = (
    Gaussian.from_std([0.0, 1.0], [1.0, 2.0]),
    Gaussian.from_std([1.0, 0.0], [0.1, 0.2]),
)
TABLE = np.arange(6.0).reshape(3, 2)
GOOD = {
    "old": OLD,
    "target": TARGET,
    "contexts": jnp.zeros((40, 2)),
    "values": jnp.ones(40),
    "mask": jnp.ones(40, bool),
    "max_kl": 0.05,
    "alpha": 0.1,
}
BAD = [
    (
        {"contexts": jnp.zeros((40, 1))},
        r"contexts must have shape \(M, 2\) .*, got \(40, 1\)",
    ),
    (
        {"target": Gaussian.from_std([0.0], [1.0])},
        "target must have 2 context dimensions .*, got 1",
    ),
    (
        {"target": Discrete.uniform(TABLE)},
        "must be of one family, got Gaussian and Discrete",
    ),
    ({"max_kl": -0.05}, "max_kl must be finite and at least 0, got -0.05"),
    ({"max_kl": np.nan}, "max_kl must be finite and at least 0, got nan"),
    ({"max_kl": jnp.ones(3)}, r"max_kl must be a single number, got shape \(3,\)"),
    ({"std_floor": -0.1}, "std_floor must be finite and at least 0, got -0.1"),
    (
        {"std_floor": jnp.ones(3)},
        r"std_floor must be a number or have shape \(2,\), got shape \(3,\)",
    ),
]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        *BAD,
        ({"alpha": -1.0}, "alpha must be finite and at least 0, got -1"),
        ({"alpha": jnp.nan}, "alpha must be finite and at least 0, got nan"),
        (
            {"alpha": None, "performance_bound": np.inf, "reached": False},
            "performance_bound must be finite, got inf",
        ),
    ],
)
def test_arguments_that_cannot_be_right_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        update_context(**GOOD | change)


@pytest.mark.parametrize(("change", "sentence"), BAD[:2] + BAD[3:])
def test_the_closed_form_refuses_the_same(change, sentence):
    settings = (
        GOOD
        | {"performance_bound": 0.0, "reached": False, "moves_scale": False}
        | change
    )
    del settings["alpha"]
    with pytest.raises(ValueError, match=sentence):
        update_gaussian(**settings)


def test_values_and_mask_that_do_not_go_with_the_contexts_are_refused():
    with pytest.raises(
        ValueError,
        match=r"values must have shape \(40,\), one entry a context, got \(39,\)",
    ):
        check_samples(OLD, GOOD["contexts"], jnp.ones(39), GOOD["mask"])
    with pytest.raises(
        ValueError,
        match=r"mask must have shape \(40,\), one entry a context, got \(40, 1\)",
    ):
        check_samples(OLD, GOOD["contexts"], GOOD["values"], jnp.ones((40, 1), bool))


def test_wrong_shapes_are_refused_inside_jit_too():
    with pytest.raises(ValueError, match=r"contexts must have shape"):
        jax.jit(lambda contexts: update_context(**GOOD | {"contexts": contexts}))(
            jnp.zeros((40, 1))
        )


def test_one_number_is_a_floor_for_every_dimension():
    one, _ = update_context(**GOOD | {"std_floor": 0.9})
    each, _ = update_context(**GOOD | {"std_floor": jnp.array([0.9, 0.9])})
    np.testing.assert_array_equal(one.chol, each.chol)


def test_a_family_without_floors_refuses_one():
    discrete = Discrete.uniform(TABLE)
    change = {
        "old": discrete,
        "target": discrete,
        "contexts": jnp.asarray(TABLE[np.zeros(40, int)]),
        "std_floor": 0.1,
    }
    with pytest.raises(ValueError, match="std_floor is for Gaussian contexts"):
        update_context(**GOOD | change)


@pytest.mark.slow
def test_a_target_without_weight_where_the_old_distribution_has_some_is_refused():
    change = {"contexts": jnp.asarray(TABLE[np.zeros(40, int)])}
    old, target = Discrete.uniform(TABLE), Discrete.from_weights(TABLE, [1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="no weight on row 1"):
        update_context(**GOOD | change | {"old": old, "target": target})
    new, _ = update_context(**GOOD | change | {"old": target, "target": old})
    assert new.probs[1] == 0


def test_tables_that_differ_are_refused():
    change = {
        "contexts": jnp.asarray(TABLE[np.zeros(40, int)]),
        "old": Discrete.uniform(TABLE),
    }
    with pytest.raises(ValueError, match="must share one table"):
        update_context(**GOOD | change | {"target": Discrete.uniform(TABLE + 1)})
    with pytest.raises(
        ValueError, match=r"must share one table, got shapes \(3, 2\) and \(2, 2\)"
    ):
        update_context(**GOOD | change | {"target": Discrete.uniform(TABLE[:2])})
