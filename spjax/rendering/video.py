"""Captions under the frames, and the files: MP4 with the FFmpeg that imageio-ffmpeg brings along, GIF with Pillow."""

import contextlib
import importlib.util
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import UInt8
from matplotlib.colors import to_rgb
from PIL import Image, ImageDraw, ImageFont

from spjax.analysis.style import BAD, GOOD, NEUTRAL
from spjax.rendering.film import FRAME_RATE, Film, end_text, task_text
from spjax.runs.files import whole

GIF_SCALE = 0.5  # of the size of the MP4
QUALITY = "18"  # of H.264: constant rate factor
_OUTCOME = 14  # where the outcome begins, in font sizes
_GAP = "    "  # at least, between the captions of a line
_SMALLEST_FONT = 4  # pixels

Frame = UInt8[np.ndarray, "height width 3"]
Sink = Callable[[np.ndarray], object]  # takes the next frame


def band_height(size: tuple[int, int]) -> int:
    """Returns how many pixels of a film of (width, height) are the captions'."""
    return 11 * _font_size(size) // 4 * 2


def captioned(
    film: Film, frames: Iterator[Frame], size: tuple[int, int]
) -> Iterator[Frame]:
    """Yields the frames with captions below, (width, height) in all."""
    moments = [
        (index, float(moment))
        for index, episode in enumerate(film.episodes)
        for moment in film.moments(episode)
    ]
    font_size = _fitting_size(film, size)
    for frame, (index, moment) in zip(frames, moments, strict=True):
        band = Image.new("RGB", (size[0], band_height(size)), "white")
        _write(band, film, index, moment, font_size, _font_size(size))
        yield np.concatenate([frame, np.asarray(band)])


def write_videos(
    paths: Sequence[Path], film: Film, frames: Iterator[Frame], size: tuple[int, int]
) -> Sequence[Path]:
    """Writes the frames with captions, (width, height) in all, into each file, and returns the files; suffixes say the format."""
    with contextlib.ExitStack() as files:
        sinks = [
            files.enter_context(WRITERS[path.suffix.removeprefix(".")](path, size))
            for path in paths
        ]
        for frame in captioned(film, frames, size):
            for sink in sinks:
                sink(frame)
    return paths


def can_write_mp4() -> bool:
    """Returns whether the optional package that writes MP4 is installed."""
    return importlib.util.find_spec("imageio_ffmpeg") is not None


@contextlib.contextmanager
def mp4(path: Path, size: tuple[int, int]) -> Iterator[Sink]:
    """Gives a function that takes frames of (width, height); the file appears when all are in it."""
    import imageio_ffmpeg  # optional

    source = [
        "-f",
        "rawvideo",
        "-pix_fmt",
        "rgb24",
        "-s",
        f"{size[0]}x{size[1]}",
        "-r",
        str(FRAME_RATE),
        "-i",
        "-",
    ]
    coding = [
        "-c:v",
        "libx264",
        "-pix_fmt",
        "yuv420p",
        "-crf",
        QUALITY,
        "-movflags",
        "+faststart",
        "-f",
        "mp4",
    ]
    with whole(path) as temporary:
        command = [
            imageio_ffmpeg.get_ffmpeg_exe(),
            "-loglevel",
            "error",
            *source,
            *coding,
            str(temporary),
        ]
        encoder = subprocess.Popen(command, stdin=subprocess.PIPE)
        stream = encoder.stdin
        assert stream is not None  # it is a pipe
        try:
            yield lambda frame: stream.write(frame.tobytes())
            stream.close()
            failed = encoder.wait() != 0
        except BrokenPipeError:  # it ended before the film
            failed = True
        finally:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
            encoder.wait()
        if failed:
            raise OSError(f"FFmpeg could not write {path}")


