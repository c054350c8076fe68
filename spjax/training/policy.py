"""A trained policy as a function of NumPy arrays, taken out of a run folder."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from numpy.typing import ArrayLike

from spjax import catalogue, settings
from spjax.runs import files
from spjax.runs.schema import Lane
from spjax.settings import Value
from spjax.training.config import RunConfig
from spjax.training.experiment import Experiment
from spjax.training.run_folder import read_config
from spjax.training.train import restore


class Policy:
    """The policy of one run: `policy(observation)` is an action.

    With an episodic agent it is asked about a context, and says the parameters of a rollout.
    """

    def __init__(
        self, experiment: Experiment, agent_state: PyTree, lane: Lane, iteration: int
    ) -> None:
        self.experiment = experiment
        self.agent_state = agent_state
        self.lane = lane
        self.iteration = iteration
        self._collector = experiment.collector
        self._decide = jax.jit(self._collector.decide)
        self._draw = jax.jit(self._collector.draw)
        self._key = jax.random.key(0)  # of draws that nobody gives a key for

    def __call__(
        self,
        asked: ArrayLike,
        deterministic: bool = True,
        key: object = None,
    ) -> Float[np.ndarray, "*batch output"]:
        """Returns actions inside their bounds, or the parameters of rollouts; a new batch size compiles anew.

        Args:
            asked: an observation [size] or several [batch, size]; of an episodic agent, contexts.
            deterministic: the action that the policy takes without exploring; False draws from it.
            key: of the draw, a JAX key or a seed; None for the next one of a generator of the policy's own.

        Raises:
            ValueError: another shape, a number that is not finite, a context outside its bounds, or a key that none is.
        """
        rows, single = self._rows(asked)
        with jax.enable_x64(False):  # as in training
            inputs = jnp.asarray(rows, jnp.float32)
            if deterministic:
                outputs = self._decide(self.agent_state, inputs)
            else:
                outputs = self._draw(self.agent_state, self._draw_key(key), inputs)
        found = np.asarray(outputs)
        return found[0] if single else found

    def export(self, path: str | Path) -> Path:
        """Writes the deterministic policy as plain arrays, see `spjax.agents.formula`; returns the file.

        Raises:
            ValueError: the file is no .npz, or the agent cannot say its policy in plain arrays.
            OSError: the file cannot be written.
        """
        path = Path(path)
        if path.suffix != ".npz":
            raise ValueError(f"a policy is exported to an .npz file, got {path}")
        formula = self.experiment.agent.formula(self.agent_state, self.experiment.task)
        arrays = {"about": np.asarray(repr(self)), **formula.arrays()}

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                np.savez(file, allow_pickle=False, **arrays)

        files.write_atomically(path, write)
        return path

    def __repr__(self) -> str:
        """Whose policy it is."""
        task, agent = (
            catalogue.name_of(part)
            for part in (self.experiment.task, self.experiment.agent)
        )
        swept = "".join(
            f", {name} = {value}" for name, value in self.lane.settings.items()
        )
        return f"{agent} on {task}, seed {self.lane.seed}{swept}, iteration {self.iteration}"

    def _rows(self, asked: ArrayLike) -> tuple[Float[np.ndarray, "row input"], bool]:
        """Returns what is asked as rows, and whether it was a single one."""
        what, size = self._collector.asked
        shape = f"{what} needs shape [{size}] or [batch, {size}]"
        try:
            array = np.asarray(asked, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{shape}, of numbers, got {asked!r}") from None
        if array.ndim not in (1, 2) or array.shape[-1] != size:
            raise ValueError(f"{shape}, got {list(array.shape)}")
        if not np.isfinite(array).all():
            raise ValueError(f"{what} needs finite numbers, got {asked!r}")
        rows = np.atleast_2d(array)
        self._collector.check_asked(rows)
        return rows, array.ndim == 1

    def _draw_key(self, key: object) -> Array:
        if key is None:
            self._key, key_draw = jax.random.split(self._key)
            return key_draw
        if isinstance(key, jax.Array) and jnp.issubdtype(
            key.dtype, jax.dtypes.prng_key
        ):
            return key
        if not isinstance(key, int | np.integer):
            raise ValueError(f"key needs a JAX key or a seed, got {key!r}")
        if not 0 <= key < 2**32:
            raise ValueError(f"a seed lies in [0, 2^32), got {key}")
        return jax.random.key(int(key))


def load_policy(
    run: str | Path,
    seed: int | None = None,
    setting: Mapping[str, Value] | None = None,
    *,
    accept_changes: bool = False,
) -> Policy:
    """Returns the newest policy of a run folder, finished or not.

    Args:
        run: the run folder.
        seed: whose policy; may be left out where the run has one seed.
        setting: value of each swept setting, such as {"teacher.schedule.zeta": 0.8}; those with one value may be left out.
        accept_changes: whether the user's own files may be others than those that the run began with.

    Raises:
        ValueError: there is no run folder, no checkpoint, or no such seed or setting.
    """
    config = read_config(Path(run), accept_changes)
    number = chosen_lane(config, seed, setting or {})
    _, program, states = restore(run, accept_changes, [number])
    return Policy(
        experiment=program.layout.one(program.experiments, 0),
        agent_state=program.layout.one(states, 0).agent_state,
        lane=config.lanes()[number],
        iteration=program.iteration(states),
    )


def chosen_lane(
    config: RunConfig, seed: int | None, setting: Mapping[str, Value]
) -> int:
    """Returns the number of the one lane with this seed and these settings; None for the only seed.

    Raises:
        ValueError: there is none, or there are several.
    """
    if seed is None and len(config.seeds) > 1:
        raise ValueError(
            f"the run has the seeds {_listed(config.seeds)}; say which one, such as seed={config.seeds[0]}"
        )
    if seed is not None and seed not in config.seeds:
        raise ValueError(
            f"seed {seed} is not in the run; its seeds are {_listed(config.seeds)}"
        )
    wanted = {name: settings.plain(value) for name, value in setting.items()}
    for name, value in wanted.items():
        if name not in config.over:
            swept = f"the run sweeps over {_listed(config.over) or 'nothing'}"
            raise ValueError(f"unknown setting {name!r}; {swept}")
        if value not in config.over[name]:
            raise ValueError(
                f"{name} = {value} is not in the run; its values are {_listed(config.over[name])}"
            )
    for name, values in config.over.items():
        if name not in wanted and len(values) > 1:
            raise ValueError(
                f"the run has {name} = {_listed(values)}; say which one, such as setting={{{name!r}: {values[0]}}}"
            )
    return next(
        number
        for number, lane in enumerate(config.lanes())
        if seed in (None, lane.seed) and wanted.items() <= lane.settings.items()
    )


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
