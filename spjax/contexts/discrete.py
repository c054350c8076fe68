"""Discrete context distributions: a weight for each row of a table of contexts.

For tasks that cannot be varied continuously (levels, mazes, objects), and for a continuous space cut into cells.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from spjax.catalogue import part
from spjax.contexts.base import ContextDistribution, Summary, decimals
from spjax.contexts.space import ContextSpace
from spjax.settings import Declared, Setting, Value
from spjax.solvers.series import expm1_minus

if TYPE_CHECKING:
    from spjax.contexts.discrete_chart import DiscreteChart


_ROWS = Setting(unit="context units", help="a row for each context")
_WEIGHTS = Setting(least=0, help="of the rows; None for equal ones")
_FILE = Setting(
    static=True,
    help="CSV with a row for each context; a last column named weight has theirs",
)
_DECLARED = {
    "table": Declared("table", tuple[tuple[float, ...], ...] | None, None, _ROWS),
    "weights": Declared("weights", tuple[float, ...] | None, None, _WEIGHTS),
    "file": Declared("file", str | None, None, _FILE),
}


@part("distribution", "discrete")
@struct.dataclass
class Discrete(ContextDistribution):
    """Probabilities softmax(logits) over the rows of a table; a pytree, so it vmaps over seeds as it is."""

    table: Float[Array, "N dim"]  # the contexts, all different, context units
    logits: Float[
        Array, " N"
    ]  # log weights, nats, up to a constant; -infinity for a context that never comes

    @classmethod
    def from_weights(
        cls,
        table: ArrayLike | Sequence[Sequence[float]],
        weights: ArrayLike | Sequence[float],
    ) -> "Discrete":
        """Returns the distribution with probabilities in proportion to the weights. Call it outside jit.

        Raises:
            ValueError: the shapes disagree, a weight is negative or not finite, or all are zero.
        """
        rows, shares = np.asarray(table, dtype=float), np.asarray(weights, dtype=float)
        if rows.ndim != 2 or shares.shape != rows.shape[:1]:
            raise ValueError(
                f"a table of shape [N, dim] needs N weights, got table {rows.shape} and weights {shares.shape}"
            )
        if not (np.isfinite(shares) & (shares >= 0)).all() or not shares.any():
            raise ValueError(
                f"weights must be finite, at least 0 and not all 0, got {shares.tolist()}"
            )
        with np.errstate(divide="ignore"):
            logits = np.log(shares / shares.max())
        return cls(
            table=jnp.asarray(rows, dtype=float),
            logits=jnp.asarray(logits, dtype=float),
        )

    @classmethod
    def uniform(cls, table: ArrayLike | Sequence[Sequence[float]]) -> "Discrete":
        """Returns equal weights for the rows of a table; raises as `from_weights` does."""
        return cls.from_weights(table, np.ones(len(np.asarray(table))))

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        """Returns the settings: the table, its weights, or a file with both."""
        return _DECLARED

    def settings(self) -> dict[str, Value]:
        """Returns the table and its weights, the largest of which is 1."""
        weights = _on_host(self.logits)
        return {
            "table": decimals(self.table),
            "weights": decimals(weights),
            "file": None,
        }

    @classmethod
    def made(cls, **values: Value) -> "Discrete":
        """Returns the distribution with these settings.

        Raises:
            ValueError: neither a table nor a file is given, or both; the file cannot be read; and as `from_weights`.
        """
        table: ArrayLike | None = values.get("table")
        weights: ArrayLike | None = values.get("weights")
        file: str | None = values.get("file")
        if file is not None and table is None:
            return _read(file)
        if table is None or file is not None:
            raise ValueError("a discrete distribution needs either a table or a file")
        return (
            cls.uniform(table) if weights is None else cls.from_weights(table, weights)
        )

    def changed(self, **values: Value) -> "Discrete":
        """Returns the distribution with other values of these settings; a file replaces the table and its weights."""
        if values.get("file") is not None:
            return self.made(**values)
        return self.made(**{**self.settings(), **values})

    @property
    def dim(self) -> int:
        """The number of context dimensions."""
        return self.table.shape[-1]

    @property
    def chart(self) -> "DiscreteChart":
        """Log ratios to the old probabilities, with an exact solve."""
        from spjax.contexts.discrete_chart import (
            DiscreteChart,
        )  # which needs the class Discrete

        return DiscreteChart()

    @property
    def log_probs(self) -> Float[Array, " N"]:
        """The log probabilities of the rows, nats."""
        return jax.nn.log_softmax(self.logits)

    @property
    def probs(self) -> Float[Array, " N"]:
        """The probabilities of the rows."""
        return jax.nn.softmax(self.logits)

    def sample(
        self, key: Array, space: ContextSpace | None = None
    ) -> Float[Array, " dim"]:
        """Returns one row; `check` sees to it that all of them lie inside the space."""
        return self.table[jax.random.categorical(key, self.logits)]

    def nearest(self, context: Float[Array, " dim"]) -> Int[Array, ""]:
        """Returns the number of the row nearest to a context, distances in units of the table's extent."""
        extent = self.table.max(axis=0) - self.table.min(axis=0)
        scale = jnp.where(extent > 0, extent, 1.0)
        apart = (context / scale)[None] - self.table / scale[None]
        distances = (apart**2).sum(axis=1)
        numbers = jnp.arange(len(self.table), dtype=jnp.int32)
        # Not argmin, which cannot be lowered in a region of float64.
        return jnp.where(
            distances <= distances.min(), numbers, len(self.table) - 1
        ).min()

    def log_prob(self, context: Float[Array, " dim"]) -> Float[Array, ""]:
        """Returns the log probability of the row nearest to a context, nats."""
        return self.log_probs[self.nearest(context)]

    def summary(self) -> Summary:
        """Returns mean and covariance."""
        mean = self.probs @ self.table
        apart = self.table - mean[None]
        return Summary(mean=mean, covariance=(self.probs[:, None] * apart).T @ apart)

    def kl_to(self, other: "Discrete") -> Float[Array, ""]:
        """Returns KL(self || other) in nats, by rows; infinite where the other never gives what this one does."""
        probs, other_probs = self.probs, other.probs
        common = (probs > 0) & (other_probs > 0)
        ratio = jnp.where(
            common, other.log_probs - jnp.where(common, self.log_probs, 0.0), 0.0
        )
        inside = probs * expm1_minus(ratio) + jnp.where(
            probs > 0, 0.0, other_probs
        )  # each term is >= 0
        return jnp.where((probs > 0) & (other_probs == 0), jnp.inf, inside).sum()

    def check(self, space: ContextSpace, what: str) -> None:
        """Checks that there are at least two different rows, all in the space, and that the logits give probabilities.

        Raises:
            ValueError: one sentence that names the row.
        """
        table, logits = np.asarray(self.table), np.asarray(self.logits)
        if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] != space.size:
            raise ValueError(
                f"{what} needs a table of at least 2 rows of {space.size} values ({', '.join(space.names)}), "
                f"got shape {table.shape}"
            )
        if logits.shape != table.shape[:1]:
            raise ValueError(
                f"{what} needs one weight a row, got {len(table)} rows and weights of shape {logits.shape}"
            )
        for number, row in enumerate(table):
            space.check(
                [float(str(value)) for value in row],
                f"{what}: row {number} of the table",
            )
        _, first, counts = np.unique(
            table, axis=0, return_index=True, return_counts=True
        )
        if len(first) < len(table):
            twice = table[first[counts > 1][0]]
            raise ValueError(
                f"{what}: the rows of the table must differ, got {twice.tolist()} more than once"
            )
        if not (logits < np.inf).all() or not (logits > -np.inf).any():
            raise ValueError(
                f"{what}: weights must be finite, at least 0 and not all 0, got logits {logits.tolist()}"
            )

    def check_target(self, target: ContextDistribution) -> None:
        """Checks that the target is over the same table and has mass wherever this one has.

        Raises:
            ValueError: see above; of weights and rows only where they can be seen (outside jit).
        """
        super().check_target(target)
        assert isinstance(target, Discrete)
        if target.table.shape != self.table.shape:
            raise ValueError(
                f"old and target must share one table, got shapes {self.table.shape} and {target.table.shape}"
            )
        if any(
            isinstance(leaf, jax.core.Tracer)
            for leaf in jax.tree.leaves((self, target))
        ):
            return
        if not np.array_equal(self.table, target.table):
            raise ValueError(
                "old and target must share one table, got tables that differ in their rows"
            )
        missing = np.flatnonzero(
            (_on_host(target.logits) == 0) & (_on_host(self.logits) > 0)
        )
        if missing.size:
            raise ValueError(
                f"the target has no weight on row {missing[0]}, where the old distribution has: KL(new || target) would be "
                "infinite; give that row a small weight, or none in both"
            )

    def is_usable(self) -> Bool[Array, ""]:
        """Returns whether rows are finite and logits give probabilities."""
        logits = self.logits
        return (
            jnp.isfinite(self.table).all()
            & (logits < jnp.inf).all()
            & (logits > -jnp.inf).any()
        )


def _on_host(logits: Float[Array, " N"]) -> np.ndarray:
    """Returns weights, the largest of which is 1, without tracing anything."""
    values = np.asarray(logits)
    return np.exp(values - values.max())


def _read(file: str) -> Discrete:
    """Returns what a CSV file holds; a row that is no numbers, at the top, is taken for names."""
    path = Path(file)
    if not path.is_file():
        raise ValueError(f"there is no file {path} with a table of contexts")
    rows = [
        line.split(",")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip()
    ]
    header = rows[:1] if rows and not _are_numbers(rows[0]) else []
    body = rows[len(header) :]
    for number, row in enumerate(body, len(header) + 1):
        if not _are_numbers(row) or len(row) != len(body[0]):
            raise ValueError(
                f"{path}, line {number}: a table of contexts needs {len(body[0])} numbers, got {','.join(row)}"
            )
    table = np.asarray(body, dtype=float)
    if header and header[0][-1].strip() == "weight":
        return Discrete.from_weights(table[:, :-1], table[:, -1])
    return Discrete.uniform(table)


def _are_numbers(words: list[str]) -> bool:
    try:
        [float(word) for word in words]
    except ValueError:
        return False
    return True
