"""The paper's idea: how fast and where the task distribution may move."""

from spjax.self_paced.context_update import ContextUpdate, Mode, update_context
from spjax.self_paced.schedules import alpha_proportion

__all__ = ["ContextUpdate", "Mode", "alpha_proportion", "update_context"]
