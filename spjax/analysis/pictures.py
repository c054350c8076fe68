"""All pictures of one run folder."""

from collections.abc import Iterator
from pathlib import Path

from matplotlib.figure import Figure

from spjax.analysis.curves import alpha_curve, kl_to_target_curve, learning_curve
from spjax.analysis.run import Run, load_run
from spjax.analysis.snapshots import context_snapshots, trajectory_picture
from spjax.analysis.style import save, setting_text


def plot_run(path: str | Path) -> list[Path]:
    """Draws what the run folder holds and writes pictures/*.png into it.

    Always: the learning curve and the success rate. Where recorded: KL to the target, alpha, context snapshots (two or
    more context dimensions) and trajectories (finished runs). A swept run has one curve and one set of snapshots and
    trajectories for each value.

    Returns:
        The files written.

    Raises:
        ValueError: what `load_run` raises.
    """
    run = load_run(path)
    return [save(figure, run.path / "pictures" / f"{name}.png") for name, figure in _pictures(run)]


def _pictures(run: Run) -> Iterator[tuple[str, Figure]]:
    label = [part for part in (run.config.teacher, run.config.schedule) if part]
    labels = [f"{label[0]} ({label[1]})" if len(label) > 1 else label[0]]
    yield "learning_curve", learning_curve([run], labels)
    yield "success_rate", learning_curve([run], labels, metric="success_rate")
    if run.has_metric("teacher.kl_to_target"):
        yield "kl_to_target", kl_to_target_curve([run], labels)
    if run.has_metric("teacher.alpha"):
        yield "alpha", alpha_curve([run], labels)
    for group in run.groups():
        suffix = "".join(f"-{name}-{setting_text(value)}" for name, value in group.settings.items())
        if len(run.config.context_space.names) > 1:
            yield f"contexts{suffix}", context_snapshots(run, group)
        if run.trajectories is not None:
            yield f"trajectories{suffix}", trajectory_picture(run, group)
