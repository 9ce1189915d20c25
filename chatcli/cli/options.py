"""The options that commands share, and their values where they are not given.

A flag wins over the environment, that over the config file, that over the defaults.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_type_hints

import platformdirs
import typer

from chatcli.chat_format.arguments import parse_argument
from chatcli.cli.output import warn
from chatcli.cli.process import follow, our_ranks
from chatcli.errors import ChatcliError, UsageError
from chatcli.session.opening import SessionRequest
from chatcli.settings import config_file
from chatcli.settings.declaration import Choice, Switch, Value
from chatcli.settings.values import DEFAULT_VALUES, KEPT, POCKET, SETTINGS, Settings, aliased
from chatcli.store.sessions import marker
from chatcli.store.sessions.folder import SessionFolder
from chatcli.text import decodable, shorten

PREFIX = "CHATCLI_"
# Set by the shell that asks for completions: a warning would land in the command line.
COMPLETING = "_CHATCLI_COMPLETE"
# Characters of a name that some shell would act on.
UNSAFE = re.compile(r"[^\w.,/@%+-]")


def config_path() -> Path:
    """CHATCLI_CONFIG, else config.toml in the user's configuration folder."""
    if named := os.environ.get(f"{PREFIX}CONFIG"):
        return Path(named).expanduser()
    return platformdirs.user_config_path("chatcli") / "config.toml"


def from_environment(key: str) -> Value | None:
    """What CHATCLI_KEY says, if it is not empty. Raises `UsageError`."""
    name = PREFIX + key.upper()
    word = decodable(os.environ.get(name, "")) if key != "sessions" else os.environ.get(name)
    return SETTINGS[key].check_word(word, name) if word else None


class Effective(NamedTuple):
    """A setting's value (None: nothing sets it) and where it is from: flag, env, file or default."""

    value: Value | None
    source: str


@dataclass(frozen=True)
class Configured:
    """The settings of the environment and of the config file, for where no flag is given."""

    environment: Mapping[str, Value]
    file: config_file.Remembered

    def find(self, key: str) -> Effective:
        if key in self.environment:
            return Effective(self.environment[key], "env")
        if key in self.file.values:
            return Effective(self.file.values[key], "file")
        default = str(_default_sessions()[0]) if key == "sessions" else DEFAULT_VALUES[key]
        return Effective(default, "default")


@functools.cache
def _default_sessions() -> tuple[Path, str | None]:
    return marker.default_folder()


@functools.cache
def default_sessions() -> Path:
    """The default sessions folder, with a warning if there is a ./sessions that is not used."""
    folder, problem = _default_sessions()
    if problem is not None and COMPLETING not in os.environ:
        warn(problem)
    return folder


@functools.cache
def configured() -> Configured:
    """The environment and the file, read once, with warnings about unknown settings in the file.

    Raises `UsageError` for values that cannot be used.
    """
    environment = {key: value for key in SETTINGS if (value := from_environment(key)) is not None}
    file = config_file.read(config_path())
    for problem in file.problems.values():
        raise UsageError(problem)
    for warning in file.unknown.values() if COMPLETING not in os.environ else ():
        warn(warning)
    return Configured(environment, file)


def value_of(key: str, flag: Any = None) -> Any:
    """A setting as `Settings` holds it: the flag's value, else the configured one. Raises `UsageError`."""
    setting = SETTINGS[key]
    if flag is None or flag == []:
        value, origin = configured().find(key)
        if key == "sessions" and origin == "default":
            value = str(default_sessions())
    else:
        value = setting.check(flag, f"--{key.replace('_', '-')}")
    return None if value is None else setting.load(value)


def session_folder(flag: Path | None) -> SessionFolder:
    """The sessions folder for a command, whose `--sessions` is `flag`. Raises `UsageError`."""
    return SessionFolder(value_of("sessions", flag), sessions_flag(flag))


