"""The figure of SPRL beside SPDL on the point mass, over environment steps; with tables of when and where they get to.

SPRL searches for the weights of a small network. So that the network is not what makes the difference, SPDL is trained with
one of its size too, as in the paper: one layer of 21 units, of the policy and of the critic, for 800 iterations. What the
paper leaves open of SPRL was chosen by measurement, see `spjax.presets.policy_search`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from benchmarks.paper.cells import ENVS, Cell
from benchmarks.paper.pictures.curricula import CURRICULA, Curriculum
from benchmarks.paper.pictures.episodic import STEPS, returns_over_steps, step_curves
from benchmarks.paper.records import Runs, records_of, write_report
from spjax.analysis import statistics
from spjax.analysis.style import save
from spjax.analysis.tables import estimate_text, markdown, p_text
from spjax.runs.read import Run

NAME = "figure-sprl-point-mass"
HIDDEN = (21,)  # units of SPRL's network
SMALL_ITERATIONS = 800  # of SPDL with a network of that size, in print
THRESHOLD = 5.0  # discounted return that the paper speaks of


class Method(NamedTuple):
    """A learner with its network, and what readers call it."""

    agent: str
    curriculum: Curriculum
    small: bool  # whether its network has SPRL's size in place of the preset's
    label: str

    def cell(self, env: str) -> Cell:
        """Returns its cell on a task."""
        if not self.small:
            return Cell(env, self.agent, self.curriculum)
        return Cell(
            env,
            self.agent,
            self.curriculum,
            f"hidden-{HIDDEN[0]}",
            settings={"agent.hidden": HIDDEN},
            num_iterations=SMALL_ITERATIONS,
        )


SPRL = Method("sprl", Curriculum("self-paced-joint", None, "SPRL"), False, "SPRL")
SPDL = tuple(  # the paper's figure has TRPO
    Method(agent, CURRICULA[0], small, f"SPDL, {agent.upper()}{units}")
    for small, units in ((False, ""), (True, f", {HIDDEN[0]} units"))
    for agent in ("trpo", "ppo")
)
METHODS = (SPRL, *SPDL)
CELLS = [method.cell(env) for env in ENVS for method in METHODS]
HEADER = (
    "task",
    "method",
    "seeds",
    "after",
    "return",
    "p to SPRL",
    f"iterations to {THRESHOLD:g}",
    "never",
    "mean curve",
)
NOTES = f"""
Discounted return on the target tasks at the last step that every seed has reached, after so many times {STEPS:,} environment
steps, with the p-value of Welch's t-test against SPRL's, and environment steps until it is {THRESHOLD:g}, in iterations of
{STEPS:,}: mean ± one standard error over the seeds, of which the last column but one never get there and count as the end of the
run; the last column is when the mean over the seeds gets there. The steps that fill SPRL's first buffer are counted. The paper
says that SPRL needs up to 800 iterations, and that SPDL with a network of SPRL's size, one layer of {HIDDEN[0]} units, gets to
about 8 in 800, significantly more than SPRL; here policy and critic have such a layer, with biases.

What the paper does not print of SPRL was picked by measurement, by the best return (`spjax/presets/policy_search.py`), so the
order of SPRL and SPDL is not a finding of its own.
"""
DIMENSIONS_HEADER = ("method", *ENVS, "p")
DIMENSIONS_NOTES = """
The same returns side by side, with the p-value of Welch's t-test between the two context spaces. The paper sees no significant
difference between them for SPDL.
"""


def report(runs: Runs, results: Path) -> str:
    """Writes the records, the tables and the picture of what is finished, and returns the tables in Markdown."""
    panels = {env: found for env in ENVS if (found := _finished(env, runs))}
    returns = {
        (env, label): returns_over_steps(run)[1][:, -1]
        for env, found in panels.items()
        for label, run in found.items()
    }
    rows = [
        _row(env, label, run, returns.get((env, SPRL.label)))
        for env, found in panels.items()
        for label, run in found.items()
    ]
    parts = [markdown(HEADER, 2, rows) + NOTES.rstrip(), *_order(returns)]

    both = [method.label for method in METHODS if _everywhere(method, returns)]
    if both:
        dimensions = [_dimensions_row(label, returns) for label in both]
        table = markdown(DIMENSIONS_HEADER, 1, dimensions)
        parts.append(table + DIMENSIONS_NOTES.rstrip())
    if panels:
        picture = save(step_curves(panels), results / "pictures" / NAME / "returns.png")
        parts.append(
            f"![SPRL and SPDL on the point mass]({picture.relative_to(results).as_posix()})"
        )
    text = "\n\n".join([*parts, ""])
    return write_report(results, NAME, records_of(NAME, CELLS, runs), text)


Returns = dict[tuple[str, str], Float[np.ndarray, " seed"]]  # by task and label


def _finished(env: str, runs: Runs) -> dict[str, Run]:
    named = {method.label: method.cell(env) for method in METHODS}
    return {
        label: runs[cell.name] for label, cell in named.items() if cell.name in runs
    }


def _row(
    env: str, label: str, run: Run, sprl: Float[np.ndarray, " seed"] | None
) -> list[str]:
    places, returns = returns_over_steps(run)
    crossing = statistics.iterations_to_threshold(places, returns, THRESHOLD)
    whole = statistics.iterations_to_threshold(
        places, statistics.mean(returns)[None], THRESHOLD
    )
    alone = sprl is None or label == SPRL.label
    return [
        env,
        label,
        str(len(returns)),
        f"{places[-1]:.0f}",
        _estimate(returns[:, -1], 2),
        "" if alone else p_text(statistics.welch_test(returns[:, -1], sprl)),
        _estimate(crossing.iterations, 0),
        str(crossing.never_reached),
        "never" if whole.never_reached else f"{whole.iterations[0]:.0f}",
    ]


def _order(returns: Returns) -> Iterator[str]:
    """Yields whether the paper's order of SPDL and SPRL is turned round, where both are finished."""
    labels = [method.label for method in SPDL]
    pairs = [
        (env, label) for env in ENVS for label in labels if (env, label) in returns
    ]
    pairs = [(env, label) for env, label in pairs if (env, SPRL.label) in returns]
    if not pairs:
        return
    turned = [
        f"{label} on {env}"
        for env, label in pairs
        if returns[env, SPRL.label].mean() > returns[env, label].mean()
    ]
    order = "In print SPDL ends above SPRL."
    if turned:
        yield f"{order} So chosen, SPRL turns that order: it ends above {'; '.join(turned)}."
    else:
        yield f"{order} So chosen, SPRL leaves it that way."


def _everywhere(method: Method, returns: Returns) -> bool:
    return all((env, method.label) in returns for env in ENVS)


def _dimensions_row(label: str, returns: Returns) -> list[str]:
    finals = [returns[env, label] for env in ENVS]
    p_value = statistics.welch_test(*finals)
    return [label, *(_estimate(final, 2) for final in finals), p_text(p_value)]


def _estimate(values: Float[np.ndarray, " seed"], digits: int) -> str:
    error = float(statistics.standard_error(values))
    known = None if np.isnan(error) else error
    return estimate_text(float(values.mean()), known, digits)
