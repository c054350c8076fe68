"""A teacher without a task of this package: where it gets its distributions from, and whether it can do without the rest."""

import dataclasses

from jaxtyping import Array, Float, PyTree

from spjax import catalogue, settings
from spjax.contexts import ContextDistribution, ContextSpace
from spjax.envs.base import EnvState, Task
from spjax.teachers import Teacher
from spjax.trees import as_leaves


@dataclasses.dataclass(frozen=True)
class Elsewhere(Task):
    """A task that runs elsewhere; what teachers take from it."""

    space: ContextSpace
    starts: ContextDistribution | None
    aims: ContextDistribution | None

    collected = "slots"
    horizon = 0
    control_period = 0.0

    @property
    def context_space(self) -> ContextSpace:
        """The bounds of the contexts."""
        return self.space

    @property
    def initial(self) -> PyTree:
        """The distribution that the curriculum starts from; None where the teacher has its own or needs none."""
        return self.starts

    @property
    def target(self) -> PyTree:
        """The distribution that counts in the end, likewise."""
        return self.aims

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """It is not seen from here."""
        raise NotImplementedError


def bound(
    teacher: object,
    space: object,
    initial: ContextDistribution | None,
    target: ContextDistribution | None,
) -> Teacher:
    """Returns the teacher bound to a task elsewhere, its settings as arrays.

    Raises:
        ValueError: one sentence; no teacher, no space, settings out of range, distributions that are missing or do not fit, or
            a teacher that needs one of this package's agents.
    """
    if not isinstance(teacher, Teacher):
        raise ValueError(f"teacher must be a Teacher, got {settings.named(teacher)}")
    if not isinstance(space, ContextSpace):
        raise ValueError(f"space must be a ContextSpace, got {settings.named(space)}")
    name = catalogue.name_of(teacher)
    if teacher.fits_contexts:
        raise ValueError(
            f"{name} fits contexts together with the policy of an agent of this package; take self-paced instead"
        )
    if teacher.needs_value:
        raise ValueError(
            f"{name} asks the critic of an agent of this package, and there is none; make it with value_source='return'"
        )
    settings.check("teacher", teacher)
    teacher = teacher.bound_to(Elsewhere(space, initial, target))
    teacher.check(space)
    return as_leaves(teacher)
