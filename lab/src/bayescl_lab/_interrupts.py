"""Ctrl-C and SIGTERM without lost signals.

By default, Python raises ``KeyboardInterrupt`` between any two instructions. In a destructor or a
callback of native code, the exception is discarded or becomes another error. In :func:`handled`, a
signal sets a flag. Loops read it with :func:`check`. If no loop reads it within a second, the
exception is raised between instructions after all, and again until it ends the block.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE, _PERIOD = 1.0, 3.0
"""Seconds before the exception is raised between instructions, and between repetitions."""
_SAME = 0.5
"""Seconds within which a second signal is a duplicate, as from ``timeout`` and from terminals."""


class Terminated(KeyboardInterrupt):
    """Raised after SIGTERM."""


class _Received:
    """The first signal that was received in this process, if any."""

    number: int | None = None
    time = 0.0


def check() -> None:
    """Raise ``KeyboardInterrupt`` or :class:`Terminated` if a signal was received."""
    if _Received.number is not None:
        raise Terminated if _Received.number == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def handled() -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM by a flag in the block. A second signal ends the process at once.

    If a signal was received, the block ends with ``KeyboardInterrupt`` or :class:`Terminated`, even
    if a library has replaced the exception. Further signals are then ignored. Signals are handled
    only in the main thread, on POSIX.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not (is_main and hasattr(signal, "setitimer")):
        yield
        return
    _Received.number = None
    before: dict[int, Any] = {number: signal.signal(number, _receive) for number in _SIGNALS}
    unraisable, sys.unraisablehook = sys.unraisablehook, _report_unless_received
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, lambda *_: check())
    try:
        yield
        check()
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not isinstance(error, KeyboardInterrupt):
            check()  # the signal has caused this error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if _Received.number is not None:  # destructors at the exit must not be interrupted
            before = {**before, **dict.fromkeys(_SIGNALS, signal.SIG_IGN)}
        else:
            sys.unraisablehook = unraisable
        _Received.number = None  # the next call in this process starts anew
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)


def _receive(number: int, _: object) -> None:
    """Set the flag; end the process on a second signal."""
    now = time.monotonic()
    if _Received.number is None:
        _Received.number, _Received.time = number, now
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _PERIOD)
    elif now - _Received.time > _SAME:
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), b"\x1b[?25h")  # progress bars hide the cursor
        os._exit(128 + number)


def _report_unless_received(unraisable: Any) -> None:
    """Report an exception in a destructor, except for the exception of a received signal."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
