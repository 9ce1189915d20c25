"""What the commands share: options, what else sets them, where the sessions are, how results print.

Refuses to know any command. A flag wins over the environment, that over the file, that over the
defaults.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TextIO, get_type_hints

import platformdirs
import typer

from chatcli import text as plain
from chatcli.chat_format.arguments import parse_argument
from chatcli.cli import tuning
from chatcli.cli.tuning import OWN
from chatcli.commands import results
from chatcli.errors import ChatcliError, RankLost, UsageError
from chatcli.model.ranks import Ranks, here
from chatcli.session.opening import SessionRequest, default_sessions
from chatcli.settings import config_file as config
from chatcli.settings.config_file import Value
from chatcli.settings.values import KEPT, POCKET, ModelOptions, Sampling, Settings, aliased
from chatcli.store.sessions.folder import SessionFolder

PREFIX = "CHATCLI_"
# Set by the shell that asks for completions: what is said then would land in the command line.
COMPLETING = "_CHATCLI_COMPLETE"
DEFAULT = Settings(Path())
SAMPLING = [field.name for field in fields(Sampling)]
# Options whose values Typer cannot check.
CHECKED = {
    "kv_bits",
    "kv_group_size",
    "logit_bias",
    "stop",
    "presence_penalty",
    "frequency_penalty",
}
MODEL_OPTIONS = [field.name for field in fields(ModelOptions)]


class Panel(StrEnum):
    """How much is shown of each turn's reuse, as a choice."""

    line = "line"
    full = "full"
    off = "off"


def complete_session(incomplete: str) -> list[str]:
    """Session names for the shell's completion."""
    try:
        names = SessionFolder(sessions_folder(None)).names()
    except ChatcliError:
        return []
    return [name for name in names if name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_session)]
SessionsOption = Annotated[
    Path | None, typer.Option("--sessions", metavar="DIR", help="The folder of sessions.")
]
CacheLimitOption = Annotated[
    str | None,
    typer.Option(
        "--cache-limit",
        metavar="SIZE",
        help="Most that checkpoints may take on disk, such as 5GB "
        "(default: 20 GiB or a tenth of the free disk, whichever is less).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def complete_model(incomplete: str) -> list[str]:
    """Names of models for the shell's completion: pocket, aliases, and what is here of the hub."""
    from chatcli.model import hub

    try:
        aliases = list(configured().file.models)
    except ChatcliError:
        aliases = []
    return [name for name in [POCKET, *aliases, *hub.names()] if name.startswith(incomplete)]


def model_behind(name: str | None) -> str | None:
    """The model that `-m` means: an alias of the file is what it stands for."""
    return None if name is None else aliased(name, configured().file.models)


ModelOption = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--model",
        metavar="MODEL",
        help="A folder, a hub name, an alias, or 'pocket' (the default); chatcli models lists them.",
        autocompletion=complete_model,
        callback=model_behind,
    ),
]


@dataclass(frozen=True)
class Configured:
    """What stands where no flag does: by the environment, and by the file."""

    environment: dict[str, Value]
    file: config.Remembered

    def find(self, key: str) -> tuple[Value | None, str]:
        """A setting's value (None: not set) and where it is from: env, file or default."""
        if key in self.environment:
            return self.environment[key], "env"
        if key in self.file.values:
            return self.file.values[key], "file"
        return default_of(key), "default"


def default_of(key: str) -> Value | None:
    """What `Settings` has for a key. The folder of sessions depends on where one is."""
    if key == "sessions":
        return str(default_sessions())
    parts = (DEFAULT.sampling, DEFAULT.model_options, DEFAULT)
    found: Value | None = next(getattr(part, key) for part in parts if hasattr(part, key))
    return found


def config_file() -> Path:
    """CHATCLI_CONFIG, else config.toml in the user's configuration folder."""
    if named := os.environ.get(f"{PREFIX}CONFIG"):
        return Path(named).expanduser()
    return platformdirs.user_config_path("chatcli") / "config.toml"


def from_environment(key: str) -> Value | None:
    """What CHATCLI_KEY says, if it is not empty. Raises `UsageError`."""
    name = PREFIX + key.upper()
    word = plain.decodable(os.environ.get(name, "")) if key != "sessions" else os.environ.get(name)
    return config.from_word(key, word, name) if word else None


@functools.cache
def configured() -> Configured:
    """The environment and the file, read once; what is odd in the file is told then.

    Raises `UsageError` for what cannot be used.
    """
    found = {key: from_environment(key) for key in config.SETTINGS}
    said = config.read(config_file())
    for problem in said.problems.values():
        raise UsageError(problem)
    for warning in said.unknown.values() if COMPLETING not in os.environ else ():
        print(plain.clean(f"chatcli: {warning}"), file=sys.stderr)
    return Configured({key: value for key, value in found.items() if value is not None}, said)


