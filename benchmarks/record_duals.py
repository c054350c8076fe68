"""Records duals of real trainings: ``python -m benchmarks.record_duals`` writes ``tests/episodic/data/duals.npz``.

Trains SPRL and C-REPS once in both settings of the gate and keeps 25 duals of each, evenly spread over the training: what the
dual of that iteration was minimised for, in single precision as it was computed. Features are left out; they are functions of
the contexts.
"""

from typing import Any

import jax
import numpy as np

import spjax
from benchmarks.dual_problems import RECORDED

NUM_RECORDED = 25  # of each training


def record(setting: str, method: str) -> list[dict[str, np.ndarray]]:
    """Returns the data of the duals of one training."""
    config = spjax.preset(f"gate-{setting}", agent=method)
    learner, task = config.agent, config.env
    iterate = jax.jit(lambda state, key: learner.iterate(state, task, key))
    key = jax.random.key(0)
    state = jax.jit(lambda key: learner.init(key, task))(jax.random.fold_in(key, config.num_iterations))
    kept = np.linspace(0, config.num_iterations - 1, NUM_RECORDED).round().astype(int)
    duals = []
    for iteration in range(config.num_iterations):
        before = state
        state, metrics = iterate(state, jax.random.fold_in(key, iteration))
        if iteration in kept:
            duals.append(
                {
                    "contexts": state.buffer.contexts.reshape(-1, 2),
                    "rewards": state.buffer.rewards.reshape(-1),
                    "mean_features": before.mean_features,
                    "current_mean": before.contexts.mean,
                    "current_cov": before.contexts.covariance,
                    "target_mean": task.target.mean,
                    "target_cov": task.target.covariance,
                    "alpha": metrics.curriculum.alpha if method == "sprl" else 0.0,
                    "max_kl": learner.max_kl,
                    "widest_centre": learner.value_features.upper[1],
                    "sprl": method == "sprl",
                }
            )
    return [{name: np.asarray(value, np.float32) for name, value in dual.items()} for dual in duals]


def main() -> None:
    """Trains and writes."""
    duals = [
        dual for setting in ("precision", "global") for method in ("sprl", "creps") for dual in record(setting, method)
    ]
    RECORDED.parent.mkdir(exist_ok=True)
    columns: Any = {name: np.stack([dual[name] for dual in duals]) for name in duals[0]}
    np.savez_compressed(RECORDED, **columns)
    print(f"{len(duals)} duals, {RECORDED.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
