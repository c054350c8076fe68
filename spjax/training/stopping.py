"""How a training is stopped from outside: Ctrl-C, and SIGTERM, with which a cluster ends a job."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console


class Interrupted(Exception):
    """Ctrl-C was pressed, or the process was asked to end; the run is saved and can be resumed, or it has just finished."""

    def __init__(self, where: str, number: int = signal.SIGINT) -> None:
        super().__init__(where)
        self.number = number  # of the signal


class StopRequest(threading.Event):
    """Set by the signal that asks for the end."""

    number: int = signal.SIGINT


@contextmanager
def first_interrupt() -> Iterator[StopRequest]:
    """Yields an event that the first Ctrl-C or SIGTERM sets; a second one raises KeyboardInterrupt at once.

    Who handles SIGTERM already goes on to do so.
    """
    event = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.number = number
        event.set()
        said = (
            "stopping after this chunk; press Ctrl-C again to stop at once"
            if number == signal.SIGINT
            else "asked to end; stopping after this chunk"
        )
        Console(stderr=True).print(said)

    previous = {signal.SIGINT: signal.signal(signal.SIGINT, handle)}
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        previous[signal.SIGTERM] = signal.signal(signal.SIGTERM, handle)
    try:
        yield event
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
