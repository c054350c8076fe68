"""What `spjax render` films and writes."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from spjax.analysis.text import setting_text
from spjax.cache import keep_compiled_programs
from spjax.cli.errors import Failure, UsageError
from spjax.cli.flags import suggest
from spjax.cli.own import words
from spjax.cli.render import FORMATS, RenderFlags
from spjax.cli.report import say
from spjax.cli.terminal import console
from spjax.rendering import offscreen, page, plane, space, video
from spjax.rendering.film import Film, end_text, task_text
from spjax.rendering.replay import replay
from spjax.training.config import Lane, RunConfig
from spjax.training.run_folder import read_config

SIZES = {"plane": (720, 720), "space": (960, 600)}  # of the mp4, pixels


def film(how: RenderFlags, used: bool) -> None:
    """Films new episodes and names the files.

    Args:
        how: the flags.
        used: whether the run's own files may be others than those that it was trained with.
    """
    folder, context = how.folder, how.context
    config = read_config(folder, used)
    _check_camera(how.camera, config)
    if context:
        config.task.context_space.check(context, "--context")
    lane = chosen_lane(config, how.seed, words(how.lane))
    keep_compiled_programs()
    shown = replay(
        folder,
        lane,
        context=context,
        num_episodes=how.episodes,
        draw=how.draw,
        speed=how.speed or 0.0,
        accept_changes=used,
    )

    terminal = console()
    for number, episode in enumerate(shown.episodes, 1):
        seconds = episode.length * shown.env.control_period
        end = f"{end_text(shown.env, episode)} after {seconds:.2f} s, discounted return {episode.returns[-1]:.2f}"
        say(terminal, f"episode {number}: {task_text(shown.env, episode)}: {end}")
    name = "-".join(_name_parts(config.lanes()[lane], context))
    write(
        terminal,
        shown,
        (how.out or folder / "videos") / name,
        how.format,
        how.size,
        how.camera,
    )


def write(
    console: Console,
    film: Film,
    path: Path,
    formats: Sequence[str] = FORMATS,
    size: tuple[int, ...] = (),
    camera: tuple[float, ...] = (),
) -> None:
    """Writes a film into files, `path` and the name of the format, and names them.

    Raises:
        Failure: a video cannot be made here; what can be made is written all the same. No failure is an MP4 without its package
            where all formats are meant, which a line says.
    """
    in_space = film.env.physics_scene() is not None
    width, height = size or SIZES["space" if in_space else "plane"]
    picture = (width, height - video.band_height((width, height)))
    stage = space.stage(film, picture, camera) if in_space else None
    if "html" in formats:
        page.write_page(Path(f"{path}.html"), film, stage)
        say(console, f"page: {path}.html")
    problems = []
    wanted = [name for name in video.WRITERS if name in formats]
    if "mp4" in wanted and not video.can_write_mp4():
        wanted.remove("mp4")
        missing = (
            "mp4 needs imageio-ffmpeg: pip install 'spjax[render]'; gif and html do not"
        )
        if set(formats) == set(FORMATS):
            say(console, missing)
        else:
            problems.append(missing)
    try:
        if wanted:
            frames = (
                plane.frames(film, picture)
                if stage is None
                else offscreen.frames(film, stage, picture)
            )
            for file in video.write_videos(
                [Path(f"{path}.{name}") for name in wanted],
                film,
                frames,
                (width, height),
            ):
                say(console, f"video: {file}")
    except offscreen.NoGraphics as problem:
        problems.append(str(problem))
    if problems:
        raise Failure("; ".join(problems))


def chosen_lane(config: RunConfig, seed: int | None, settings: Sequence[str]) -> int:
    """Returns the number of the first lane with this seed (any, for None) and these settings, NAME=VALUE.

    Raises:
        UsageError: there is none.
    """
    for text in settings:
        _check_setting(config, text)
    if seed is not None and seed not in config.seeds:
        raise UsageError(
            f"--seed {seed} is not in the run; its seeds are {', '.join(map(str, config.seeds))}"
        )
    for number, lane in enumerate(config.lanes()):
        spelled = {
            f"{name}={setting_text(value)}" for name, value in lane.settings.items()
        }
        if seed in (None, lane.seed) and spelled.issuperset(settings):
            return number
    raise UsageError(
        f"no lane of the run has the settings {' '.join(settings)} together"
    )


def _check_setting(config: RunConfig, text: str) -> None:
    known = [
        f"{name}={setting_text(value)}"
        for name, values in config.over.items()
        for value in values
    ]
    if text not in known:
        otherwise = (
            f"the run has {', '.join(known)}"
            if known
            else "the run sweeps over nothing"
        )
        raise UsageError(f"unknown --lane {text!r}; {suggest(text, known, otherwise)}")


def _check_camera(camera: tuple[float, ...], config: RunConfig) -> None:
    if not camera:
        return
    if config.task.physics_scene() is None:
        raise UsageError(
            f"--camera is for tasks in space; {config.task.name} is drawn in the plane"
        )
    if len(camera) > 3 or not all(-360 <= number <= 360 for number in camera):
        raise UsageError(
            "--camera needs azimuth, elevation and distance, or the first of them"
        )
    if len(camera) > 2 and camera[2] <= 0:
        raise UsageError(f"--camera needs a positive distance, got {camera[2]:g}")


def _name_parts(lane: Lane, context: tuple[float, ...]) -> list[str]:
    """Returns what tells the films of a run apart."""
    settings = [
        f"{name.rpartition('.')[2]}-{setting_text(value)}"
        for name, value in lane.settings.items()
    ]
    return [f"seed-{lane.seed}", *settings, *(f"{value:g}" for value in context)]
