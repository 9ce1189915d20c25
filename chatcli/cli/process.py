"""The process around the commands: its standard streams, the ranks beside it, how it ends."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn, TextIO

import typer

from chatcli import files
from chatcli.cli.output import confirm, warn
from chatcli.errors import ChatcliError, CodeNotTrusted, RankLost
from chatcli.text import clean_line, decodable, file_size
from chatcli.tui.terminal import startup

if TYPE_CHECKING:
    from chatcli.api import Chat
    from chatcli.model.ranks import Ranks
    from chatcli.session.live_chat import LiveChat
    from chatcli.session.model_slot import ModelSlot
    from chatcli.settings.values import Settings

# The exit code of a process that was interrupted.
INTERRUPTED = 130
DEBUG = "CHATCLI_DEBUG"
# How long after SIGTERM a process may still learn that another rank is gone.
RANK_LOST_SECONDS = 0.5


def open_closed_streams() -> None:
    """Give a closed standard stream the null device, so that no file of ours takes its number.

    What is written to a closed standard output is lost, so the device is open for reading only there: writing
    is an error, as on a full disk.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        pass
    os.close(descriptor)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123
    if sys.stdout is None:
        unwritable = os.open(os.devnull, os.O_RDONLY)
        os.dup2(unwritable, 1)
        os.close(unwritable)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123


class StandardStream(io.TextIOWrapper):
    """A standard stream that remembers why it could not be written. `dropping`: it raises nothing then."""

    def __init__(self, stream: io.TextIOWrapper, *, dropping: bool) -> None:
        encoding, line_buffering = stream.encoding, stream.line_buffering
        unbuffered = stream.write_through
        super().__init__(
            stream.detach(), encoding, "replace", line_buffering=line_buffering, write_through=unbuffered
        )
        self.problem: OSError | None = None
        self._drops = dropping

    def write(self, text: str) -> int:
        with self._watched():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with self._watched():
            super().flush()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.problem = error
            if not self._drops:
                raise
            # What is left in the buffer goes there too.
            discard(self.fileno())


def piped_text() -> str:
    """What standard input holds. Raises `FolderError` if that is longer than any prompt."""
    return _piped(sys.stdin.read)


def piped_lines() -> Iterator[str]:
    """The lines of standard input as they come. Raises `FolderError` for one longer than any prompt."""
    while line := _piped(sys.stdin.readline):
        yield line


def _piped(read: Callable[[int], str]) -> str:
    with files.explained("read standard input"):
        text = read(files.MAX_PROMPT_BYTES + 1)
        if len(text) > files.MAX_PROMPT_BYTES:
            raise files.too_long(files.MAX_PROMPT_BYTES)
    return decodable(text)


def watch_streams() -> None:
    """Tell a broken standard output from other errors, and ignore a broken standard error."""
    if type(sys.stdout) is io.TextIOWrapper:
        sys.stdout = StandardStream(sys.stdout, dropping=False)
    if type(sys.stderr) is io.TextIOWrapper:
        sys.stderr = StandardStream(sys.stderr, dropping=True)


def broken_output() -> str | None:
    """Why standard output cannot be written, None if it can. Pending output is then dropped."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    problem = getattr(sys.stdout, "problem", None)
    if problem is None:
        return None
    discard(sys.stdout.fileno())
    return problem.strerror or str(problem)


def discard(descriptor: int) -> None:
    """Have a descriptor write to the null device from now on."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)


@functools.cache
def our_ranks() -> Ranks:
    """The processes that share the model: those that mlx.launch or a person has started, else this one."""
    from chatcli.model.ranks import Place, Ranks

    return Ranks(Place.from_environment(os.environ))


def approve_and_start_again(error: CodeNotTrusted) -> None:
    """Ask, in a terminal, whether a model's own code may run. If so, restart the command."""
    in_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    if not (error.digest and in_terminal and our_ranks().size == 1):
        return
    question = f"Run the code of {clean_line(error.model)} on this machine, until it changes?"
    if typer.confirm(question, err=True):
        from chatcli.model import own_code

        own_code.approve(error.model, error.digest)
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def announce_download(model: ModelSlot) -> None:
    """Say how large a model is that will be downloaded, and ask whether to if it does not fit in memory.

    Raises `ModelNotFound`. Exits without a yes.
    """
    if (size := model.download_size()) is None:
        return
    from chatcli.model import device

    room = model.settings.memory_limit or device.room()
    about = f"{clean_line(model.name)} is not on this machine: {file_size(size)} to download."
    if room is None:
        warn(about)
    elif size <= room:
        warn(f"{about} It fits in memory, where a model may take {file_size(room)}.")
    else:
        too_large = f"It does not fit in memory, where a model may take {file_size(room)}."
        confirm(f"{about} {too_large} Download it?", None, refused="Nothing was downloaded.")


def is_follower() -> bool:
    """Whether this is a rank that does what rank 0 does."""
    return not our_ranks().leads


def prepare_rank(ranks: Ranks) -> None:
    """Of several ranks only rank 0 reads and prints, and is interrupted."""
    if DEBUG not in os.environ:
        # MLX would repeat our error there, over what the shell has drawn.
        sys.stderr = own_stderr()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if is_follower():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode) for mode in "rww")  # noqa: SIM115, PTH123
        return

    def terminate(*_: object) -> None:
        # mlx.launch ends all ranks when one is gone: time to say so and to save the reply so far.
        if not ranks.ended.wait(RANK_LOST_SECONDS):
            ranks.leave()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, terminate)


@functools.cache
def own_stderr() -> TextIO:
    """Standard error as this process was given it, also where it is the null device now."""
    return open(os.dup(2), "w", 1, errors="replace")  # noqa: PTH123


def follow(ranks: Ranks, settings: Settings) -> NoReturn:
    """Follow rank 0 until it leaves."""
    import typer

    from chatcli.session import follower

    complain = functools.partial(warn, file=own_stderr())
    try:
        raise typer.Exit(follower.follow(ranks, settings, complain))
    except RankLost as error:
        complain(str(error))
        raise typer.Exit(error.exit_code) from error


def close(chat: LiveChat | Chat) -> None:
    """Close a chat. A model that still loads cannot be stopped, so the process ends without it."""
    if problem := chat.close():
        warn(problem)
    error = sys.exc_info()[1]
    our_ranks().close()
    if not chat.abandoned or isinstance(error, CodeNotTrusted):
        return
    if error is None or isinstance(error, KeyboardInterrupt):
        leave_at_once(INTERRUPTED if error else 0)
    if isinstance(error, ChatcliError):
        warn(str(error))
        leave_at_once(error.exit_code)


def leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for its threads."""
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    startup.restore()
    os._exit(code)
