"""The exceptions that users see, as one tree. Each message is a sentence that says what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class ChatcliError(Exception):
    """Base of all errors whose message can be shown to people."""

    exit_code = 1


class UsageError(ChatcliError):
    """The request is invalid or impossible."""

    exit_code = 2


class EmptyPrompt(UsageError):
    pass


class NothingToRepeat(UsageError):
    pass


class BadName(UsageError):
    pass


class TurnOutOfRange(UsageError):
    pass


class NotAnImage(UsageError):
    pass


class SchemaRefused(UsageError):
    """A JSON schema that answers cannot be bound to."""


class FolderError(ChatcliError):
    """The sessions folder, or another folder, cannot be read or written."""


class SessionError(ChatcliError):
    pass


class SessionNotFound(SessionError):
    pass


class SessionExists(SessionError):
    pass


class SessionLocked(SessionError):
    pass


class SessionUnreadable(SessionError):
    """The file is damaged, and skipping lines does not help."""


class SessionVersionError(SessionError):
    """A newer chatcli wrote the file."""


class NotImportable(SessionError):
    """The file is not a conversation, or cannot be imported without loss."""


class ModelError(ChatcliError):
    pass


@contextlib.contextmanager
def of_draft_model() -> Iterator[None]:
    """Prefix errors with --draft-model, so that they are not taken for errors of the model."""
    try:
        yield
    except ModelError as error:
        raise type(error)(f"--draft-model: {error}") from error


class BackendMissing(ModelError):
    """MLX is not installed for this machine."""


class ModelNotFound(ModelError):
    pass


class ModelBroken(ModelError):
    pass


class CodeNotTrusted(ModelBroken):
    """`model` needs its own code, with this `digest` (empty: it cannot be approved)."""

    def __init__(self, message: str, model: str, digest: str) -> None:
        super().__init__(message)
        self.model, self.digest = model, digest


class NoChatTemplate(ModelError):
    pass


class CacheRefused(ModelError):
    """The options require a cache that this model does not support."""


class DraftModelRefused(ModelError):
    """The draft model is not compatible with this model."""


class TokenUnknown(ModelError):
    """A logit bias names a token that the model does not have."""


class TemplateRefused(ModelError):
    """The chat template raised an error for this conversation."""


class TemplateCutOff(TemplateRefused):
    """The chat template was killed because it took too long or too much memory."""


class TemplateStopped(TemplateCutOff):
    """Ctrl-C stopped the chat template."""

    exit_code = 130


class ImagesRefused(TemplateRefused):
    """This model or this machine does not support images."""


class NoRoom(ModelError):
    """Something does not fit: `facts` are the numbers, `advice` is for a person at a terminal."""

    def __init__(self, facts: str, advice: str) -> None:
        super().__init__(f"{facts} {advice}")
        self.facts = facts


class ContextFull(NoRoom):
    pass


class MemoryFull(NoRoom):
    """More memory is needed than is available, or than --memory-limit allows."""


class SegmentDamaged(ChatcliError):
    """A segment is damaged. It becomes a cache miss with this reason and never reaches a person."""


class RankLost(Exception):
    """One of several processes that share a model has ended.

    Not a `ChatcliError`, because code that catches those would continue with the next turn.
    """

    exit_code = 1
