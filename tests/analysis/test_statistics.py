import numpy as np
import pytest
from scipy import stats

from spjax.analysis import statistics


def test_the_standard_error_is_the_population_deviation_over_root_n() -> None:
    np.testing.assert_allclose(
        statistics.standard_error(np.array([1.0, 2.0, 3.0, 4.0])),
        np.sqrt(1.25) / 2,
        rtol=1e-14,
    )


def test_the_standard_error_of_one_seed_is_unknown() -> None:
    assert np.isnan(statistics.standard_error(np.array([3.0])))


def test_mean_and_standard_error_leave_out_what_is_not_finite() -> None:
    values = np.array(
        [[1.0, np.nan], [3.0, np.nan], [np.nan, np.nan], [np.inf, np.nan]]
    )
    np.testing.assert_array_equal(statistics.mean(values), [2.0, np.nan])
    np.testing.assert_allclose(
        statistics.standard_error(values), [1 / np.sqrt(2), np.nan], rtol=1e-14
    )


def test_the_band_is_the_mean_plus_and_minus_two_standard_errors() -> None:
    band = statistics.two_standard_errors(np.array([[0.0], [2.0]]) + 1e6)
    np.testing.assert_allclose(
        [band.low, band.middle, band.high],
        [[1e6 + 1 + s * np.sqrt(2)] for s in (-1, 0, 1)],
    )


def test_quantiles_of_eleven_ordered_values_are_the_second_the_middle_and_the_tenth() -> (
    None
):
    column = np.random.default_rng(0).permutation(11).astype(float)
    band = statistics.quantiles(np.stack([column, np.full(11, np.nan)], axis=1))
    np.testing.assert_allclose(band.low, [1, np.nan])
    np.testing.assert_allclose(band.middle, [5, np.nan])
    np.testing.assert_allclose(band.high, [9, np.nan])


def test_welch_p_has_its_closed_form_at_two_degrees_of_freedom() -> None:
    # t = 3 / sqrt(2); P(|T| > t) = 1 - t / sqrt(t^2 + 2)
    assert statistics.welch_test([0, 2], [3, 5]) == pytest.approx(
        1 - np.sqrt(4.5 / 6.5), rel=1e-12
    )


def test_welch_does_not_pool_unequal_variances() -> None:
    # a constant second sample leaves one degree of freedom, where the t distribution is Cauchy's; t = 2
    assert statistics.welch_test([1, 3], [0, 0]) == pytest.approx(
        1 - 2 / np.pi * np.arctan(2), rel=1e-12
    )


def test_welch_is_symmetric_and_ignores_shift_and_scale() -> None:
    a, b = np.random.default_rng(1).normal(loc=[[0.0], [0.7]], size=(2, 20))
    p = statistics.welch_test(a, b)
    assert statistics.welch_test(b, a) == pytest.approx(p, rel=1e-12)
    assert statistics.welch_test(100 - 7 * a, 100 - 7 * b) == pytest.approx(p, rel=1e-9)


@pytest.mark.parametrize(
    ("a", "b", "p"), [([2, 2], [2, 2], 1.0), ([2, 2], [3, 3], 0.0)]
)
def test_welch_of_two_constant_samples_is_certain(
    a: list[float], b: list[float], p: float
) -> None:
    assert statistics.welch_test(a, b) == p


def test_welch_needs_two_finite_values_on_each_side() -> None:
    assert np.isnan(statistics.welch_test([1.0, np.nan], [1.0, 2.0]))


def test_the_test_against_published_numbers_equals_the_test_against_the_seeds_behind_them() -> (
    None
):
    rng = np.random.default_rng(2)
    ours, theirs = rng.normal(8.0, 1.0, size=7), rng.normal(8.5, 0.4, size=20)
    published = theirs.mean(), theirs.std(ddof=0) / np.sqrt(20)
    p = statistics.welch_against_paper(ours, *published)
    assert p == pytest.approx(
        stats.ttest_ind(ours, theirs, equal_var=False).pvalue, rel=1e-10
    )


def test_a_published_standard_error_of_zero_leaves_a_test_of_our_mean_alone() -> None:
    ours = np.random.default_rng(3).normal(2.5, 0.1, size=20)
    expected = stats.ttest_1samp(ours, 2.4).pvalue
    assert statistics.welch_against_paper(ours, 2.4, 0.0) == pytest.approx(
        expected, rel=1e-10
    )


def test_the_best_sample_leads_together_with_those_that_do_not_differ_from_it() -> None:
    best, close, worse = [8.0, 9.0, 10.0], [7.0, 9.0, 10.4], [1.0, 1.1, 0.9]
    assert (
        statistics.welch_test(best, close) > 0.01 > statistics.welch_test(best, worse)
    )
    assert statistics.leaders([worse, close, best], 0.01) == [False, True, True]
    assert statistics.leaders([worse, close, best], 0.99) == [False, False, True]


def test_a_sample_without_values_does_not_lead_and_a_single_value_cannot_be_told_apart() -> (
    None
):
    assert statistics.leaders([[], [9.0, 9.1], [1.0], [np.nan]], 0.01) == [
        False,
        True,
        True,
        False,
    ]
    assert statistics.leaders([[], []], 0.01) == [False, False]


def test_thresholds_are_interpolated_and_seeds_that_never_reach_them_count_as_the_last_iteration() -> (
    None
):
    values = np.array(
        [
            [0.0, 2.0, 4.0],
            [3.0, 0.0, 0.0],
            [0.0, 3.0, 9.0],
            [0.0, 0.0, 2.9],
            [0.0, np.nan, 6.0],
        ]
    )
    crossing = statistics.iterations_to_threshold(np.array([0, 5, 10]), values, 3.0)
    np.testing.assert_allclose(crossing.iterations, [7.5, 0.0, 5.0, 10.0, 10.0])
    assert crossing.never_reached == 1
