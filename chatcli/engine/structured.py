"""A logits processor that constrains an answer to a JSON schema or to tool calls, with llguidance.

llguidance parses the reply as it is generated and computes which tokens may follow. The grammar wraps the
schema in the marks of the model's format, so that thinking is not constrained.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper
from llguidance.hf import from_tokenizer

from chatcli.chat_format.markers import AROUND_MESSAGES, format_of
from chatcli.errors import SchemaRefused
from chatcli.replies.answer_form import AnswerForm
from chatcli.replies.calls import FORCED_CALL
from chatcli.replies.splitter import Format

MAX_CALLS = 16
# Text of every kind that a normalizer may change.
PROBE = "Aé ſﬁ\t9"
# A state of the lexer takes one to two kilobytes.
LIMITS = LLParserLimits(max_lexer_states=50_000, verbose_errors=False)


class StructuredAnswer:
    """Called by mlx-lm with every token so far and the next one's logits.

    Masks the tokens that the form does not allow. If its state becomes too complex, the reply can only end.
    """

    def __init__(
        self, tokenizer: Any, form: AnswerForm, generation_prompt: str, reply_start: Sequence[int] = ()
    ) -> None:
        """`generation_prompt` is a text; `reply_start` holds the tokens of the reply so far.

        Raises `SchemaRefused` if the reply so far does not match the form.
        """
        beginning, may_think = _begun(format_of(tokenizer), generation_prompt)
        self._matcher = _compiled(tokenizer, form, may_think).deep_copy()
        self._was_called = False
        tokens = [*tokenizer.encode(beginning, add_special_tokens=False)] if beginning else []
        tokens += reply_start
        if self._matcher.validate_tokens(tokens) < len(tokens):
            tokens = _spelled_out(tokenizer, tokens)
        if not self._matcher.consume_tokens(tokens):
            raise SchemaRefused("The beginning of the answer does not match its JSON schema.")

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Mask the tokens that cannot follow, in logits of shape (1, vocabulary)."""
        if self._was_called:
            self._matcher.consume_token(tokens[-1].item())
        self._was_called = True
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        allowed = np.unpackbits(bits, bitorder="little")[: logits.shape[-1]].astype(bool)
        # Models may have more logits than tokens.
        allowed = np.pad(allowed, (0, logits.shape[-1] - len(allowed)))
        return mx.where(mx.array(allowed), logits, mx.array(float("-inf"), logits.dtype))


def check(tokenizer: Any, form: AnswerForm) -> None:
    """Raises `SchemaRefused` if this model's answers cannot be constrained."""
    _compiled(tokenizer, form)


@functools.lru_cache(maxsize=2)
def _tokenizer(tokenizer: Any) -> LLTokenizer:
    """Takes up to a second for a large vocabulary. Raises `SchemaRefused`."""
    eos_tokens = sorted(tokenizer.eos_token_ids)
    try:
        vocabulary = from_tokenizer(tokenizer._tokenizer, eos_token=eos_tokens)
    except ValueError as error:
        raise SchemaRefused(f"This model's answers cannot be constrained to a schema: {error}.") from None
    if vocabulary.decode_str(vocabulary.tokenize_str(PROBE)).strip() == PROBE:
        return vocabulary
    return LLTokenizer(TokenizerWrapper(_ByteTokenizer(vocabulary)), eos_token=eos_tokens)


class _ByteTokenizer:
    """A vocabulary that finds tokens by their bytes, for a tokenizer that normalizes text.

    llguidance encodes text that the grammar forces; a normalizing tokenizer's encoding would not spell it.
    """

    def __init__(self, vocabulary: LLTokenizer) -> None:
        ids = range(vocabulary.vocab_size)
        self._vocabulary = vocabulary
        self.eos_token_id, self.bos_token_id = vocabulary.eos_token, None
        self.tokens = [vocabulary.decode_bytes([token]) for token in ids]
        self.special_token_ids = [token for token in ids if vocabulary.is_special_token(token)]

    def __call__(self, text: bytes | str) -> list[int]:
        return self._vocabulary.greedy_tokenize(text if isinstance(text, str) else text.decode())


@functools.lru_cache(maxsize=8)
def _compiled(tokenizer: Any, form: AnswerForm, may_think: bool = True) -> LLMatcher:
    vocabulary, reply_format = _tokenizer(tokenizer), format_of(tokenizer)
    if not may_think:
        reply_format = replace(reply_format, thinking=None)
    grammar = _grammar(tokenizer, reply_format, form)
    matcher = LLMatcher(vocabulary, grammar, limits=LIMITS, log_level=0)
    if matcher.is_error():
        reason = matcher.get_error().partition("\n")[0]
        raise SchemaRefused(f"The answer cannot be constrained to this JSON schema: {reason}.")
    return matcher


