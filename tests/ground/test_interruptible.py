"""Code that never ends is ended by a deadline or a stop signal, on any thread, and nothing else is."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from chatcli.threads import interruptible
from chatcli.threads.interruptible import Interrupted

LONG = 60.0


def endless() -> None:
    while True:
        pass


def test_what_ends_returns_its_value() -> None:
    assert 7 == interruptible.run(lambda: 7, LONG)


def test_what_it_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        interruptible.run(lambda: 1 / 0, LONG)


def test_a_deadline_ends_an_endless_loop() -> None:
    with pytest.raises(Interrupted) as caught:
        interruptible.run(endless, 0.1)
    assert caught.value.timed_out


def test_a_stop_signal_ends_an_endless_loop_on_another_thread() -> None:
    stop, outcome = threading.Event(), list[bool]()

    def work() -> None:
        try:
            interruptible.run(endless, LONG, stop)
        except Interrupted as error:
            outcome.append(error.timed_out)

    thread = threading.Thread(target=work)
    thread.start()
    stop.set()
    thread.join()
    assert [False] == outcome


def test_code_that_catches_every_exception_is_ended_too() -> None:
    def stubborn() -> None:
        while True:
            try:
                endless()
            except Exception:
                continue

    with pytest.raises(Interrupted):
        interruptible.run(stubborn, 0.1)


def test_an_interruption_never_arrives_after_the_end() -> None:
    """Runs that end just when they are to be interrupted."""
    stop = threading.Event()
    stop.set()
    for length in range(40):
        end = time.monotonic() + length * 0.004

        def wait(end: float = end) -> None:
            while time.monotonic() < end:
                pass

        with contextlib.suppress(Interrupted):
            interruptible.run(wait, LONG, stop)
        # It would be raised here.
        assert 5000 == sum(1 for _ in range(5000))
