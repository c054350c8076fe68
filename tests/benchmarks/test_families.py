"""What is counted of random updates of every family: the references agree with themselves, and faults are seen."""

import mpmath
import numpy as np
import pytest

from benchmarks.families import VIOLATIONS, Checked, gap_of, is_lost, totals_of
from benchmarks.family_problems import (
    NASTY,
    REFERENCES,
    excess_of,
    in_double,
    make_family_problem,
)
from spjax.contexts import Gaussian

EVERY = pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)


class Update:
    """What `Checked` needs of a record."""

    def __init__(self, mode=3, result=0, kl=0.0, kl_price=1.0):
        self.mode, self.result, self.kl, self.kl_price = mode, result, kl, kl_price


@EVERY
@pytest.mark.parametrize("kind", ["plain", "narrow"])
def test_forty_digits_say_what_double_precision_says(reference, kind):
    rng = np.random.default_rng(1)
    p, q = (in_double(reference.draw(rng, kind)) for _ in range(2))
    with mpmath.workdps(40):
        exact = reference.exact_kl(p, q)
    assert exact > 0
    assert reference.kl(p, q) == pytest.approx(exact, rel=1e-9)


@EVERY
def test_the_divergence_is_the_mean_of_the_log_ratio_or_above_it(reference):
    rng = np.random.default_rng(2)
    p = in_double(reference.draw(rng, "plain"))
    q = reference.at(p, 0.2 * rng.normal(size=reference.size(p)))
    drawn = reference.contexts(p, rng, 40_000)
    ratios = reference.log_density(p, drawn) - reference.log_density(q, drawn)
    error = 5 * ratios.std() / 200
    kl = reference.kl(p, q)
    if reference.name == "mixture":  # an upper bound
        assert kl > ratios.mean() - error
    else:
        assert kl == pytest.approx(ratios.mean(), abs=error)


@EVERY
def test_a_problem_of_every_kind_is_finite_and_in_single_precision(reference):
    for seed in range(len(NASTY)):
        problem = make_family_problem(reference, seed)
        assert problem.contexts.dtype == problem.values.dtype == np.float32
        assert np.isfinite(problem.contexts).all()
        assert problem.performance_bound <= problem.values[problem.mask].mean()


def test_a_result_outside_the_trust_region_exceeds_it_by_what_it_does():
    reference, problem = (
        REFERENCES["gaussian"],
        make_family_problem(REFERENCES["gaussian"], 0),
    )
    old = in_double(problem.old)
    moved = Gaussian(old.mean + old.chol[:, 0] * 0.5, old.chol)  # KL = 0.5^2 / 2
    assert excess_of(reference, problem, moved, "old-new") == pytest.approx(
        0.125 - 0.05, rel=1e-6
    )
    assert excess_of(reference, problem, old, "old-new") == pytest.approx(
        -0.05, rel=1e-6
    )


def test_a_result_that_stays_lacks_all_that_scipy_finds():
    reference = REFERENCES["gaussian"]
    problem = make_family_problem(reference, 0)
    numbers = {
        name: in_double(value)
        for name, value in problem._asdict().items()
        if name not in ("mask", "std_floor")
    }
    problem = problem._replace(**numbers)
    stays = Checked(problem, problem.old, Update())
    assert gap_of(reference, stays, "old-new") == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("record", "lost"),
    [
        (Update(kl=0.05), False),
        (Update(kl=0.001), True),
        (Update(kl=0.001, kl_price=0.0), False),  # something else ends the step
        (Update(kl=0.001, result=1), False),  # which says so itself
    ],
)
def test_a_step_is_lost_where_the_trust_region_ends_it_and_less_comes_out(record, lost):
    problem = make_family_problem(REFERENCES["gaussian"], 0)
    assert problem.max_kl == np.float32(0.05)
    assert is_lost(Checked(problem, problem.old, record)) is lost


def test_updates_of_all_families_and_both_precisions_are_added_up():
    def counted(metric, values, **settings):
        return {"metric": metric, "values": values, "settings": settings}

    records = [
        counted(VIOLATIONS, [0.0, 1.0], family="beta", problems=100),
        counted(VIOLATIONS, [2.0], family="beta", problems=50, precision="double"),
        counted(VIOLATIONS, [1.0], family="beta", problems=60),
        counted(VIOLATIONS, [0.0], family="discrete", problems=7),
        counted("share of converged solves", [1.0], family="beta", problems=100),
    ]
    violations, problems = totals_of(records)
    assert violations["values"] == [3.0]
    assert problems["values"] == [157.0]
    assert problems["settings"] == {"families": "beta, discrete"}