@contextlib.contextmanager
def gif(path: Path, size: tuple[int, int]) -> Iterator[Sink]:
    """The same as `mp4` for a GIF, which is smaller by `GIF_SCALE` and never ends."""
    small = (round(GIF_SCALE * size[0]), round(GIF_SCALE * size[1]))
    images: list[Image.Image] = []

    def add(frame: Frame) -> None:
        image = Image.fromarray(frame).resize(small, Image.Resampling.LANCZOS)
        palette = images[0] if images else _palette(image)
        images.append(image.quantize(palette=palette, dither=Image.Dither.NONE))

    with whole(path) as temporary:
        yield add
        timing = {"duration": round(1000 / FRAME_RATE), "loop": 0, "disposal": 1}
        images[0].save(
            temporary, format="GIF", save_all=True, append_images=images[1:], **timing
        )


WRITERS: dict[
    str, Callable[[Path, tuple[int, int]], contextlib.AbstractContextManager[Sink]]
] = {
    "mp4": mp4,
    "gif": gif,
}


def _palette(image: Image.Image) -> Image.Image:
    """Returns an image whose palette suits a film that begins with this frame; one palette for all keeps the file small."""
    shades = np.linspace(0, 1, 16)[:, None, None]
    inks = [
        255 + shades * (255 * np.array(to_rgb(color)) - 255) for color in (GOOD, BAD)
    ]  # of the captions at the end
    swatches = (
        np.concatenate(inks, axis=1).astype(np.uint8).repeat(image.width // 2, axis=1)
    )
    both = np.concatenate([np.asarray(image)[:, : swatches.shape[1]], swatches])
    return Image.fromarray(both).quantize(
        256, Image.Quantize.MAXCOVERAGE
    )  # which keeps the colors of small things


def _write(
    band: Image.Image,
    film: Film,
    index: int,
    moment: float,
    font_size: int,
    line_height: int,
) -> None:
    """Writes whose episode it is; the task; and time, return and, at the end, the outcome."""
    draw, episode = ImageDraw.Draw(band), film.episodes[index]
    regular, bold = _fonts(font_size)
    left, right = font_size, band.width - font_size
    first, second, third = ((1.25 + 1.5 * line) * line_height for line in range(3))
    draw.text((left, first), _whose(film, index), NEUTRAL, regular, "lm")
    draw.text((right, first), film.tempo(), NEUTRAL, regular, "rm")
    draw.text((left, second), task_text(film.env, episode), "black", regular, "lm")
    draw.text(
        (left, third),
        f"{moment * film.env.control_period:.2f} s",
        "black",
        regular,
        "lm",
    )
    draw.text(
        (left + 6 * font_size, third),
        f"return {episode.returns[int(moment)]:.1f}",
        "black",
        regular,
        "lm",
    )
    if moment == episode.length:
        color = GOOD if episode.success else BAD
        draw.text(
            (left + _OUTCOME * font_size, third),
            end_text(film.env, episode),
            color,
            bold,
            "lm",
        )


def _whose(film: Film, index: int) -> str:
    return film.title + (
        f", episode {index + 1} of {len(film.episodes)}"
        if len(film.episodes) > 1
        else ""
    )


def _fitting_size(film: Film, size: tuple[int, int]) -> int:
    """Returns the font size of the captions: smaller than usual where a line would not fit into a narrow film."""

    def width(font_size: int) -> float:
        regular, bold = _fonts(font_size)
        firsts = [
            _whose(film, index) + _GAP + film.tempo()
            for index in range(len(film.episodes))
        ]
        lines = [regular.getlength(text) for text in firsts]
        lines += [
            regular.getlength(task_text(film.env, episode)) for episode in film.episodes
        ]
        lines += [
            _OUTCOME * font_size + bold.getlength(end_text(film.env, episode))
            for episode in film.episodes
        ]
        return max(lines) + 2 * font_size

    usual = _font_size(size)
    return next(
        (
            number
            for number in range(usual, _SMALLEST_FONT, -1)
            if width(number) <= size[0]
        ),
        _SMALLEST_FONT,
    )


def _font_size(size: tuple[int, int]) -> int:
    return max(10, size[0] // 48)


def _fonts(size: int) -> tuple[ImageFont.FreeTypeFont, ImageFont.FreeTypeFont]:
    """Returns the regular and the bold font."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    regular, bold = (
        ImageFont.truetype(str(folder / f"{name}.ttf"), size)
        for name in ("DejaVuSans", "DejaVuSans-Bold")
    )
    return regular, bold
