"""Changes the draft model of a shell that runs; refuses to know the terminal."""

from __future__ import annotations

import threading
from dataclasses import replace

from chatcli.session.loading import Loading, wait
from chatcli.session.state import State


def change(state: State, name: str | None) -> None:
    """Load another draft model, or go on with none; the model stays.

    Raises `ModelError`, or `KeyboardInterrupt` if it was stopped, and keeps the one before.
    """
    runtime = state.runtime(state.stopping)
    state.stop_settling()
    unwanted = threading.Event()
    drafting = None
    if name is not None:
        telling = Loading(name, unwanted, state.say)
        loading = runtime.load_draft_model(name, telling.progress, telling.downloading)
        try:
            drafting = wait(loading, state.stopping)
        finally:
            unwanted.set()
            state.say("", None)
    runtime.speculate_with(drafting)
    state.settings = runtime.settings = replace(state.settings, draft_model=name)
