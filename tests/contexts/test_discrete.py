import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spjax.contexts import ContextSpace, Discrete

SPACE = ContextSpace(
    names=("x", "y"), units=("m", "1"), lower=(0.0, 0.0), upper=(4.0, 1.0)
)
TABLE = np.array([[0.0, 0.5], [1.0, 0.5], [4.0, 1.0], [2.4, 0.1]])


def test_draws_are_rows_as_often_as_their_weights_say(key):
    weights = np.array([1.0, 0.0, 2.0, 5.0])
    draws = np.asarray(
        Discrete.from_weights(TABLE, weights).sample_many(key, SPACE, 8000)
    )
    shares = [(draws == row.astype(np.float32)).all(axis=1).mean() for row in TABLE]
    np.testing.assert_allclose(shares, weights / 8, atol=0.02)
    assert shares[1] == 0


def test_the_log_probability_of_a_context_is_that_of_the_nearest_row():
    discrete = Discrete.from_weights(TABLE, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(
        discrete.log_prob(jnp.asarray(TABLE[2])), np.log(0.3), rtol=1e-6
    )
    np.testing.assert_allclose(
        discrete.log_prob(jnp.array([0.9, 0.45])), np.log(0.2), rtol=1e-6
    )


def test_moments_and_divergence_have_their_closed_form():
    with jax.enable_x64(True):
        p, q = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 0.3, 0.2, 0.1])
        discrete = Discrete.from_weights(TABLE, p)
        summary = discrete.summary()
        mean = p @ TABLE
        np.testing.assert_allclose(summary.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(
            summary.std, np.sqrt(p @ (TABLE - mean) ** 2), rtol=1e-12
        )
        divergence = discrete.kl_to(Discrete.from_weights(TABLE, 7 * q))
        np.testing.assert_allclose(divergence, (p * np.log(p / q)).sum(), rtol=1e-12)
        assert discrete.kl_to(discrete) == 0


def test_the_divergence_is_infinite_only_where_mass_is_missing():
    some, all_rows = (
        Discrete.from_weights(TABLE, [1.0, 1.0, 0.0, 0.0]),
        Discrete.uniform(TABLE),
    )
    np.testing.assert_allclose(some.kl_to(all_rows), np.log(2), rtol=1e-6)
    assert all_rows.kl_to(some) == np.inf


@pytest.mark.parametrize(
    ("table", "weights", "sentence"),
    [
        (
            TABLE[:, :1],
            np.ones(4),
            r"table of at least 2 rows of 2 values \(x, y\), got shape \(4, 1\)",
        ),
        (TABLE[:1], np.ones(1), "at least 2 rows"),
        (
            TABLE + np.array([1.0, 0.0]),
            np.ones(4),
            r"row 2 of the table: x = 5 lies outside its bounds \[0, 4\] m",
        ),
        (TABLE[[0, 1, 1]], np.ones(3), r"must differ, got \[1.0, 0.5\] more than once"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_in_one_sentence(table, weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        Discrete.from_weights(table, weights).check(SPACE, "teacher.target")


@pytest.mark.parametrize(
    "weights", [[1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, np.nan, 1.0]]
)
def test_weights_that_give_no_probabilities_are_refused(weights):
    with pytest.raises(ValueError, match="at least 0 and not all 0"):
        Discrete.from_weights(TABLE[:3], weights)


@pytest.mark.parametrize(
    "logits", [[0.0, np.nan, 0.0, 0.0], [0.0, np.inf, 0.0, 0.0], [-np.inf] * 4]
)
def test_logits_that_give_no_probabilities_are_refused(logits):
    with pytest.raises(
        ValueError,
        match=r"teacher.target: weights must be finite, at least 0 and not all 0",
    ):
        Discrete(jnp.asarray(TABLE), jnp.asarray(logits)).check(SPACE, "teacher.target")


def test_a_good_table_passes_its_check():
    Discrete.from_weights(TABLE, [1.0, 0.0, 1.0, 1.0]).check(SPACE, "teacher.target")


def test_the_nearest_row_is_that_in_units_of_the_tables_extent():
    """A dimension in which all rows agree does not count, however far away the context is there."""
    table = [[0.0, 0.0, 5.0], [1.0, 1000.0, 5.0], [0.5, 100.0, 5.0]]
    distribution = Discrete.uniform(table)
    for context, row in (
        ([0.95, 500.0, 5.0], 1),  # 0.50 away from it, 0.60 from the third
        ([0.3, 30.0, 5.0], 2),
        ([0.1, 30.0, 5.0], 0),
        ([1.0, 1000.0, 8.0], 1),
    ):
        assert int(distribution.nearest(jnp.array(context))) == row


def test_a_row_that_neither_gives_adds_nothing_to_the_divergence_and_one_more_makes_it_infinite():
    p, q = [0.5, 0.0, 0.2, 0.3], [0.25, 0.0, 0.4, 0.35]
    one, other = (Discrete.from_weights(TABLE, weights) for weights in (p, q))
    there = np.array(p) > 0
    expected = (
        np.array(p) * np.log(np.divide(p, q, where=there, out=np.ones(4)))
    ).sum()
    assert float(one.kl_to(other)) == pytest.approx(expected, rel=1e-5)
    lacking = Discrete.from_weights(TABLE, [0.5, 0.0, 0.5, 0.0])
    assert float(one.kl_to(lacking)) == np.inf
    assert float(lacking.kl_to(one)) < np.inf


def test_a_file_holds_the_rows_and_under_a_title_that_says_so_their_weights(tmp_path):
    file = tmp_path / "contexts.csv"
    file.write_text("x, y, weight\n0, 0.5, 3\n\n4, 1, 0\n2.4, 0.1, 1\n")
    weighted = Discrete.made(file=str(file))
    np.testing.assert_allclose(weighted.table, [[0.0, 0.5], [4.0, 1.0], [2.4, 0.1]])
    np.testing.assert_allclose(weighted.probs, [0.75, 0.0, 0.25], rtol=1e-6)

    for title in ("x, y\n", ""):
        file.write_text(f"{title}0, 0.5\n4, 1\n")
        plain = Discrete.made(file=str(file))
        np.testing.assert_allclose(plain.table, [[0.0, 0.5], [4.0, 1.0]])
        np.testing.assert_allclose(plain.probs, [0.5, 0.5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x, y\n0, 0.5\n4\n", r"contexts.csv, line 3: .* needs 2 numbers, got 4$"),
        ("0, 0.5\n4, one\n", r"contexts.csv, line 2: .* needs 2 numbers, got 4, one$"),
    ],
)
def test_a_file_with_a_line_of_something_else_is_refused_by_its_number(
    text, message, tmp_path
):
    file = tmp_path / "contexts.csv"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        Discrete.made(file=str(file))
    with pytest.raises(ValueError, match=r"^there is no file .*nowhere\.csv"):
        Discrete.made(file=str(tmp_path / "nowhere.csv"))
