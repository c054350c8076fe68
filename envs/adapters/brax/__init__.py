"""Brax and spjax: tasks for Brax's learners, a teacher inside their compiled programs, and Brax's environments as tasks.

    from brax.training.agents.ppo import train as ppo
    from spjax.envs.adapters import brax

    task = PointMass(dimensions=2)
    ppo.train(
        environment=brax.BraxTask(task),
        eval_env=brax.BraxTask(task, contexts=task.target),
        wrap_env_fn=brax.wrap(SelfPaced(value_source="return"), every=128),
        episode_length=task.horizon,
        ...
    )

`BraxTask` is a task of spjax as an environment of Brax, `wrap` the teacher, and `FromBrax` the way back: an environment of
Brax or of MuJoCo Playground as a task with contexts.
"""

try:
    import brax  # noqa: F401
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "spjax.envs.adapters.brax needs Brax: pip install 'spjax[brax]'"
    ) from None

from spjax.envs.adapters.brax.learners import mend
from spjax.envs.adapters.brax.source import FromBrax
from spjax.envs.adapters.brax.task import BraxTask
from spjax.envs.adapters.brax.teacher import wrap

__all__ = ["BraxTask", "FromBrax", "mend", "wrap"]
