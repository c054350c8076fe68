"""The cells of the published comparisons: one learner and curriculum on one task, with its seeds.

Presets have the hyperparameters of the released code, with which the published numbers most plausibly came about. Where the
paper prints others for ALP-GMM and GoalGAN on the point mass, a second cell has those; its name ends in ``_printed``. What
the paper marks with an asterisk ends in ``_starred``.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import spjax
from benchmarks.paper.pictures.curricula import CURRICULA, Curriculum
from spjax.presets.point_mass import ALP_GMM, GOAL_GAN
from spjax.presets.published import published
from spjax.runs.schema import Reference
from spjax.settings import put
from spjax.training.config import RunConfig
from spjax.training.trajectories import EPISODES_PER_LANE

ENVS = ("point-mass-3d", "point-mass-2d")  # of the tables
AGENTS = ("trpo", "ppo", "sac")
PRINTED_SUFFIX = "printed"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One learner and curriculum on one task."""

    env: str
    agent: str
    curriculum: Curriculum
    suffix: str = ""  # of the name, for cells that differ from the preset
    settings: Mapping[str, Any] = dataclasses.field(
        default_factory=dict
    )  # in place of the preset's: "task.case", "teacher.schedule.zeta"
    over: Mapping[str, tuple[Any, ...]] = dataclasses.field(
        default_factory=dict
    )  # swept, as in RunConfig
    num_seeds: int = 20  # published
    num_iterations: int | None = None  # in place of the preset's

    @property
    def name(self) -> str:
        """The name of the run folder."""
        curriculum = self.curriculum
        starred = "starred" if curriculum.starred else ""
        parts = (
            self.env,
            self.agent,
            curriculum.teacher,
            curriculum.schedule,
            starred,
            self.suffix,
        )
        return "_".join(part for part in parts if part)

    @property
    def kept_episodes(self) -> int:
        """How many trajectories of each lane are kept: of the ant all, whose figure shows them."""
        return EPISODES_PER_LANE if self.env == "ant" else 1

    @property
    def printed(self) -> bool:
        """Whether the hyperparameters are those that the paper prints, not those of the released code."""
        return self.suffix == PRINTED_SUFFIX

    @property
    def starred_settings(self) -> dict[str, Any]:
        """What the paper's asterisk changes: Default lacks the cloned policy, the others start at the initial contexts."""
        if not self.curriculum.starred:
            return {}
        return (
            {"hold_position": False}
            if self.curriculum.teacher == "default"
            else {"start": "initial"}
        )

    @property
    def reference(self) -> Reference | None:
        """What is in print about the cell, whatever hyperparameters it has."""
        catching, starred = self.env == "ball-catching", self.curriculum.starred
        teacher, schedule = self.curriculum.teacher, self.curriculum.schedule
        start = None
        if teacher in ("self-paced", "goal-gan"):
            start = "target" if catching and not starred else "initial"
        cloned = catching and not (teacher == "default" and starred)
        return published(self.env, self.agent, teacher, schedule, start, cloned)

    def config(self, seeds: Sequence[int]) -> RunConfig:
        """Returns what to train.

        Raises:
            ValueError: there is no such preset.
        """
        method = (
            self.env,
            self.agent,
            self.curriculum.teacher,
            self.curriculum.schedule,
        )
        starred = self.starred_settings
        config = spjax.preset(*method, start=starred.get("start"))
        for setting, value in self.settings.items():
            part, _, name = setting.partition(".")
            changed = put(getattr(config, part), name, value)
            config = dataclasses.replace(config, **{part: changed})
        return dataclasses.replace(
            config,
            num_iterations=self.num_iterations or config.num_iterations,
            hold_position=starred.get("hold_position", config.hold_position),
            seeds=tuple(seeds),
            over=dict(self.over),
        )


_ALP_GMM = ("random_fraction", "num_rollouts", "buffer_size")
_GOAL_GAN = ("noise", "num_rollouts", "success_fraction")
PRINTED: dict[tuple[str, str, str], dict[str, Any]] = {
    (env, agent, teacher): {
        f"teacher.{name}": value for name, value in zip(names, printed, strict=True)
    }
    for teacher, names, table in (
        ("alp-gmm", _ALP_GMM, ALP_GMM),
        ("goal-gan", _GOAL_GAN, GOAL_GAN),
    )
    for (env, agent), (printed, released) in table.items()
    if printed != released
}


def cells_of(env: str, agent: str, curriculum: Curriculum) -> list[Cell]:
    """Returns the cell of the released hyperparameters and, where the paper prints others, the cell of those."""
    cells = [Cell(env, agent, curriculum)]
    if printed := PRINTED.get((env, agent, curriculum.teacher)):
        cells.append(Cell(env, agent, curriculum, PRINTED_SUFFIX, printed))
    return cells


def comparison(
    envs: Sequence[str] = ENVS, agents: Sequence[str] = AGENTS
) -> list[Cell]:
    """Returns the cells of all curricula."""
    return [
        cell
        for env in envs
        for agent in agents
        for curriculum in CURRICULA
        for cell in cells_of(env, agent, curriculum)
    ]