def sessions_flag(flag: Path | None) -> str | None:
    """The `--sessions` that a printed command line needs for this folder; None if it needs none."""
    if flag is None:
        return None
    with contextlib.suppress(ChatcliError):
        if value_of("sessions", flag).absolute() == Path(str(configured().find("sessions")[0])).absolute():
            return None
    return str(flag)


def complete_session(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names for the shell's completion: the sessions of the folder that the command line names."""
    contexts = [ctx] if ctx.parent is None else [ctx, ctx.parent]
    flags = [each.params["sessions"] for each in contexts if each.params.get("sessions")]
    try:
        return completions(
            SessionFolder(value_of("sessions", flags[0] if flags else None)).names(), incomplete
        )
    except ChatcliError:
        return []


def completions(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that begin with `incomplete`, as a command line takes them.

    bash inserts a completion verbatim, so `UNSAFE` characters are escaped for it. Other shells have rules of
    their own: names with such characters are left out. Names that look like options are always left out.
    """
    names = [name for name in names if name.startswith(incomplete) and not name.startswith("-")]
    if os.environ.get(COMPLETING) == "complete_bash":
        return [UNSAFE.sub(r"\\\g<0>", name) for name in names if name.isprintable()]
    return [name for name in names if not UNSAFE.search(name)]


def complete_model(incomplete: str) -> list[str]:
    """Names of models for the shell's completion: pocket, aliases, and the hub's cache."""
    from chatcli.model import hub

    try:
        aliases = list(configured().file.models)
    except ChatcliError:
        aliases = []
    return completions([POCKET, *aliases, *hub.names()], incomplete)


def flag_of(key: str, **more: Any) -> Any:
    """A declared setting as an option of Typer's; `more` goes to `typer.Option`."""
    setting = SETTINGS[key]
    name = f"--{key.replace('_', '-')}"
    names = [f"{name}/--no-{name[2:]}" if isinstance(setting, Switch) else name]
    if setting.short:
        names.insert(0, setting.short)
    metavar = setting.metavar or setting.placeholder
    # An empty system prompt removes the session's.
    if setting.flag_type is str and key != "system":

        def parse(word: str) -> Value:
            return setting.check_word(word, name)

        more["parser"] = parse
    if isinstance(setting, Choice):
        choices = list(map(str, setting.choices))
        metavar, more["autocompletion"] = "|".join(choices), lambda: choices
    if key in ("model", "draft_model"):
        more["autocompletion"] = complete_model
    if key == "model":
        # An alias of the config file becomes the model that it names.
        more["callback"] = lambda name: None if name is None else aliased(name, configured().file.models)
    return typer.Option(
        *names,
        help=setting.full_help,
        metavar=None if isinstance(setting, Switch) else metavar,
        rich_help_panel=setting.section,
        **more,
    )


def turn_number(word: str) -> int:
    """Raises `UsageError`."""
    try:
        return int(word)
    except ValueError:
        raise UsageError(f"--at must be the number of a turn, not '{shorten(word, 40)}'.") from None


def brief(key: str, help: str) -> Any:
    """A declared setting as an option of the program's own help, in fewer words."""
    setting = SETTINGS[key]
    completion = complete_model if key == "model" else None
    names = [name for name in (setting.short, f"--{key}") if name]
    return typer.Option(
        *names, metavar=setting.metavar or setting.placeholder, help=help, autocompletion=completion
    )


Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=complete_session)]
ModelOption = Annotated[str | None, flag_of("model")]
SessionsOption = Annotated[Path | None, flag_of("sessions")]
CacheLimitOption = Annotated[str | None, flag_of("cache_limit")]
SessionOption = Annotated[
    str | None,
    typer.Option(
        "-S",
        "--session",
        metavar="NAME",
        help="Continue this session, or begin it.",
        autocompletion=complete_session,
    ),
]
LatestOption = Annotated[bool, typer.Option("-c", "--continue", help="Continue the most recent session.")]
YesOption = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True)
class Options:
    """The options that `chat`, `resume`, `branch` and `ask` share.

    `flags` are those of declared settings, by key; None (or an empty list) where one is not given.
    """

    session: SessionOption = None
    latest: LatestOption = False
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="TURN", parser=turn_number, help="Continue from this turn."),
    ] = None
    template_arg: Annotated[
        list[str] | None,
        typer.Option(
            "--template-arg",
            metavar="KEY=VALUE",
            help="Set a variable of the model's chat template, such as preserve_thinking=true "
            "(JSON, else text; null unsets it). The session keeps it.",
        ),
    ] = None
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code",
            help="Run Python code that comes with the model, this time. It can do whatever you can: read "
            "and delete your files, use your network. Only for makers you trust.",
        ),
    ] = False
    private: Annotated[
        bool,
        typer.Option(
            "--private", help="Keep nothing on disk: no words, no checkpoints. /save does, in a chat."
        ),
    ] = False
    plain: Annotated[bool, typer.Option("--plain", help="Line by line: no Markdown, colours or drawing.")] = (
        False
    )
    as_json: JsonOption = False
    json_brief: Annotated[
        bool, typer.Option("--json-brief", help="Print JSON without tokens and logprobs.")
    ] = False
    flags: Mapping[str, Any] = field(default_factory=dict)

    def settings(self) -> Settings:
        """Every setting from the first that has it: flag, environment, file, default."""
        # The flags -m and -s apply to any session, the settings of these names to new ones only.
        flags = {**self.flags, "model": None, "system": None}
        settings = Settings.loaded(
            {key: value_of(key, flags.get(key)) for key in SETTINGS}, configured().file.models
        )
        return replace(
            settings,
            trust_remote_code=self.trust_remote_code,
            sessions_flag=sessions_flag(self.flags.get("sessions")),
        )

    def session_folder(self) -> SessionFolder:
        return session_folder(self.flags.get("sessions"))

    def request(self, name: str | None = None, *, must_exist: bool = False) -> SessionRequest:
        system = self.flags.get("system")
        return SessionRequest(
            name or self.session,
            self.latest,
            self.at,
            None if system is None else decodable(system),
            must_exist,
            template_args=dict(map(parse_argument, self.template_arg or ())),
            model_options={
                key: value_of(key, flag) for key in KEPT if (flag := self.flags.get(key)) is not None
            },
            flags=frozenset(key for key, flag in self.flags.items() if flag not in (None, [])),
            private=self.private,
        )