def limit_of(text: str | None, key: str = "cache_limit") -> int | None:
    """`--cache-limit` (or another `key`) in bytes, else what is configured. Raises `UsageError`."""
    wanted = configured().find(key)[0] if text is None else text
    if wanted is None:
        return None
    try:
        return config.size_of(str(wanted))
    except ValueError:
        raise UsageError(
            f"'{text}' is no size: give --{key.replace('_', '-')} a number such as 500MB or 5GiB."
        ) from None


@dataclass(frozen=True)
class Options:
    """The options that `chat`, `resume`, `branch` and `ask` share, each declared once."""

    model: ModelOption = None
    system: Annotated[str | None, typer.Option("-s", "--system", help="System prompt.")] = None
    session: Annotated[
        str | None,
        typer.Option(
            "-S",
            "--session",
            metavar="NAME",
            help="Continue or begin this session.",
            autocompletion=complete_session,
        ),
    ] = None
    latest: Annotated[bool, typer.Option("-c", "--continue", help="Continue the most recent session.")] = (
        False
    )
    at: Annotated[int | None, typer.Option("--at", metavar="TURN", help="Continue from this turn.")] = None
    temp: Annotated[
        float | None,
        typer.Option("--temp", min=0.0, help=f"Sampling temperature (0: none; {OWN})."),
    ] = None
    top_p: Annotated[
        float | None, typer.Option("--top-p", min=0.0, max=1.0, help=f"Top-p (1: off; {OWN}).")
    ] = None
    top_k: Annotated[int | None, typer.Option("--top-k", min=0, help=f"Top-k (0: off; {OWN}).")] = None
    min_p: Annotated[
        float | None, typer.Option("--min-p", min=0.0, max=1.0, help=f"Min-p (0: off; {OWN}).")
    ] = None
    repetition_penalty: Annotated[
        float | None,
        typer.Option("--repetition-penalty", min=0.1, help=f"Repetition penalty (1: off; {OWN})."),
    ] = None
    presence_penalty: tuning.PresencePenalty = None
    frequency_penalty: tuning.FrequencyPenalty = None
    repetition_context_size: tuning.RepetitionContextSize = None
    xtc_probability: tuning.XtcProbability = None
    xtc_threshold: tuning.XtcThreshold = None
    min_tokens_to_keep: tuning.MinTokensToKeep = None
    logit_bias: tuning.LogitBias = None
    stop: tuning.Stop = None
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Sampling seed.")] = None
    max_tokens: Annotated[
        int | None,
        typer.Option("-n", "--max-tokens", min=1, help="Longest reply, thinking included."),
    ] = None
    think_budget: Annotated[
        int | None,
        typer.Option(
            "--think-budget",
            metavar="N",
            min=0,
            help="Close the thinking after so many tokens of it, so that the answer begins.",
        ),
    ] = None
    template_arg: Annotated[
        list[str] | None,
        typer.Option(
            "--template-arg",
            metavar="KEY=VALUE",
            help="Tell the model's chat template something that it knows, such as "
            "preserve_thinking=true (JSON, else text; null takes it back). The session keeps it.",
        ),
    ] = None
    think: Annotated[bool | None, typer.Option("--think/--no-think", help="Switch the model's thinking.")] = (
        None
    )
    cache: Annotated[
        bool | None,
        typer.Option("--cache/--no-cache", help="Read and write checkpoints (default: cache)."),
    ] = None
    draft: Annotated[
        bool | None,
        typer.Option("--draft/--no-draft", help="Prefill a message while it is typed (default: draft)."),
    ] = None
    max_kv_size: tuning.MaxKvSize = None
    kv_bits: tuning.KvBits = None
    kv_group_size: tuning.KvGroupSize = None
    prefill_step_size: tuning.PrefillStepSize = None
    adapter_path: tuning.AdapterPath = None
    draft_model: Annotated[
        str | None,
        typer.Option(
            "--draft-model",
            metavar="MODEL",
            rich_help_panel=tuning.RUN,
            help="A small model of the same vocabulary, named as -m names one. It proposes a reply's "
            "tokens and the model checks several at once, which is faster where it is often right "
            "('none': not even that of the settings).",
            autocompletion=complete_model,
        ),
    ] = None
    num_draft_tokens: tuning.NumDraftTokens = None
    pipeline: tuning.Pipeline = None
    cache_limit: CacheLimitOption = None
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit",
            metavar="SIZE",
            help="Most that the model and its cache may take in memory, such as 12GB "
            "(default: what the device recommends). A prompt that needs more is refused.",
        ),
    ] = None
    sessions: SessionsOption = None
    panel: Annotated[
        Panel | None,
        typer.Option("--panel", help=f"What is shown of each turn's reuse (default: {DEFAULT.panel})."),
    ] = None
    trust_remote_code: Annotated[
        bool | None,
        typer.Option(
            "--trust-remote-code/--no-trust-remote-code",
            help="Run Python code that comes with the model. It can do whatever you can: read and "
            "delete your files, use your network. Only for makers you trust (default: off).",
        ),
    ] = None
    plain: Annotated[bool, typer.Option("--plain", help="Line by line: no Markdown, colours or drawing.")] = (
        False
    )
    as_json: JsonOption = False

    def settings(self) -> Settings:
        """Every setting from the first that has it: flag, environment, file, default."""
        held = {key: self._find(key) for key in config.SETTINGS}
        sampling = tuning.sampling_of({key: held.pop(key) for key in SAMPLING})
        model_options = tuning.model_options_of({key: held.pop(key) for key in MODEL_OPTIONS})
        held["sessions"] = sessions_folder(self.sessions)
        held["cache_limit"] = limit_of(self.cache_limit)
        held["memory_limit"] = limit_of(self.memory_limit, "memory_limit")
        models = configured().file.models
        held["model"] = aliased(held["model"], models)
        held["draft_model"] = tuning.draft_model_of(held["draft_model"], models)
        return Settings(sampling=sampling, models=models, model_options=model_options, **held)

    def _find(self, key: str) -> Any:
        # A flag's model and system prompt are for any session, those below for one that is begun.
        flag = None if key in ("model", "system") else getattr(self, key)
        if flag is None or flag == []:
            return configured().find(key)[0]
        if key in CHECKED:
            return config.checked(key, flag, f"--{key.replace('_', '-')}")
        return flag.value if isinstance(flag, Panel) else flag

    def wanted(self, name: str | None = None, *, must_exist: bool = False) -> SessionRequest:
        system = None if self.system is None else plain.decodable(self.system)
        name = name or self.session
        told = dict(map(parse_argument, self.template_arg or ()))
        return SessionRequest(
            name,
            self.latest,
            self.at,
            system,
            must_exist,
            template_args=told,
            model_options=self._model_option_flags(),
        )

    def _model_option_flags(self) -> dict[str, Any]:
        """What flags say of how the model is run."""
        made = tuning.model_options_of({key: self._find(key) for key in MODEL_OPTIONS})
        return {key: getattr(made, key) for key in KEPT if getattr(self, key) is not None}


