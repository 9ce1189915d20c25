"""What a session's template is told, by its file and by the command line; refuses to know terminals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from chatcli.chat_format.arguments import check_arguments, check_effort, effort_name
from chatcli.errors import UsageError
from chatcli.session.opening import SessionRequest
from chatcli.store.sessions.folder import SessionFile

if TYPE_CHECKING:
    from chatcli.session.runtime import Runtime
    from chatcli.session.state import State


def effort(state: State) -> str | None:
    """How much the model is to think; None: as its template has it."""
    kept = state.session.conversation.effort if state.session is not None else None
    return state.wanted.effort or kept


def arguments(state: State) -> dict[str, Any]:
    """What else the template is told, by name."""
    kept = state.session.conversation.template_args if state.session is not None else {}
    merged = {**kept, **state.wanted.template_args}
    return {name: value for name, value in merged.items() if value is not None}


def checked(runtime: Runtime, wanted: SessionRequest) -> Runtime:
    """Raises `UsageError` if its template cannot be told what was asked for; it is closed then."""
    try:
        check_arguments(runtime.variables, wanted.template_args)
    except UsageError:
        runtime.close()
        raise
    return runtime


def note(state: State, session: SessionFile) -> None:
    """Put on disk what was asked for."""
    session.set_template(effort(state), arguments(state))
    state.wanted = without(state.wanted)


def without(wanted: SessionRequest) -> SessionRequest:
    """The same, with nothing to tell."""
    return replace(wanted, effort=None, template_args={})


def set_effort(state: State, level: str | None) -> None:
    """How much the model is to think from now on; waits for it.

    Raises `UsageError` if its template cannot be told, and as `State.runtime` does.
    """
    read = state.runtime(state.stopping).variables
    if level is not None:
        check_effort(read)
    # What was said last counts.
    name = effort_name(read)
    others = {key: value for key, value in arguments(state).items() if key != name}
    state.stop_settling()
    if state.session is None:
        state.wanted = replace(state.wanted, effort=level, template_args=others)
    else:
        state.session.set_template(level, others)
        state.wanted = without(state.wanted)