def with_options(
    command: Callable[..., None] | None = None, *, leave_out: Collection[str] = ()
) -> Callable[..., Any]:
    """Add the shared options, except for those to `leave_out`, to a command that takes `options: Options`."""
    if command is None:
        return functools.partial(with_options, leave_out=leave_out)
    signature = inspect.signature(command, eval_str=True)
    own = {name: each for name, each in signature.parameters.items() if name != "options"}
    hints = get_type_hints(Options, include_extras=True)
    shared = {each.name: each for each in fields(Options) if each.name not in ("flags", *leave_out)}
    keys = [key for key in SETTINGS if key not in leave_out]
    # In the order of the help: the most used come first.
    names = dict.fromkeys(("model", "system", "session", "latest", "at", *SETTINGS, *shared))
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own.values()]
    for name in (name for name in names if name not in leave_out):
        if name in shared:
            default, annotation = shared[name].default, hints[name]
        else:
            default, annotation = None, Annotated[SETTINGS[name].flag_type | None, flag_of(name)]
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )

    def run(**given: Any) -> None:
        flags = {key: given.pop(key) for key in keys}
        options = Options(**{name: given.pop(name) for name in shared}, flags=flags)
        options = replace(options, as_json=options.as_json or options.json_brief)
        name = given.get("name")
        if name and options.session and name != options.session:
            raise UsageError(f"Name one session: '{name}' or '{options.session}'.")
        if options.latest and (named := name or options.session):
            raise UsageError(f"Give -c, for the most recent session, or the name '{named}', but not both.")
        if our_ranks().leads:
            command(**given, options=options)
        else:
            follow(our_ranks(), options.settings())

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run
