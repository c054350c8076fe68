"""Numbers of a run in TensorBoard, Weights & Biases and MLflow; the latter two by stand-ins of their packages."""

import struct
import sys
import types

import pytest

import spjax
from spjax.runs.schema import Lane
from spjax.training.sinks import MLflow, TensorBoard, WeightsAndBiases, lane_name
from tests.training.conftest import tiny

pytestmark = pytest.mark.usefixtures("compiled_once")

EVENTS = pytest.importorskip(
    "tensorboardX.proto.event_pb2", reason="tensorboardX is not installed"
)


def scalars(folder):
    """Returns (step, tag) -> value of the one event file in a folder: records of length, checksum, event and checksum."""
    (file,) = folder.iterdir()
    data, found = file.read_bytes(), {}
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = EVENTS.Event.FromString(data[12 : 12 + length])
        for value in event.summary.value:
            found[event.step, value.tag] = value.simple_value
        data = data[16 + length :]
    return found


class Wandb(types.ModuleType):
    """A stand-in for wandb that keeps what it is told."""

    def __init__(self):
        super().__init__("wandb")
        self.runs = []

    def init(self, **how):
        run = types.SimpleNamespace(how=how, rows={}, finished=False)
        run.log = lambda row, step: run.rows.update({step: row})
        run.finish = lambda: setattr(run, "finished", True)
        self.runs.append(run)
        return run


class Client:
    """A stand-in for mlflow.MlflowClient that keeps what it is told."""

    def __init__(self, tracking_uri):
        self.experiments, self.runs, self.uri = {}, {}, tracking_uri
        CLIENTS.append(self)

    def get_experiment_by_name(self, name):
        number = self.experiments.get(name)
        return number and types.SimpleNamespace(experiment_id=number)

    def create_experiment(self, name):
        assert name not in self.experiments
        self.experiments[name] = "7"
        return "7"

    def create_run(self, experiment_id, run_name):
        assert experiment_id == "7"
        self.runs[run_name] = {"params": {}, "metrics": {}, "ended": False}
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id=run_name))

    def log_param(self, run_id, key, value):
        self.runs[run_id]["params"][key] = value

    def log_batch(self, run_id, metrics):
        for name, value, _, step in metrics:
            self.runs[run_id]["metrics"][step, name] = value

    def set_terminated(self, run_id):
        self.runs[run_id]["ended"] = True


CLIENTS = []


@pytest.fixture
def stand_ins(monkeypatch):
    wandb, mlflow = Wandb(), types.ModuleType("mlflow")
    mlflow.MlflowClient = Client
    mlflow.entities = types.ModuleType("mlflow.entities")
    mlflow.entities.Metric = lambda *values: values
    for module in (wandb, mlflow, mlflow.entities):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return wandb


@pytest.mark.slow
def test_all_sinks_get_the_numbers_of_every_lane(stand_ins, tmp_path):
    told = {}
    config = tiny(seeds=(1, 2), num_iterations=4)
    sinks = [
        TensorBoard(tmp_path / "boards"),
        WeightsAndBiases("mine", folder=tmp_path / "wandb"),
        MLflow("mine", tracking_uri="file:store"),
    ]

    def keep(report):
        for lane in range(2):
            told.setdefault(lane, {}).update(report.rows(lane))

    spjax.train(config, tmp_path / "run", progress=False, callback=[keep, *sinks])
    (client,) = CLIENTS
    assert client.uri == "file:store"
    for lane, seed in enumerate((1, 2)):
        rows = told[lane]
        assert sorted(rows) == [1, 2, 3, 4]
        assert "evaluation.success_rate" in rows[4]

        board = scalars(tmp_path / "boards" / "run" / f"seed-{seed}")
        expected = {
            (step, name.replace(".", "/")): value
            for step, row in rows.items()
            for name, value in row.items()
        }
        assert board == pytest.approx(expected)

        run = stand_ins.runs[lane]
        assert run.rows == rows
        assert run.finished
        assert run.how["name"] == f"run-seed-{seed}"
        assert run.how["mode"] == "offline"
        assert run.how["config"]["agent"] == "ppo"
        assert run.how["config"]["agent.learning_rate"] == 1e-3
        assert run.how["config"]["teacher.schedule"] == "proportion"
        assert run.how["config"]["teacher.schedule.offset"] == 1
        assert run.how["config"]["seed"] == seed

        kept = client.runs[f"run-seed-{seed}"]
        assert kept["params"]["agent.hidden"] == "[8]"
        assert kept["ended"]
        assert kept["metrics"] == {
            (step, name): value
            for step, row in rows.items()
            for name, value in row.items()
        }


@pytest.mark.parametrize(
    ("module", "make", "sentence"),
    [
        (
            "tensorboardX",
            lambda: TensorBoard("boards"),
            r"^TensorBoard needs tensorboardX: pip install 'spjax\[tensorboard\]'$",
        ),
        (
            "wandb",
            lambda: WeightsAndBiases("mine"),
            r"^Weights & Biases needs wandb: pip install 'spjax\[wandb\]'$",
        ),
        (
            "mlflow",
            lambda: MLflow("mine"),
            r"^MLflow needs mlflow: pip install 'spjax\[mlflow\]'$",
        ),
    ],
)
def test_a_missing_package_is_one_sentence(monkeypatch, module, make, sentence):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=sentence):
        make()


def test_lanes_are_named_by_seed_and_swept_settings():
    assert lane_name(Lane(3, {"teacher.schedule.zeta": 0.8})) == "seed-3-zeta-0.8"
    assert lane_name(Lane(3, {})) == "seed-3"
