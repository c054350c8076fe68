"""Records duals of real trainings: ``python -m benchmarks.record_duals`` writes ``tests/agents/episodic/data/duals.npz``.

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
    experiment = config.experiment(config.lanes()[0])
    learner, target = config.agent, experiment.teacher.aims_at
    step = jax.jit(experiment.step)
    state = jax.jit(experiment.init)(jax.random.key(0))
    kept = np.linspace(0, config.num_iterations - 1, NUM_RECORDED).round().astype(int)
    duals = []
    for iteration in range(config.num_iterations):
        before = state
        state, metrics = step(before)
        if iteration in kept:
            current = before.teacher_state.distribution if method == "sprl" else target
            duals.append(
                {
                    "contexts": state.agent_state.buffer.contexts.reshape(-1, 2),
                    "rewards": state.agent_state.buffer.rewards.reshape(-1),
                    "mean_features": before.agent_state.mean_features,
                    "current_mean": current.mean,
                    "current_cov": current.covariance,
                    "target_mean": target.mean,
                    "target_cov": target.covariance,
                    "alpha": metrics.teacher.alpha if method == "sprl" else 0.0,
                    "max_kl": learner.max_kl,
                    "widest_centre": learner.value_features.upper[1],
                    "sprl": method == "sprl",
                }
            )
    return [
        {name: np.asarray(value, np.float32) for name, value in dual.items()}
        for dual in duals
    ]


def main() -> None:
    """Trains and writes."""
    duals = [
        dual
        for setting in ("precision", "global")
        for method in ("sprl", "c-reps")
        for dual in record(setting, method)
    ]
    RECORDED.parent.mkdir(exist_ok=True)
    columns: Any = {name: np.stack([dual[name] for dual in duals]) for name in duals[0]}
    np.savez_compressed(RECORDED, **columns)
    print(f"{len(duals)} duals, {RECORDED.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
