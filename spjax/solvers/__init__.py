"""Constrained minimisation that jits, vmaps and differentiates; knows nothing of reinforcement learning."""
