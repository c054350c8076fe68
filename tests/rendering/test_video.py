import dataclasses

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from spjax.analysis.style import BAD
from spjax.rendering import video

SIZE = (320, 240)


@pytest.fixture
def film(plane_film):
    return dataclasses.replace(plane_film, episodes=plane_film.episodes[:1], speed=2.0)


def blank_frames(film, size, stop=None):
    height = size[1] - video.band_height(size)
    for number in range(sum(len(film.moments(episode)) for episode in film.episodes)):
        if number == stop:
            raise RuntimeError("no more")
        yield np.full((height, size[0], 3), 5 * number % 256, np.uint8)


def test_the_files_have_all_frames_at_the_right_pace(film, tmp_path):
    count = len(film.moments(film.episodes[0]))
    paths = [tmp_path / "deep" / "film.mp4", tmp_path / "deep" / "film.gif"]
    assert video.write_videos(paths, film, blank_frames(film, SIZE), SIZE) == paths
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(paths[0]))
    assert (frames, seconds) == (count, pytest.approx(count / 25, abs=0.02))
    reader = imageio_ffmpeg.read_frames(str(paths[0]))
    assert next(reader)["size"] == SIZE
    seen = [
        np.frombuffer(frame, np.uint8).reshape(240, 320, 3)[20, 20, 0]
        for frame in reader
    ]
    np.testing.assert_allclose(
        seen, [5 * number % 256 for number in range(count)], atol=6
    )
    image = Image.open(paths[1])
    assert image.size == (160, 120)
    assert image.info["loop"] == 0
    durations = []
    for number in range(image.n_frames):
        image.seek(number)
        durations.append(image.info["duration"])
    assert sum(durations) == 40 * count
    assert sorted(path.name for path in paths[0].parent.iterdir()) == [
        "film.gif",
        "film.mp4",
    ]


@pytest.mark.parametrize("name", ["film.mp4", "film.gif"])
def test_a_film_that_breaks_off_leaves_no_file_and_an_old_one_as_it_was(
    film, tmp_path, name
):
    (tmp_path / name).write_text("old")
    with pytest.raises(RuntimeError, match="no more"):
        video.write_videos(
            [tmp_path / name], film, blank_frames(film, SIZE, stop=3), SIZE
        )
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "old"


def test_an_encoder_that_gives_up_is_one_sentence(film, tmp_path, monkeypatch):
    monkeypatch.setenv("IMAGEIO_FFMPEG_EXE", "/bin/false")
    with pytest.raises(OSError, match=r"FFmpeg could not write .*film\.mp4"):
        video.write_videos(
            [tmp_path / "film.mp4"], film, blank_frames(film, (640, 480)), (640, 480)
        )
    assert not any(tmp_path.iterdir())


def test_captions_stand_below_the_picture_and_the_end_is_told_only_there(film):
    frames = list(video.captioned(film, blank_frames(film, SIZE), SIZE))
    band = [frame[-video.band_height(SIZE) :] for frame in frames]
    assert {frame.shape for frame in frames} == {(240, 320, 3)}
    red = [int((np.ptp(part.astype(int), axis=-1) > 60).sum()) for part in band]
    length = len(film.moments(film.episodes[0])) - 21
    assert red[:length] == [0] * length
    assert min(red[length:]) > 10
    assert BAD == "#D55E00"
    assert (band[0] != band[1]).any()  # the clock


@pytest.mark.parametrize("width", [160, 240, 320, 720])
def test_captions_fit_into_a_narrow_film(film, width):
    film = dataclasses.replace(
        film, title="point-mass-2d, seed 12, iteration 400", speed=100.0
    )
    size = (width, 240)
    bands = [
        255 - frame[-video.band_height(size) :].astype(int)
        for frame in video.captioned(film, blank_frames(film, size), size)
    ]
    ink = np.max([band.max(axis=-1) for band in bands], axis=0)
    assert ink[:, -3:].max() == 0  # nothing is cut off
    line = ink[: len(ink) // 3].max(axis=0) > 60  # whose film it is, and how fast
    assert np.diff(np.flatnonzero(line)).max() >= 0.02 * width
