"""Self-paced curricula for reinforcement learning, jitted end to end (Klink et al., JMLR 22, 2021)."""

__version__ = "0.1.0"
