"""The checks that a teacher's settings go through before a training."""

from spjax import settings


def check(teacher, space):
    """Checks the range of each setting, then how they go together."""
    settings.check("teacher", teacher)
    teacher.check(space)
