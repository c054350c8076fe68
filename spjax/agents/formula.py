"""A deterministic policy as plain arrays, for programs without JAX.

What it computes, from an observation or a context x:

    normalised    x = clip((x - mean) / scale, -clip, clip)
    features      x = products of powers of x, "exponents", or bumps around "centres" and a constant; nothing for networks
    layers        x = x kernel_i + bias_i, with a tanh between two of them
    squashed      x = lower + (tanh(x) + 1) / 2 (upper - lower)
    bounds        x = clip(x, lower, upper)

`docs/numpy_policy.py` reads a file of them.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from jaxtyping import Array, Float, PyTree

Layer = tuple[np.ndarray, np.ndarray]  # kernel [in, out], bias [out]


@dataclasses.dataclass(frozen=True)
class Formula:
    """What a deterministic policy is made of; float32 but for the exponents."""

    layers: tuple[Layer, ...]
    lower: Float[np.ndarray, " output"]
    upper: Float[np.ndarray, " output"]
    squashed: bool = False
    mean: Float[np.ndarray, "*input"] = dataclasses.field(
        default_factory=lambda: np.zeros((), np.float32)
    )
    scale: Float[np.ndarray, "*input"] = dataclasses.field(
        default_factory=lambda: np.ones((), np.float32)
    )
    clip: float = np.inf  # of the normalised input
    features: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_network(
        cls,
        params: PyTree,
        lower: Sequence[float],
        upper: Sequence[float],
        *,
        squashed: bool = False,
        normalised: tuple[Array, Array, float] | None = None,
    ) -> Self:
        """Returns that of a tanh network, whose first outputs are the action.

        Args:
            params: of a `spjax.agents.step_based.networks.MLP`.
            lower: bounds of the action.
            upper: the same.
            squashed: whether the outputs are squashed into the bounds.
            normalised: mean, scale and clip of observations; None where they go in as they are.
        """
        dense = [params[f"Dense_{number}"] for number in range(len(params))]
        layers = [
            (np.asarray(layer["kernel"]), np.asarray(layer["bias"])) for layer in dense
        ]
        kernel, bias = layers[-1]
        layers[-1] = kernel[:, : len(lower)], bias[: len(lower)]

        formula = cls(
            layers=tuple(layers),
            lower=np.asarray(lower, np.float32),
            upper=np.asarray(upper, np.float32),
            squashed=squashed,
        )
        if normalised is None:
            return formula
        mean, scale, clip = normalised
        return dataclasses.replace(
            formula, mean=np.asarray(mean), scale=np.asarray(scale), clip=clip
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the arrays by name."""
        return {
            "mean": self.mean,
            "scale": self.scale,
            "clip": np.asarray(self.clip, np.float32),
            **self.features,
            **{f"kernel{number}": kernel for number, (kernel, _) in self._numbered},
            **{f"bias{number}": bias for number, (_, bias) in self._numbered},
            "squashed": np.asarray(self.squashed),
            "lower": self.lower,
            "upper": self.upper,
        }

    @property
    def _numbered(self) -> list[tuple[int, Layer]]:
        return list(enumerate(self.layers))
