"""The curves of a report: a panel for each quantity that the runs recorded, bands over the seeds as in the pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spjax.analysis import statistics
from spjax.analysis.arrival import KL_TO_TARGET
from spjax.analysis.curves import (
    ALPHA,
    KL_DECADE,
    SPREAD_LABELS,
    Spread,
    iterations_label,
    metric_label,
    range_of_seeds,
)
from spjax.reports.numbers import number, numbers, spread_out
from spjax.reports.series import Series
from spjax.runs.read import Curves

MOST_POINTS = 400  # of a curve


@dataclass(frozen=True)
class Quantity:
    """A column of the run folder, and how it is drawn."""

    column: str
    title: str
    about: str = ""
    spread: Spread = "quantiles"
    scale: Literal["linear", "log", "symlog"] = "linear"
    on_target: bool = False  # whether it is of the evaluations
    share: bool = False  # whether it lies between 0 and 1
    lowest: float | None = None  # what is below is drawn here
    limit: tuple[str, str] | None = None  # a setting that bounds it, and its symbol


_RETURNS = (
    Quantity("discounted_return", "", spread="standard-error", on_target=True),
    Quantity("success_rate", "", "", "standard-error", on_target=True, share=True),
    Quantity("discounted_return", "", spread="standard-error"),
    Quantity("success_rate", "", "", "standard-error", share=True),
)
_CURRICULUM = (
    Quantity(
        KL_TO_TARGET,
        "KL to the target distribution [nats]",
        scale="log",
        lowest=10.0**KL_DECADE,
    ),
    Quantity(ALPHA, "weight α of the target", scale="symlog"),
    Quantity(
        "teacher.step_kl",
        "KL used by the context update [nats]",
        "what each update used of its trust region ε",
        limit=("teacher.max_kl", "ε"),
    ),
    Quantity(
        "teacher.kl_price",
        "shadow price of ε",
        "multiplier of KL ≤ ε: what a little more ε would add to the update's objective, a nat",
        scale="symlog",
    ),
    Quantity(
        "teacher.bound_price",
        "shadow price of V_LB",
        "multiplier of the performance bound: nats from the target that a unit of V_LB costs",
        scale="symlog",
    ),
    Quantity(
        "teacher.effective_sample_size",
        "effective sample size of the context update",
        "of the importance weights, episodes",
    ),
    Quantity(
        "teacher.observed_success",
        "success rate that an update saw",
        "of the episodes since the update before, which has kept the rate α for its distribution",
        share=True,
        limit=("teacher.success_rate", "α"),
    ),
    Quantity(
        "clipped_fraction",
        "share of contexts on a bound",
        "of the episodes that ended, those whose context lies on a bound of the context space",
        share=True,
    ),
)
_AGENT = (
    Quantity(
        "agent.clip_fraction",
        "clipped fraction of PPO",
        "share of the samples outside the clip range, last epoch",
        share=True,
    ),
    Quantity("agent.approximate_kl", "approximate KL of the policy update [nats]"),
    Quantity(
        "agent.mean_kl",
        "KL of the policy update [nats]",
        limit=("agent.max_kl", "bound"),
    ),
    Quantity("agent.kl", "KL of the fit [nats]"),
    Quantity(
        "agent.eta",
        "multiplier η of the fit",
        "shadow price of the fit's KL bound; a gap where nothing was taken from the fit",
        scale="symlog",
    ),
    Quantity(
        "agent.effective_sample_size",
        "effective sample size of the fit",
        "of its weights, rollouts",
    ),
    Quantity("agent.policy_std", "standard deviation of the policy [action units]"),
    Quantity("agent.entropy", "entropy of the policy [nats]"),
    Quantity("agent.temperature", "temperature of the policy"),
)
QUANTITIES = (*_RETURNS, *_CURRICULUM, *_AGENT)


def panels(series: Sequence[Series]) -> list[dict[str, object]]:
    """Returns a panel for each quantity that at least one of the series recorded, other than zero throughout."""
    made = [_panel(quantity, series) for quantity in QUANTITIES]
    return [panel for panel in made if panel["curves"]]


def zero_throughout(series: Sequence[Series]) -> list[str]:
    """Returns the titles of what was recorded and was zero in every iteration, where a zero says something."""
    return [
        quantity.title
        for quantity in _CURRICULUM
        if any(_recorded(quantity, one) for one in series)
        and not any(_known(quantity, one) for one in series)
    ]


def _panel(quantity: Quantity, series: Sequence[Series]) -> dict[str, object]:
    shown = [index for index, one in enumerate(series) if _known(quantity, one)]
    own = [series[index] for index in shown]
    panel: dict[str, object] = {
        "title": quantity.title or _performance(quantity, own or series),
        "about": quantity.about,
        "scale": quantity.scale,
        "success": quantity.column == "success_rate",
        "from_zero": quantity.scale == "linear",
        "curves": [_curve(quantity, series[index], index) for index in shown],
    }
    if not own:
        return panel
    seeds = range_of_seeds(len(one.group.lanes) for one in own)
    thin = max(len(_curves(quantity, one).iterations) for one in own) > MOST_POINTS
    return panel | {
        "note": f"{SPREAD_LABELS[quantity.spread]}, {seeds}"
        + (f"; {MOST_POINTS} iterations, evenly spaced" if thin else ""),
        "across": iterations_label([one.run for one in own]),
        "lines": [*_limit(quantity, own), *_published(quantity, series, shown)],
    }


def _performance(quantity: Quantity, series: Sequence[Series]) -> str:
    label = metric_label([one.run for one in series], quantity.column)  # type: ignore[arg-type]
    if quantity.on_target:
        return label
    return label.replace("on target tasks", "on the tasks trained on")


def _recorded(quantity: Quantity, one: Series) -> bool:
    table = one.run.evaluation if quantity.on_target else one.run.metrics
    return quantity.column in table.column_names


def _known(quantity: Quantity, one: Series) -> bool:
    """Says whether there is something to draw; performance that is zero says something, too."""
    if not _recorded(quantity, one):
        return False
    values = _curves(quantity, one).values
    finite = np.isfinite(values)
    says_nothing = (values == 0) & (quantity not in _RETURNS)
    return bool((finite & ~says_nothing).any())


def _curves(quantity: Quantity, one: Series) -> Curves:
    read = one.run.evaluation_curves if quantity.on_target else one.run.metric_curves
    return read(quantity.column, one.group)


def _curve(quantity: Quantity, one: Series, index: int) -> dict[str, object]:
    """Returns the central curve and its band, at up to `MOST_POINTS` iterations."""
    curves = _curves(quantity, one)
    chosen = spread_out(len(curves.iterations), MOST_POINTS)
    values = np.where(np.isfinite(curves.values), curves.values, np.nan)[:, chosen]
    of_seeds = (
        statistics.quantiles
        if quantity.spread == "quantiles"
        else statistics.two_standard_errors
    )
    band = of_seeds(values)
    edges = {"low": band.low, "middle": band.middle, "high": band.high}
    if quantity.share:
        edges = {name: np.clip(edge, 0.0, 1.0) for name, edge in edges.items()}
    if quantity.lowest is not None:
        edges = {
            name: np.maximum(edge, quantity.lowest) for name, edge in edges.items()
        }
    return {
        "series": index,
        "iterations": curves.iterations[chosen].tolist(),
        **{name: numbers(edge) for name, edge in edges.items()},
    }


def _limit(quantity: Quantity, own: Sequence[Series]) -> list[dict[str, object]]:
    """Returns the line of the setting that bounds the quantity, where all curves have the same."""
    if quantity.limit is None:
        return []
    name, symbol = quantity.limit
    values = {one.setting(name) for one in own}
    value = values.pop() if len(values) == 1 else None
    if not isinstance(value, int | float):
        return []
    return [{"value": number(value), "label": f"{symbol} = {value:g}", "series": None}]


def _published(
    quantity: Quantity, series: Sequence[Series], shown: Sequence[int]
) -> list[dict[str, object]]:
    """Returns the lines of published final results, of runs that are not swept."""
    lines: list[dict[str, object]] = []
    for index in shown:
        reference = series[index].run.config.reference
        if (
            reference is None
            or not quantity.on_target
            or quantity.column != reference.metric
            or series[index].group.settings
        ):
            continue
        final = reference.final
        label = f"{reference.source}, after {reference.num_iterations}: {final.mean:.2f} ± {final.standard_error:.2f}"
        lines.append({"value": number(final.mean), "label": label, "series": index})
    return lines
