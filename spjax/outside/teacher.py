"""A teacher with NumPy arrays in and out, for training loops that are not of this package.

An iteration of such a loop:

    teacher = NumpyTeacher(SelfPaced(value_source="return"), space, initial, target)
    contexts = teacher.sample(16)
    metrics = teacher.tell(contexts, returns, successes)
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Self

import jax
import numpy as np
from jaxtyping import Float, PyTree

from spjax import catalogue
from spjax.contexts import ContextDistribution, ContextSpace
from spjax.envs.base import Task
from spjax.episodes import Maybe
from spjax.outside import checks
from spjax.outside.binding import bound
from spjax.outside.checks import Numbers
from spjax.outside.driver import Driver
from spjax.outside.rows import Ledger, Row, from_named, stacked
from spjax.teachers import Teacher
from spjax.trees import by_path

MAX_OPEN = 65536  # contexts that were handed out and not told; older ones are forgotten
TABLES = ("open", "recorded", "waiting")

Metrics = dict[str, float | np.ndarray]


class NumpyTeacher:
    """Any teacher of this package, asked for contexts and told how they went.

    The first `sample` and the first `tell` compile, some seconds each; after that both answer in milliseconds, whatever the
    number of contexts and episodes (up to 1,024 episodes; 4,096, 16,384, ... compile once more). The returns are what the
    teacher goes by: give discounted ones where its settings are meant for these. There is no critic here, so a self-paced
    teacher goes by ``value_source="return"``.

    A context that is told must have been handed out by `sample`, bit for bit, and is told once; by it the teacher's own note on
    an episode (GoalGAN's ticket, for example) finds its way back. Episodes that are never finished need not be told. One call
    of `tell` or `update` is one iteration, as `warmup` counts them.

    It lives in the process that made it; `state_dict` carries it to another.
    """

    def __init__(
        self,
        teacher: Teacher,
        space: ContextSpace,
        initial: ContextDistribution | None = None,
        target: ContextDistribution | None = None,
        seed: int = 0,
    ) -> None:
        """Makes the teacher's first state.

        Args:
            teacher: how contexts are chosen.
            space: names, units and bounds of the contexts.
            initial: contexts to start from, for teachers that move and do not have it yet.
            target: contexts that count, likewise.
            seed: of all that the teacher draws.

        Raises:
            ValueError: one sentence, before anything compiles.
        """
        ready = bound(teacher, space, initial, target)
        self._name = catalogue.name_of(ready)
        self._space = space
        self._seed = checks.seed_of(seed)
        self._process = os.getpid()
        self._draws = self._updates = 0
        try:
            self._driver = Driver(ready, space)
        except ValueError as problem:  # a distribution is missing
            raise ValueError(f"{self._name}: {problem}") from None
        self._blank = self._driver.blank
        self._state = self._driver.start(self._seed)
        self._open = Ledger(MAX_OPEN)
        self._recorded: list[Row] = []
        self._waiting: list[Row] = []  # told, and no context followed yet

    @classmethod
    def for_task(cls, teacher: Teacher, task: Task, seed: int = 0) -> Self:
        """Returns the teacher of a task of this package, which says the space and the distributions."""
        return cls(teacher.bound_to(task), task.context_space, seed=seed)

    @property
    def space(self) -> ContextSpace:
        """Names, units and bounds of the contexts."""
        return self._space

    @property
    def recorded(self) -> int:
        """How many episodes the next `update` will learn from."""
        return len(self._recorded)

    def sample(self, count: int = 1) -> Float[np.ndarray, "count dim"]:
        """Returns so many contexts inside the bounds, in single precision.

        Raises:
            ValueError: not a whole number of at least 1; or, of a teacher that composes batches, the last one is not told yet.
        """
        count = checks.count_of(count)
        self._check_process()
        if self._driver.composes:
            self._check_all_told("makes one at a time")
            rows = self._driver.batch(self._state, self._seed, self._draws, count)
        else:
            rows = self._driver.draw(
                self._state, self._seed, self._draws, count, self._waiting
            )
        self._draws += count
        for row in rows:
            self._open.add(row)
        return np.stack([row.context for row in rows])

    def record(self, contexts: Numbers, returns: Numbers, successes: Numbers) -> None:
        """Takes note of finished episodes for the next `update`; the teacher stays as it is.

        Args:
            contexts: [episode, dim], as `sample` gave them.
            returns: [episode], finite.
            successes: [episode], True or False.

        Raises:
            ValueError: one sentence; nothing is noted then.
        """
        given = checks.contexts_of(contexts, self._space)
        totals = checks.returns_of(returns, len(given))
        whether = checks.successes_of(successes, len(given))
        self._check_process()
        stranger = self._open.unknown(given)
        if stranger is not None:
            where = self._space.describe(given[stranger].tolist())
            raise ValueError(
                f"contexts[{stranger}] ({where}) was not handed out by sample, or was told already"
            )
        for context, total, success in zip(given, totals, whether, strict=True):
            row = self._open.take(context)
            row = row._replace(
                episode_return=np.asarray(total), success=np.asarray(success)
            )
            self._recorded.append(row)
            self._waiting.append(row)

    def update(self) -> Metrics:
        """Learns from the recorded episodes and returns the teacher's metrics; what there is nothing to say of is left out.

        Raises:
            ValueError: no episode is recorded; or, of a teacher that composes batches, not the whole batch.
            FloatingPointError: the teacher's numbers would not be finite any more; it stays as it was.
        """
        if not self._recorded:
            raise ValueError("there is no finished episode to learn from")
        if self._driver.composes:
            self._check_all_told("learns from them whole")
        state, metrics, finite = self._driver.learn(
            self._state, self._seed, self._updates, self._recorded
        )
        if not finite:
            raise FloatingPointError(
                f"the update of {self._name} gave numbers that are not finite; the teacher stays as it was"
            )
        self._state = state
        self._updates += 1
        self._recorded = []
        return _named(metrics)

    def tell(self, contexts: Numbers, returns: Numbers, successes: Numbers) -> Metrics:
        """Records finished episodes and updates; arguments and errors as of `record` and `update`."""
        self.record(contexts, returns, successes)
        return self.update()

    def state_dict(self) -> dict[str, np.ndarray]:
        """Returns everything that the teacher has become, as arrays by name, for ``np.savez`` or ``pickle``."""
        tables = (list(self._open), self._recorded, self._waiting)
        arrays = {
            "seed": np.asarray(self._seed),
            "draws": np.asarray(self._draws),
            "updates": np.asarray(self._updates),
        }
        for name, leaf in by_path(self._state).items():
            arrays[f"state/{name}"] = np.array(leaf)
        for name, rows in zip(TABLES, tables, strict=True):
            for column, array in stacked(rows, self._blank).named().items():
                arrays[f"{name}/{column}"] = array
        return arrays

    def load_state_dict(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Goes on as the teacher did that `state_dict` was taken from, with the same bits; ``np.load`` gives the argument.

        Raises:
            ValueError: one sentence; of another teacher or space, or not finite. Nothing changes then.
        """
        mine = self.state_dict()
        given = {name: np.asarray(arrays[name]) for name in arrays}
        for name in [*mine, *given]:
            self._check_array(name, mine.get(name), given.get(name))
        tables = [
            from_named(
                {
                    name: given[f"{table}/{name}"]
                    for name in stacked([], self._blank).named()
                },
                self._blank,
            )
            for table in TABLES
        ]
        leaves = [given[f"state/{name}"] for name in by_path(self._state)]
        self._state = jax.tree.unflatten(jax.tree.structure(self._state), leaves)
        self._seed = np.uint32(given["seed"])
        self._draws, self._updates = int(given["draws"]), int(given["updates"])
        self._open = Ledger(MAX_OPEN, tables[0])
        self._recorded, self._waiting = tables[1], tables[2]

    def _check_all_told(self, why: str) -> None:
        if len(self._open):
            raise ValueError(
                f"{self._name} composes batches and {why}, {len(self._open)} episodes of the last one are not told yet"
            )

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ValueError(
                "a NumpyTeacher lives in the process that made it; run its environments there, or carry its state_dict over"
            )

    def _check_array(
        self, name: str, mine: np.ndarray | None, given: np.ndarray | None
    ) -> None:
        if mine is None or given is None:
            problem = "missing" if given is None else "unknown"
        else:
            skip = int(name.partition("/")[0] in TABLES)  # any number of rows
            is_ = (given.dtype, given.shape[skip:])
            if is_ == (mine.dtype, mine.shape[skip:]) and given.ndim == mine.ndim:
                if given.dtype.kind != "f" or np.isfinite(given).all():
                    return
                problem = "not finite"
            else:
                problem = f"{given.dtype}{list(given.shape)} instead of {mine.dtype}{list(mine.shape)}"
        raise ValueError(f"the state is of another teacher: {name} is {problem}")


def _named(metrics: PyTree, prefix: str = "") -> Metrics:
    """Returns numbers and arrays under the paths of their fields."""
    found: Metrics = {}
    for field in dataclasses.fields(metrics) if metrics is not None else ():
        value = getattr(metrics, field.name)
        if isinstance(value, Maybe):
            value = value.value if value.present else None
        if dataclasses.is_dataclass(value):
            found |= _named(value, f"{prefix}{field.name}.")
        elif value is not None:
            array = np.array(value)
            found[prefix + field.name] = array if array.ndim else array.item()
    return found
