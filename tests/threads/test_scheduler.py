"""Jobs run in order, and idle work gives way to them."""

from __future__ import annotations

import threading

import pytest

from chatcli.threads.scheduler import Scheduler

SECONDS = 20.0


def test_idle_work_gives_way_to_a_job_and_jobs_come_in_order() -> None:
    scheduler, said, begun = Scheduler("test"), [], threading.Event()

    def idle(stop: threading.Event) -> None:
        begun.set()
        said.append(stop.wait(SECONDS))

    first = scheduler.idle(idle)
    never = scheduler.idle(idle)
    assert begun.wait(SECONDS)
    jobs = [scheduler.submit(lambda number=number: said.append(number)) for number in (1, 2)]  # type: ignore[misc]
    assert [None, None] == [job.result(SECONDS) for job in jobs]
    # What had not begun never does.
    assert first.future.done() and never.future.cancelled()
    assert [True, 1, 2] == said
    scheduler.close()


def test_a_job_that_fails_ends_itself_only() -> None:
    scheduler = Scheduler("test")
    failed = scheduler.submit(lambda: 1 // 0)
    assert 3 == scheduler.submit(lambda: 3).result(SECONDS)
    with pytest.raises(ZeroDivisionError):
        failed.result(SECONDS)
    scheduler.close()


def test_draining_waits_for_idle_work_but_not_for_the_job_beside_which_it_is_asked_for() -> None:
    scheduler, ended, go_on = Scheduler("test"), threading.Event(), threading.Event()
    begun = threading.Event()

    def idle(stop: threading.Event) -> None:
        begun.set()
        stop.wait(SECONDS)
        ended.set()

    scheduler.idle(idle)
    assert begun.wait(SECONDS)
    scheduler.drain()
    assert ended.is_set()
    job = scheduler.submit(lambda: go_on.wait(SECONDS))
    scheduler.drain()
    assert not job.done()
    go_on.set()
    scheduler.close()
    assert job.done()


def test_a_closed_scheduler_takes_no_more() -> None:
    scheduler = Scheduler("test")
    scheduler.close()
    assert scheduler.idle(lambda stop: None).future.cancelled()
    with pytest.raises(RuntimeError):
        scheduler.submit(lambda: None)
