"""Self-paced deep reinforcement learning, SPDL (Klink et al., 2021, Sections 7 and 8).

One update of the context distribution an iteration, from the episodes finished since the last one. A schedule says what each
update is (`spjax.self_paced.schedules`): `Proportion` weighs the KL divergence to the target by alpha = zeta * return / KL,
zero for the first K_alpha updates; `Bound` approaches the target as long as the expected performance stays above V_LB.

The published results count K_alpha differently from the paper (alpha is zero for the first K_alpha - 1 updates) and constrain
KL(old || new) where the paper prints KL(new || old); the presets come in both variants.

The paper ends ball catching with "a promising direction ... is to combine ideas of SPDL and methods such as ALP-GMM". With
``learning_progress`` = beta, an update maximises E[V] + beta E[ALP] - alpha KL. ALP is ALP-GMM's: the absolute difference of an
episode's return to that of the nearest context before. Before means here: among the newest ``progress_capacity`` episodes of
earlier updates, so that what is compared are returns of two policies, not of one.
"""

import dataclasses
from typing import Literal

import jax.numpy as jnp
from flax import struct
from jaxtyping import PyTree

from spjax.catalogue import part
from spjax.contexts import ContextSpace
from spjax.episodes import Maybe
from spjax.self_paced.schedules import Evidence, Proportion, Schedule, gives_alpha
from spjax.settings import setting
from spjax.teachers.learning_progress import History, Remembered
from spjax.teachers.moving import Moving, MovingState, Step, solve_aim


@part("teacher", "self-paced")
@struct.dataclass
class SelfPaced(Moving):
    """SPDL: a KL-constrained step of the context distribution by what the schedule aims at."""

    schedule: Schedule = setting(Proportion(), help="what an update is")
    kl_direction: Literal["old-new", "new-old"] = setting(
        "old-new",
        static=True,
        help="what max_kl constrains: KL(old || new) or KL(new || old)",
    )
    learning_progress: float | None = setting(
        None,
        least=0,
        unit="1",
        help="beta, weight of the learning progress beside the value; None for the published objective",
    )
    progress_capacity: int = setting(
        500,
        static=True,
        least=1,
        unit="episodes",
        help="newest ones of earlier updates that learning progress is measured by",
    )

    @property
    def needs_value(self) -> bool:
        """Whether it asks the critic."""
        return self.value_source == "critic"

    def still(self, iteration: int, mean_return: float) -> str | None:
        """Returns what the schedule says of the update that came after the iteration, if one did."""
        return self.schedule.still(iteration - self.warmup, mean_return)

    def first_memory(self) -> PyTree:
        """Returns what the schedule keeps before the first update, and no episodes to measure learning progress by."""
        of_schedule = self.schedule.init(self.starts_at)
        if self.learning_progress is None:
            return of_schedule
        history = History.empty(self.progress_capacity, self.starts_at.dim)
        return Remembered.nothing(of_schedule, history, self.buffer_size)

    def move(self, state: MovingState, evidence: Evidence) -> Step:
        """Returns the solution of the problem that the schedule states, its record, and alpha."""
        if self.learning_progress is None:
            return self._solve(state, evidence)

        contexts, returns, count = evidence.contexts, evidence.returns, evidence.count
        assert returns is not None  # `Moving` gives both
        assert count is not None
        remembered: Remembered = evidence.memory
        fresh = remembered.fresh(count)
        measured = remembered.history.progress(contexts, returns)
        progress = jnp.where(fresh, measured, remembered.progress)
        step = self._solve(
            state,
            dataclasses.replace(
                evidence,
                values=evidence.values + self.learning_progress * progress,
                memory=remembered.schedule,
            ),
        )
        mask = evidence.mask
        history = remembered.history.extended(contexts, returns, mask & fresh)
        seen = count if self.sliding_window else jnp.zeros_like(count)
        return dataclasses.replace(
            step,
            memory=Remembered(step.memory, history, progress, seen),
            learning_progress=Maybe.mean(progress, mask),
        )

    def check(self, space: ContextSpace) -> None:
        """Checks, beside the rest, that learning progress has a place in the updates."""
        super().check(space)
        wanted = self.learning_progress is not None
        if wanted and not gives_alpha(self.schedule, self.starts_at, self.aims_at):
            raise ValueError(
                "teacher.learning_progress needs a schedule that gives alpha, such as proportion; "
                f"a bound is one of the value alone, got {self.schedule!r}"
            )

    def _solve(self, state: MovingState, evidence: Evidence) -> Step:
        """Returns the step that the schedule states."""
        aim = self.schedule.aim(evidence)
        new, record, alpha = solve_aim(
            aim,
            state.distribution,
            self.aims_at,
            (evidence.contexts, evidence.values, evidence.mask),
            state.reached,
            max_kl=self.max_kl,
            kl_direction=self.kl_direction,
            std_floor=self.floor(evidence, evidence.contexts.shape[1]),
        )
        return Step(new, record, alpha, aim.memory)
