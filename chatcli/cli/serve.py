"""`chatcli serve`: OpenAI's and Anthropic's APIs, from the shell's checkpoints."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from chatcli.cli.options import PREFIX, Options, with_options
from chatcli.cli.output import warn
from chatcli.cli.process import INTERRUPTED, leave_at_once, our_ranks
from chatcli.errors import UsageError
from chatcli.text import clean_line, shorten

SERVER = "Server"
# Where a key is not seen by whoever lists the processes.
KEY_VARIABLE = f"{PREFIX}API_KEY"
MAX_PORT = 65535
# Options of a terminal or of one conversation.
NOT_SERVED = (
    *("system", "session", "latest", "at", "template_arg", "plain", "private", "as_json"),
    *("panel", "typeahead", "pipeline", "draft_model", "num_draft_tokens"),
)


def port_number(word: str | int) -> int:
    """Raises `UsageError`."""
    if not str(word).isdecimal() or int(word) > MAX_PORT:
        raise UsageError(
            f"--port must be a whole number from 0 to {MAX_PORT}, not '{shorten(str(word), 40)}'."
        )
    return int(word)


@with_options(leave_out=NOT_SERVED)
def command(
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Listen at this address (default: 127.0.0.1).",
            show_default=False,
            rich_help_panel=SERVER,
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            metavar="PORT",
            parser=port_number,
            help="Listen at this port (default: 8080; 0: any that is free).",
            show_default=False,
            rich_help_panel=SERVER,
        ),
    ] = 8080,
    api_key: Annotated[
        str | None,
        typer.Option(
            "--api-key",
            metavar="KEY",
            help=f"Require this key of every request (or set {KEY_VARIABLE}). Needed unless --host is this "
            "machine only.",
            rich_help_panel=SERVER,
        ),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Save each conversation as a session.", rich_help_panel=SERVER),
    ] = False,
    log_messages: Annotated[
        bool,
        typer.Option("--log-messages", help="Log messages too.", rich_help_panel=SERVER),
    ] = False,
    *,
    options: Options,
) -> None:
    """Serve a model over OpenAI's and Anthropic's APIs, with the shell's checkpoints."""
    from chatcli.serve.guard import Access

    if our_ranks().size > 1:
        raise UsageError("A server is one process: start it without mlx.launch.")
    access = Access(host, os.environ.get(KEY_VARIABLE) if api_key is None else api_key)
    settings = options.settings()
    # What is wrong above is said before these take their time: they import MLX.
    from chatcli.serve.engine import Engine
    from chatcli.serve.server import serve

    engine = Engine(settings, options.flags["model"] or settings.model, keep=keep)
    stopped_by, is_loading = None, False
    try:
        stopped_by, is_loading = serve(
            engine, access, port, lambda url: tell(url, engine.model), log_messages=log_messages
        )
    finally:
        # A model that still loads cannot be stopped, so the process ends without it.
        if is_loading:
            leave_at_once(INTERRUPTED if stopped_by == signal.SIGINT else 0)
        if problem := engine.close():
            warn(problem)
    if stopped_by == signal.SIGINT:
        raise typer.Exit(INTERRUPTED)


def tell(url: str, model: str) -> None:
    """Print on standard output that requests are answered, and in a terminal what clients need."""
    print(f"chatcli serves {clean_line(model)} at {url}", flush=True)
    if sys.stdout.isatty():
        print(f"  OpenAI's clients:    base URL {url}/v1, any key")
        print(f"  Anthropic's clients: ANTHROPIC_BASE_URL={url}, any key")
        print("Ctrl-C ends it.", flush=True)
