"""Self-paced curricula for reinforcement learning, jitted end to end (Klink et al., JMLR 22, 2021)."""

from spjax.presets import preset
from spjax.training.train import resume, train

__version__ = "0.1.0"
__all__ = ["preset", "resume", "train"]
