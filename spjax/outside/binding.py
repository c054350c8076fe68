"""A teacher without a task of this package: where it gets its distributions from, and whether it can do without the rest."""

import dataclasses

from jaxtyping import Array, Float

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
    def initial(self) -> ContextDistribution:
        """The distribution that the curriculum starts from, of a teacher that needs one."""
        return self.starts  # type: ignore[return-value]

    @property
    def target(self) -> ContextDistribution:
        """The distribution that counts in the end, of a teacher that needs one."""
        return self.aims  # type: ignore[return-value]

    def trace(self, state: EnvState) -> Float[Array, "2"]:
        """It is not seen from here."""
        raise NotImplementedError


def bound(
    teacher: Teacher,
    space: ContextSpace,
    initial: ContextDistribution | None,
    target: ContextDistribution | None,
) -> Teacher:
    """Returns the teacher bound to a task elsewhere, its settings as arrays.

    Raises:
        ValueError: one sentence; no teacher, no space, settings out of range, distributions that are missing or do not fit, or
            a teacher that needs one of this package's agents.
    """
    for value, contract, what in (
        (teacher, Teacher, "teacher"),
        (space, ContextSpace, "space"),
    ):
        if not isinstance(value, contract):
            raise ValueError(
                f"{what} must be a {contract.__name__}, got {settings.named(value)}"
            )
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
