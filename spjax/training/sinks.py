"""Callbacks that send the numbers of a run to TensorBoard, Weights & Biases or MLflow, each lane as a run of its own.

    spjax.train(config, "runs/mine", callback=TensorBoard("boards"))

The packages are optional; a missing one is said when the sink is made. A resumed run goes on at its iteration.
"""

import abc
import importlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from spjax.analysis.text import setting_text
from spjax.runs.schema import Lane
from spjax.training.following import Report

_LONGEST_PARAM = 500  # characters, of MLflow's values

Stream = TypeVar("Stream")  # of one lane, whatever the package calls it


class Sink(abc.ABC, Generic[Stream]):
    """What all of them share: a stream for each lane, opened with the first chunk and closed with the last one."""

    def __init__(self) -> None:
        self._streams: list[Stream] = []

    def __call__(self, report: Report) -> None:
        """Sends the iterations of a chunk."""
        if not self._streams:
            self._streams = [self.open(report, lane) for lane in report.lanes]
        for lane, stream in enumerate(self._streams):
            for iteration, row in report.rows(lane):
                self.write(stream, iteration, row)
        if report.last:
            self.close()

    def close(self) -> None:
        """Ends all streams; for runs that end in an error, since others close them."""
        streams, self._streams = self._streams, []
        for stream in streams:
            self.end(stream)

    @abc.abstractmethod
    def open(self, report: Report, lane: Lane) -> Stream:
        """Returns the stream of a lane."""

    @abc.abstractmethod
    def write(self, stream: Stream, iteration: int, row: Mapping[str, float]) -> None:
        """Sends the numbers of one iteration."""

    @abc.abstractmethod
    def end(self, stream: Stream) -> None:
        """Ends a stream."""


class TensorBoard(Sink[Any]):
    """Event files, a folder for each lane."""

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self._folder = Path(folder)
        self._package = _needed("tensorboardX", "TensorBoard", "tensorboard")

    def open(self, report: Report, lane: Lane) -> Any:
        """Returns a writer into FOLDER/RUN/LANE."""
        folder = self._folder / report.folder.name / lane_name(lane)
        return self._package.SummaryWriter(str(folder))

    def write(self, stream: Any, iteration: int, row: Mapping[str, float]) -> None:
        """Writes scalars; a dot in their names becomes a group."""
        for name, value in row.items():
            stream.add_scalar(name.replace(".", "/"), value, iteration)
        stream.flush()

    def end(self, stream: Any) -> None:
        """Closes the file."""
        stream.close()


class WeightsAndBiases(Sink[Any]):
    """Runs of Weights & Biases, grouped by the run folder; offline unless asked otherwise."""

    def __init__(
        self, project: str, folder: str | Path = ".", mode: str = "offline"
    ) -> None:
        super().__init__()
        self._project, self._folder, self._mode = project, Path(folder), mode
        self._package = _needed("wandb", "Weights & Biases", "wandb")

    def open(self, report: Report, lane: Lane) -> Any:
        """Returns a run with the settings of the lane."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._package.init(
            project=self._project,
            group=report.folder.name,
            name=f"{report.folder.name}-{lane_name(lane)}",
            config=settings_of(report, lane),
            dir=str(self._folder),
            mode=self._mode,
            reinit="create_new",
        )

    def write(self, stream: Any, iteration: int, row: Mapping[str, float]) -> None:
        """Logs the numbers at the iteration as the step."""
        stream.log(dict(row), step=iteration)

    def end(self, stream: Any) -> None:
        """Finishes the run."""
        stream.finish()


class MLflow(Sink[str]):
    """Runs of MLflow, in an experiment that is made where there is none."""

    def __init__(self, experiment: str, tracking_uri: str | None = None) -> None:
        super().__init__()
        package = _needed("mlflow", "MLflow", "mlflow")
        self._experiment = experiment
        self._client = package.MlflowClient(tracking_uri=tracking_uri)
        self._entities = importlib.import_module("mlflow.entities")

    def open(self, report: Report, lane: Lane) -> str:
        """Returns the id of a run with the settings of the lane."""
        found = self._client.get_experiment_by_name(self._experiment)
        number = (
            self._client.create_experiment(self._experiment)
            if found is None
            else found.experiment_id
        )
        name = f"{report.folder.name}-{lane_name(lane)}"
        run = self._client.create_run(number, run_name=name)
        for setting, value in settings_of(report, lane).items():
            self._client.log_param(
                run.info.run_id, setting, str(value)[:_LONGEST_PARAM]
            )
        return run.info.run_id

    def write(self, stream: str, iteration: int, row: Mapping[str, float]) -> None:
        """Logs the numbers at the iteration as the step."""
        now = int(1000 * time.time())
        metrics = [
            self._entities.Metric(name, value, now, iteration)
            for name, value in row.items()
        ]
        self._client.log_batch(stream, metrics=metrics)

    def end(self, stream: str) -> None:
        """Marks the run as finished."""
        self._client.set_terminated(stream)


def lane_name(lane: Lane) -> str:
    """Returns for example "seed-3-zeta-0.8"."""
    settings = [
        f"-{name.rpartition('.')[2]}-{setting_text(value)}"
        for name, value in lane.settings.items()
    ]
    return f"seed-{lane.seed}{''.join(settings)}"


def settings_of(report: Report, lane: Lane) -> dict[str, object]:
    """Returns all settings of a lane by dotted names, "agent.learning_rate" and so on."""
    spelled = report.config.spelled()
    shared = {name: spelled[name] for name in spelled if name not in ("over", "seeds")}
    return {**dict(_flat(shared, "")), "seed": lane.seed, **lane.settings}


def _flat(tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Yields the leaves of nested mappings; a part goes by its kind: {"agent": {"agent": "ppo"}} is agent = ppo."""
    for name, value in tree.items():
        kind = prefix.rstrip(".").rpartition(".")[2]
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield (prefix.rstrip(".") if name == kind else f"{prefix}{name}"), value


def _needed(module: str, what: str, extra: str) -> ModuleType:
    """Returns a package that is optional.

    Raises:
        ImportError: one sentence that says how to get it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(
            f"{what} needs {module}: pip install 'spjax[{extra}]'"
        ) from None