@functools.cache
def our_ranks() -> Ranks | None:
    """The processes that mlx.launch, or a person, has started beside this one; None if it is alone."""
    place = here(os.environ)
    return None if place is None else Ranks(place)


@functools.cache
def own_stderr() -> TextIO:
    """Standard error as it was given to this process, for what is said in spite of all."""
    return open(os.dup(2), "w", 1, errors="replace")  # noqa: PTH123


def follow(ranks: Ranks, options: Options) -> None:
    """Be a rank that does what rank 0 does, until that leaves."""
    from chatcli.session import follower

    def tell(why: str) -> None:
        print(plain.clean(f"chatcli: {why}"), file=own_stderr())

    try:
        raise typer.Exit(follower.follow(ranks, options.settings(), tell))
    except RankLost as error:
        tell(str(error))
        raise typer.Exit(error.exit_code) from error


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `options: Options` all of its fields as options of its own."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "options"]
    shared = get_type_hints(Options, include_extras=True)

    def run(**given: Any) -> None:
        chosen = {field.name: given.pop(field.name) for field in fields(Options)}
        options = Options(**chosen)
        if (ranks := our_ranks()) is None or ranks.leads:
            command(**given, options=options)
        else:
            follow(ranks, options)

    kind = inspect.Parameter.KEYWORD_ONLY
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p.replace(kind=kind) for p in own]
        + [
            inspect.Parameter(f.name, kind, default=f.default, annotation=shared[f.name])
            for f in fields(Options)
        ]
    )
    run.__annotations__ = {p.name: p.annotation for p in own} | shared
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def sessions_folder(given: Path | None) -> Path:
    """`--sessions`, else CHATCLI_SESSIONS, else the file's, else `default_sessions`."""
    if given is not None:
        return given.expanduser()
    return Path(str(configured().find("sessions")[0])).expanduser()


def show_result(result: results.Result) -> None:
    from chatcli.tui.render.screen import Screen

    Screen().result(result)


def print_json(value: Any) -> None:
    """JSON in ASCII, so that nothing in it can act on a terminal."""
    print(json.dumps(value))
