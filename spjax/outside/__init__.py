"""Teachers for training loops that are not of this package: NumPy in and out, Gymnasium, Stable-Baselines3."""
