"""Which lanes share a curve in a report, what it is called, and its colours on light and on dark paper."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np

from spjax.analysis import statistics
from spjax.analysis.curves import MOST_NAMED
from spjax.analysis.pictures import distinct_labels
from spjax.analysis.style import DASHES, PALETTE
from spjax.analysis.text import settings_label
from spjax.runs.read import Group, Run
from spjax.runs.schema import Setting

MOST_DRAWN = MOST_NAMED  # curves
LOWEST_DRAWN = 4  # of them, where there are more to choose from
_ON_DARK = (  # the palette of the pictures, lighter
    *("#56A8E6", "#F08A45", "#2FC191", "#E196C1", "#F0B03A", "#8CD0F7", "#E4E6E9"),
)
_GREEK = {"zeta": "ζ", "alpha": "α", "epsilon": "ε", "sigma": "σ"}


class Series(NamedTuple):
    """The lanes of one curve: one run, or one value of its sweep."""

    run: Run
    run_label: str
    group: Group
    label: str

    @property
    def final_returns(self) -> np.ndarray:
        """The newest discounted return on the target of each seed."""
        curves = self.run.evaluation_curves("discounted_return", self.group)
        return curves.values[:, -1]

    def setting(self, name: str) -> Setting:
        """Returns the value of a setting such as "teacher.max_kl", None where there is none."""
        if name in self.group.settings:
            return self.group.settings[name]
        value: object = self.run.config.settings
        for step in name.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        return value if isinstance(value, int | float | str | tuple) else None


def all_series(runs: Sequence[Run]) -> list[Series]:
    """Returns a series for each run and each value of its sweep."""
    return [
        Series(run, label, group, _name(run, group, label if len(runs) > 1 else ""))
        for run, label in zip(runs, distinct_labels(runs), strict=True)
        for group in run.groups()
    ]


def drawn(series: Sequence[Series]) -> tuple[list[Series], str]:
    """Returns those that have curves, and a sentence about the others, empty where there are none.

    Of more than `MOST_DRAWN` these are the ones with the highest and with the lowest final return.
    """
    if len(series) <= MOST_DRAWN:
        return list(series), ""
    means = [float(statistics.mean(one.final_returns)) for one in series]
    order = np.argsort(np.nan_to_num(means, nan=-np.inf))
    highest = MOST_DRAWN - LOWEST_DRAWN
    chosen = sorted([*order[:LOWEST_DRAWN].tolist(), *order[-highest:].tolist()])
    sentence = (
        f"Of {len(series)} settings, those with the {highest} highest and the {LOWEST_DRAWN} lowest "
        "final returns have curves and contexts; the table of results has all."
    )
    return [series[index] for index in chosen], sentence


def looks(count: int) -> list[dict[str, str]]:
    """Returns the colours of each curve, and whether it is dashed; as in the pictures, but readable on dark paper too."""
    if count <= len(PALETTE):
        return [
            {"light": light, "dark": dark, "dashes": DASHES[index % len(DASHES)]}
            for index, (light, dark) in enumerate(
                zip(PALETTE[:count], _ON_DARK, strict=False)
            )
        ]
    shares = np.linspace(0.0, 1.0, count)
    return [
        {
            "light": _viridis(0.92 * share),
            "dark": _viridis(0.35 + 0.65 * share),
            "dashes": "solid",
        }
        for share in shares
    ]


def plain(text: str) -> str:
    """Returns what Matplotlib would typeset as characters: K_α for a K with an index."""
    return re.sub(r"\$(.*?)\$", lambda found: _characters(found[1]), text)


def _characters(formula: str) -> str:
    known = re.sub(r"\\(\w+)", lambda word: _GREEK.get(word[1], word[1]), formula)
    return known.translate(str.maketrans("", "", "{}"))


def _name(run: Run, group: Group, label: str) -> str:
    parts = [label, plain(settings_label(group.settings))]
    frozen = run.num_frozen(group)
    parts.append(f"{frozen} of {len(group.lanes)} frozen" if frozen else "")
    return ", ".join(part for part in parts if part) or distinct_labels([run])[0]


def _viridis(share: float) -> str:
    return matplotlib.colors.to_hex(matplotlib.colormaps["viridis"](float(share)))
