"""Turns a request into a conversation and the prompt's tokens, and refuses what cannot become one."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from chatcli.conversation.tree import Entry
from chatcli.errors import ContextFull, ImagesRefused, NotAnImage, UsageError
from chatcli.model import vision
from chatcli.serve.conversations import Conversations
from chatcli.serve.request import ReplyRequest, not_shown
from chatcli.session.runtime import Runtime
from chatcli.settings.values import Settings
from chatcli.store.segments.token_path import usable_boundaries
from chatcli.store.sessions.log import SessionLog
from chatcli.store.sessions.transcript import Transcript
from chatcli.turn.prompt import Prompt, TurnContext, begun, history, render, room_left

# A text with more than `LETTERS_PER_TOKEN` letters for each token of the context rarely fits. Its tokens are
# counted in pieces before it is rendered, because tokenizing it whole cannot be interrupted.
LETTERS_PER_TOKEN, PIECE_LETTERS = 8, 1 << 16
# Fields that a template may leave out are accepted up to this length in any case.
MIN_UNSHOWN_LETTERS = 1 << 20
# How many images that the model cannot see are remembered.
MAX_REMEMBERED = 256

logger = logging.getLogger("chatcli.serve")


@dataclass(frozen=True)
class Signal:
    """A stop signal that is computed."""

    is_set: Callable[[], bool]


class PromptRenderer:
    """Renders requests for a loaded model; remembers refused images and logged warnings."""

    def __init__(
        self, settings: Settings, runtime: Runtime, conversations: Conversations, model: str
    ) -> None:
        """`model` is the model's name in the conversations' records."""
        self._settings, self._runtime = settings, runtime
        self._conversations, self._model = conversations, model
        # The length and a digest of each message refused for an image, and the images already logged as not
        # shown.
        self._refused: deque[tuple[int, str]] = deque(maxlen=MAX_REMEMBERED)
        self._said_unseen: deque[str] = deque(maxlen=MAX_REMEMBERED)
        # The notes on the chat template that are already logged.
        self._said: set[str] = set()

    def checked(self, request: ReplyRequest, is_over: Callable[[], bool]) -> ReplyRequest:
        """The request with notes in place of images that the model cannot see.

        `is_over` is called now and then to ask whether to stop, and may do other work. Raises `UsageError`,
        `ContextFull`, `ImagesRefused` and `NotAnImage`.
        """
        if request.prompt is None and all(each.role == "system" for each in request.messages):
            raise UsageError("The request has no message to reply to.")
        self._check_length(request, is_over)
        return self._with_notes(request)

    def context(self, request: ReplyRequest, is_over: Callable[[], bool]) -> TurnContext:
        """The context of a turn whose conversation ends with the message to reply to."""
        think = self._settings.think if request.think is None else request.think
        session = SessionLog(Transcript("", self._conversations.conversation(request, self._model)))
        session.is_private = request.private
        return self._runtime.turn_context(session, think, Signal(is_over))

    def keeping(self, context: TurnContext, request: ReplyRequest) -> AbstractContextManager[None]:
        """Keep the request's images until its prompt is prefilled."""
        loaded = self._runtime.loaded
        return vision.keeping(loaded.vision, request.images, loaded.name, context.session.held_images)

    def count(self, context: TurnContext, request: ReplyRequest) -> int:
        """The number of the prompt's tokens, even if it does not fit. Raises `TemplateRefused`."""
        with self.keeping(context, request):
            tokens = len(context.template.prompt(history(context, _question(context))))
        return tokens + (len(context.template.encode(request.beginning.content)) if request.beginning else 0)

    def prompt(self, context: TurnContext, request: ReplyRequest) -> Prompt:
        """The request as tokens. Raises `TemplateRefused` or `ContextFull`."""
        question = _question(context)
        if request.prompt is None:
            prompt = render(context, question)
            if request.beginning is not None:
                prompt = begun(context, prompt, request.beginning)
            for clause in self._runtime.adapted:
                if clause not in self._said:
                    self._said.add(clause)
                    logger.warning("For this model's chat template, %s.", clause)
            return prompt
        loaded = self._runtime.loaded
        tokens = list(loaded.tokenizer.encode(request.prompt))
        if not tokens:
            raise UsageError("The prompt is empty.")
        room_left(context, len(tokens), alone=True)
        end = usable_boundaries([len(tokens) - 1], len(tokens))
        return Prompt(question, context.checkpoints.cut(tokens, end), {0: 0, 1: len(tokens) - 1})

    def _with_notes(self, request: ReplyRequest) -> ReplyRequest:
        """The request with a note in place of each image that the model cannot see.

        A message with such an image is refused once, because clients keep it in their history, and some add
        the next text to the same message. Raises `ImagesRefused` and `NotAnImage`.
        """
        unseen, loaded = set(), self._runtime.loaded
        for image in request.images:
            try:
                vision.prepare(loaded.vision, [image], loaded.name)
            except (ImagesRefused, NotAnImage) as error:
                sha256 = image.picture.sha256
                if sha256 in request.brought and not self._was_refused(request.messages[-1].content):
                    raise
                unseen.add(sha256)
                if sha256 not in self._said_unseen:
                    self._said_unseen.append(sha256)
                    logger.warning("An image of a conversation's history is not shown: %s", error)
        if not unseen:
            return request
        messages = []
        for message in request.messages:
            seen = tuple(each for each in message.images if each.sha256 not in unseen)
            notes = [not_shown("image")] * (len(message.images) - len(seen))
            content = "\n".join([*notes, *([message.content] if message.content else [])])
            messages.append(replace(message, content=content, images=seen))
        images = tuple(each for each in request.images if each.picture.sha256 not in unseen)
        return replace(request, messages=tuple(messages), images=images)

    def _was_refused(self, content: str) -> bool:
        """Whether a message continues one refused for its image; if not, remember it as refused."""
        for length, digest in self._refused:
            if length < len(content) and _digest(content[:length]) == digest:
                return True
        self._refused.append((len(content), _digest(content)))
        return False

    def _check_length(self, request: ReplyRequest, is_over: Callable[[], bool]) -> None:
        """Raise `ContextFull` if the texts are clearly too long, before the template renders them."""
        loaded = self._runtime.loaded
        texts = [request.prompt or "", *(json.dumps(tool, ensure_ascii=False) for tool in request.tools)]
        # The template's other input, which it may leave out.
        others = [request.effort or "", json.dumps(dict(request.arguments), ensure_ascii=False)]
        for message in request.messages:
            texts.append(message.content)
            others += [message.thinking, message.tool_call_id]
            for call in message.tool_calls:
                texts += [call.name, call.arguments]
                others.append(call.id)
        unshown = sum(map(len, others))
        if unshown > max(LETTERS_PER_TOKEN * loaded.context, MIN_UNSHOWN_LETTERS):
            raise ContextFull(
                f"The thinking, ids and template arguments of this request have {unshown:,} letters: more "
                f"than the model's context of {loaded.context:,} tokens holds.",
                "Send less of the earlier thinking.",
            )
        if sum(map(len, texts)) <= LETTERS_PER_TOKEN * loaded.context:
            return
        tokens = 0
        for text in texts:
            for start in range(0, len(text), PIECE_LETTERS):
                piece = text[start : start + PIECE_LETTERS]
                # Each cut may add a token.
                tokens += len(loaded.tokenizer.encode(piece, add_special_tokens=False)) - 1
                if tokens >= loaded.context:
                    raise ContextFull(
                        f"The prompt has more tokens than the model's context, {loaded.context:,}.",
                        "Choose a model with a longer context with -m.",
                    )
                if is_over():
                    return


def _question(context: TurnContext) -> Entry:
    return context.conversation.entries[str(context.conversation.head)]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
