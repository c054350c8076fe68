"""Films as one HTML file that needs nothing else: the numbers as JSON, a small player, and in space a small WebGL renderer."""

import html
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

import numpy as np

from spjax.analysis.style import BAD, GOOD
from spjax.rendering import plane
from spjax.rendering.film import HOLD, Film, end_text, task_text
from spjax.rendering.record import Episode
from spjax.rendering.space import MARK, MARK_COLOR, Motion, Stage, kind_of, size_of
from spjax.runs.files import whole

PLANE = ("plane.js",)
SPACE = ("matrices.js", "shapes.js", "orbit.js", "space.js")
DIGITS = 4  # of metres and quaternions


def write_page(path: Path, film: Film, stage: Stage | None) -> None:
    """Writes a film: in space where there is a stage, in the plane otherwise."""
    with whole(path) as temporary:
        temporary.write_text(page(film, stage), encoding="utf-8")


def page(film: Film, stage: Stage | None) -> str:
    """Returns the HTML of a film."""
    if stage is None:
        return page_of(plane_content(film), PLANE)
    return page_of(space_content(film, stage), SPACE)


def page_of(content: dict[str, object], views: Sequence[str]) -> str:
    """Returns the HTML that shows what `plane_content` or `space_content` says, by the scripts `PLANE` or `SPACE`."""
    files = resources.files(__package__)
    return Template((files / "page.html").read_text()).substitute(
        title=html.escape(str(content["title"])),
        data=json.dumps(content, separators=(",", ":")).replace("<", "\\u003c"),
        view="\n".join((files / view).read_text() for view in views),
        player=(files / "player.js").read_text(),
    )


def plane_content(film: Film) -> dict[str, object]:
    """Returns what the page of a task in the plane is drawn from, metres and seconds."""
    episodes = [
        {
            **_common(film, episode),
            "path": _rounded(episode.path),
            "walls": film.env.scenery(episode.context),
        }
        for episode in film.episodes
    ]
    return {
        **_head(film),
        "box": _rounded(plane.box(film)),
        "goal": film.env.goal,
        "episodes": episodes,
    }


def space_content(film: Film, stage: Stage) -> dict[str, object]:
    """Returns what the page of a task in space is drawn from, metres, seconds, degrees and quaternions (w, x, y, z)."""
    camera, model = stage.camera, stage.model
    forward = camera.axes()[2]
    place = np.asarray(camera.lookat) - camera.distance * forward
    kinds = [kind_of(int(kind)) for kind in model.geom_type]
    geoms: list[dict[str, object]] = [
        {
            "name": model.geom(index).name,
            "kind": kind,
            "color": _rounded(model.geom_rgba[index]),
        }
        for index, kind in enumerate(kinds)
    ]
    geoms[model.geom(MARK).id]["color"] = list(MARK_COLOR)
    episodes = [
        {
            **_common(film, episode),
            "poses": _poses(part),
            "sizes": list(map(size_of, kinds, part.sizes)),
        }
        for episode, part in zip(film.episodes, stage.motions, strict=True)
    ]
    view = {
        "from": _rounded(place),
        "lookat": _rounded(camera.lookat),
        "fovy": camera.fovy,
    }
    return {
        **_head(film),
        "camera": view,
        "geoms": geoms,
        "trail": stage.trail,
        "episodes": episodes,
    }


def _head(film: Film) -> dict[str, object]:
    colors = {"true": GOOD, "false": BAD}
    return {
        "title": film.title,
        "period": film.env.control_period,
        "speed": film.speed,
        "hold": HOLD,
        "colors": colors,
    }


def _common(film: Film, episode: Episode) -> dict[str, object]:
    return {
        "task": task_text(film.env, episode),
        "success": episode.success,
        "end": end_text(film.env, episode),
        "returns": _rounded(episode.returns),
    }


def _poses(part: Motion) -> list[list[list[float]]]:
    """Returns [x, y, z, qw, qx, qy, qz] of each geom at each frame, and one frame only of those that stand still."""
    poses = np.moveaxis(
        np.concatenate([part.positions, part.quaternions], axis=-1), 1, 0
    ).round(DIGITS)
    return [
        (poses[i] if (poses[i] != poses[i][0]).any() else poses[i][:1]).tolist()
        for i in range(len(poses))
    ]


def _rounded(values: np.ndarray | Sequence[float]) -> object:
    return np.asarray(values, float).round(DIGITS).tolist()
