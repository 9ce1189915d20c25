"""Every error that a person can meet, as one tree. Its text is one sentence that says what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class ChatcliError(Exception):
    """Base of every error whose text may be shown as it is."""

    exit_code = 1


class UsageError(ChatcliError):
    """What was asked for is not possible."""

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


class FolderError(ChatcliError):
    """The sessions folder, or another place, cannot be read or written."""


class SessionError(ChatcliError):
    pass


class SessionNotFound(SessionError):
    pass


class SessionExists(SessionError):
    pass


class SessionLocked(SessionError):
    pass


class SessionUnreadable(SessionError):
    """Damaged beyond the lines that can be skipped."""


class SessionVersionError(SessionError):
    """Written by a newer chatcli."""


class NotImportable(SessionError):
    """No conversation that can be kept whole."""


class ModelError(ChatcliError):
    pass


@contextlib.contextmanager
def of_draft_model() -> Iterator[None]:
    """Say of what is wrong with a draft model that it is the flag's, or the setting's of that name."""
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
    """`model` needs code of its own with this `digest` (empty: it cannot be approved)."""

    def __init__(self, message: str, model: str, digest: str) -> None:
        super().__init__(message)
        self.model, self.digest = model, digest


class NoChatTemplate(ModelError):
    pass


class CacheRefused(ModelError):
    """The options ask for a cache that this model cannot have."""


class DraftModelRefused(ModelError):
    """The draft model cannot propose tokens for this model."""


class TokenUnknown(ModelError):
    """A logit bias names a token that the model does not have."""


class TemplateRefused(ModelError):
    """The chat template raised on this conversation."""


class TemplateCutOff(TemplateRefused):
    """The chat template was ended: it took too long, or too much memory."""


class TemplateStopped(TemplateCutOff):
    """Ctrl-C ended it."""

    exit_code = 130


class ImagesRefused(TemplateRefused):
    """This model, or this machine, cannot take images."""


class NoRoom(ModelError):
    """`facts` say what does not fit where, `advice` what a person at a terminal can do about it."""

    def __init__(self, facts: str, advice: str) -> None:
        super().__init__(f"{facts} {advice}")
        self.facts = facts


class ContextFull(NoRoom):
    pass


class MemoryFull(NoRoom):
    """More bytes are needed than there are, or than --memory-limit allows."""


class SegmentDamaged(ChatcliError):
    """Never reaches a person: the segment is a cache miss, and this is its reason."""


class RankLost(Exception):
    """One of several processes that share a model is gone.

    Not a `ChatcliError`: no further turn is possible, so nothing that goes on to the next may catch it.
    """

    exit_code = 1
