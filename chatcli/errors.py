"""Every error that a person can meet, as one tree; knows nothing else.

* ChatcliError                 exit code 1, one sentence that says what to do
  + UsageError                 exit code 2: what was asked for cannot be
    - EmptyPrompt
    - NothingToRepeat
    - BadName
    - TurnOutOfRange
    - NotAnImage
  + FolderError                the sessions folder cannot be read or written
  + SessionError
    - SessionNotFound
    - SessionExists
    - SessionLocked
    - SessionUnreadable        damaged beyond the lines that can be skipped
    - SessionVersionError      written by a newer chatcli
    - NotImportable            no conversation that can be kept whole
  + ModelError
    - BackendMissing           MLX is not installed for this machine
    - ModelNotFound
    - ModelBroken
    - NoChatTemplate
    - CacheRefused             a cache such as this model cannot have
    - DraftModelRefused        a draft model that cannot help this model
    - TokenUnknown             a logit bias for a token that the model does not have
    - TemplateRefused          the template raised on this conversation
      ImagesRefused            images that this model, or this machine, cannot be shown
    - ContextFull
    - MemoryFull             more bytes than there are, or than --memory-limit allows
  + SegmentDamaged             never reaches a person: a miss with a reason
* RankLost                     exit code 1: one of several processes with one model is gone
"""

from __future__ import annotations


class ChatcliError(Exception):
    """Base of every error whose text may be shown as it is."""

    exit_code = 1


class UsageError(ChatcliError):
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
    pass


class SessionError(ChatcliError):
    pass


class SessionNotFound(SessionError):
    pass


class SessionExists(SessionError):
    pass


class SessionLocked(SessionError):
    pass


class SessionUnreadable(SessionError):
    pass


class SessionVersionError(SessionError):
    pass


class NotImportable(SessionError):
    pass


class ModelError(ChatcliError):
    pass


class BackendMissing(ModelError):
    pass


class ModelNotFound(ModelError):
    pass


class ModelBroken(ModelError):
    pass


class NoChatTemplate(ModelError):
    pass


class CacheRefused(ModelError):
    pass


class DraftModelRefused(ModelError):
    pass


class TokenUnknown(ModelError):
    pass


class TemplateRefused(ModelError):
    pass


class ImagesRefused(TemplateRefused):
    pass


class ContextFull(ModelError):
    pass


class MemoryFull(ModelError):
    pass


class SegmentDamaged(ChatcliError):
    pass


class RankLost(Exception):
    """No `ChatcliError`: no other turn can be taken after it, so nothing that goes on may catch it."""

    exit_code = 1