def _begun(reply_format: Format, generation_prompt: str) -> tuple[str, bool]:
    """The part of the reply that the generation prompt contains, and whether a thought may still follow.

    It may contain an open thought or part of a header. After a closed thought no other may follow.
    """
    if reply_format.headers is not None:
        starts = [*reply_format.headers.starts.finditer(generation_prompt)]
        return generation_prompt[starts[-1].end() :] if starts else "", True
    if reply_format.thinking is None:
        return "", False
    opened, closed = map(generation_prompt.rfind, reply_format.thinking)
    return generation_prompt[opened:] if opened > closed else "", closed < 0 or opened > closed


def _spelled_out(tokenizer: Any, tokens: Sequence[int]) -> list[int]:
    """Tokens whose bytes spell the text of these: decoders may change it, as pocket's does for capitals."""
    vocabulary, spelled = _tokenizer(tokenizer), list[int]()
    for is_special, grouped in itertools.groupby(tokens, vocabulary.is_special_token):
        run = list(grouped)
        spelled += run if is_special else vocabulary.greedy_tokenize(tokenizer.decode(run))
    return spelled


def _grammar(tokenizer: Any, reply_format: Format, form: AnswerForm) -> str:
    """A reply in llguidance's dialect of Lark."""
    opens, closes = (
        "".join(f" ({' | '.join(mark(tokenizer, each) for each in marks)})?" if marks else "")
        for marks in (reply_format.text_opens, reply_format.text_closes)
    )
    rules = [r"TEXT: /(?s:.*)/", r"SPACE: /\n{1,3}/"]
    if reply_format.headers is not None:
        thought, end, answer = AROUND_MESSAGES[reply_format.headers]
        rules += _thought(tokenizer, thought, end)
        start = f"thought* {mark(tokenizer, answer)}"
    elif reply_format.thinking is not None:
        rules += _thought(tokenizer, *reply_format.thinking)
        start = "thought? SPACE?"
    else:
        start = "SPACE?"
    answers = []
    if form.schema is not None:
        rules.append(f"json: %json {form.schema}")
        answers.append("json")
        calls = reply_format.calls if form.tools else ()
        # Marks within a call may be special tokens.
        rules.append(f"free: (TEXT | <[0-{_tokenizer(tokenizer).vocab_size - 1}]>)*")
        answers += [f"{mark(tokenizer, each)} free" for each in calls]
    else:
        for number, (name, schema) in enumerate(form.tools):
            head = f'{FORCED_CALL[:-1]}{json.dumps(name, ensure_ascii=False)}, "arguments": '
            rules += [f'call_{number}: {_literal(head)} arguments_{number} "}}"']
            rules += [f"arguments_{number}: %json {schema}"]
        rules.append("call: " + " | ".join(f"call_{number}" for number in range(len(form.tools))))
        more = rf' ("\n" call){{0,{MAX_CALLS - 1}}}' if form.several else ""
        answers.append(f"call{more}")
    start = f"start: {start}{opens} ({' | '.join(answers)}){closes}"
    return "\n".join(["%llguidance {}", start, *rules])


def _thought(tokenizer: Any, opening: str, closing: str) -> list[str]:
    """The rule `thought`: free text that ends at the closing mark, as its first token or as its text."""
    first, *_ = tokenizer.encode(closing, add_special_tokens=False)
    if _tokenizer(tokenizer).is_special_token(first):
        return [f"thought: {mark(tokenizer, opening)} TEXT {mark(tokenizer, closing)}"]
    pattern = "".join(f"\\x{{{ord(letter):x}}}" for letter in closing)
    return [f"thought: {mark(tokenizer, opening)} closed", f"closed[lazy]: /(?s:.*){pattern}/"]


def mark(tokenizer: Any, text: str) -> str:
    """A mark in a grammar. llguidance keeps special tokens apart from text that spells them."""
    parts: list[str] = []
    tokens = tokenizer.encode(text, add_special_tokens=False)
    for is_special, grouped in itertools.groupby(tokens, _tokenizer(tokenizer).is_special_token):
        run = list(grouped)
        parts += [f"<[{token}]>" for token in run] if is_special else [_literal(tokenizer.decode(run))]
    return " ".join(parts)


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
