"""Conversations with images: checkpoint reuse, and the same tokens and logprobs as without a cache."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_lm.processors", reason="this mlx-lm has no image processors")

import mlx.core as mx

from chatcli.conversation.images import pixels, read
from chatcli.conversation.tree import Message
from chatcli.errors import ImagesRefused, TemplateRefused
from chatcli.events import Answered, Event, PrefillProgress, TurnRecord
from chatcli.settings.values import ModelOptions, Sampling
from chatcli.store.segments.token_path import common_prefix
from chatcli.turn import batch, regenerate, turn, typeahead
from chatcli.turn.prompt import history, render_history
from tests.support.harness import SYSTEM, Harness, finish, outcome
from tests.support.sight import SEEING, write_picture, write_seeing

# Chunks end within images, and two conversations share whole chunks of one.
CHUNKS = ModelOptions(prefill_step_size=8)
QUESTION = "What is this?"
NOT_CANCELLED = threading.Event()
by_chunks = pytest.mark.parametrize(
    "model_options",
    [pytest.param(ModelOptions(), marks=pytest.mark.slow), CHUNKS],
    ids=["whole", "cut by chunks"],
)
UserMessage = tuple[str, tuple[str, ...]]
# Three of four turns have images: one, two, and the first again.
MESSAGES: tuple[UserMessage, ...] = (
    (QUESTION, ("a",)),
    ("And these two?", ("b", "wide")),
    ("Which of them?", ()),
    ("Again:", ("a",)),
)


# Renders the last message with another header than history does: its image is prefilled with the
# generation prompt on every turn.
LATE = SEEING.replace(
    "{{- '<|im_start|>' + m.role +",
    "{{- '<|im_start|>' + m.role + (' last' if loop.last else '') +",
)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Picture files by name: two of one size, two of other sizes."""
    folder = tmp_path_factory.mktemp("pictures")
    sizes = {"a": (16, 12), "b": (16, 12), "wide": (40, 8), "large": (64, 48)}
    return {
        name: write_picture(folder / f"{name}.png", number, *size)
        for number, (name, size) in enumerate(sizes.items())
    }


def open_harness(model: Path, sessions: Path, **options: Any) -> Harness:
    return Harness(model, sessions, tokens=6, trust_remote_code=True, **options)


def say(
    harness: Harness, chat: turn.TurnContext, message: UserMessage, pictures: dict[str, Path]
) -> TurnRecord:
    text, names = message
    return harness.say(chat, text, images=[pictures[name] for name in names])


def open_all_along(
    model: Path,
    sessions: Path,
    pictures: dict[str, Path],
    messages: Sequence[UserMessage] = MESSAGES,
    **options: Any,
) -> list[TurnRecord]:
    """The records of a conversation in one process."""
    with open_harness(model, sessions, **options) as harness:
        chat = harness.chat("talk")
        return [say(harness, chat, message, pictures) for message in messages]


def reopened(
    model: Path,
    sessions: Path,
    pictures: dict[str, Path],
    messages: Sequence[UserMessage] = MESSAGES,
    **options: Any,
) -> list[TurnRecord]:
    """The records of a conversation that is closed and reopened after every turn."""
    records = []
    for message in messages:
        with open_harness(model, sessions, **options) as harness:
            records.append(say(harness, harness.chat("talk"), message, pictures))
    return records


def mlx_lm_first_token(
    harness: Harness, chat: turn.TurnContext, message: UserMessage, pictures: dict[str, Path]
) -> tuple[int, float]:
    """The first token and its log probability, computed from the whole prompt by mlx-lm's own code."""
    text, names = message
    images = [read(pictures[name]) for name in names]
    messages = [
        Message("system", SYSTEM),
        Message("user", text, images=tuple(image.picture for image in images)),
    ]
    loaded = harness.runtime.loaded
    rendered = chat.template.text(messages, generation=True)
    arrays = [pixels(image.picture, image.data) for image in images]

    def run() -> tuple[int, float]:
        expanded, values = loaded.processor(rendered, images=arrays)
        tokens = mx.array(loaded.tokenizer.encode(expanded, add_special_tokens=False))
        embedded = loaded.model.embed_inputs(tokens, pixel_values=values)
        logits = loaded.model(tokens[None], input_embeddings=embedded[None])[0, -1]
        logprobs = logits - mx.logsumexp(logits)
        token = mx.argmax(logprobs).item()
        return token, logprobs[token].item()

    return harness.worker.call(run)


@by_chunks
@pytest.mark.parametrize("late", [False, True], ids=["kept", "never kept"])
def test_first_token_and_logprob_match_mlx_lm(
    late: bool, model_options: ModelOptions, vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    model = write_seeing(tmp_path / "late", LATE) if late else vision_model
    with open_harness(model, tmp_path / "saved", model_options=model_options) as harness:
        chat = harness.chat("talk")
        for message in (("One?", ("large", "a")), ("Two?", ("b", "wide", "large"))):
            chat.session.move_head(None)
            token, logprob = mlx_lm_first_token(harness, chat, message, pictures)
            record = say(harness, chat, message, pictures)
            assert token == record.tokens[0]
            assert logprob == pytest.approx(record.logprobs[0], abs=0.02)


def test_different_images_of_one_size_share_no_tokens(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    with open_harness(vision_model, tmp_path) as harness:
        chat, other = harness.chat("one"), harness.chat("other")
        vision = chat.template.vision
        assert vision is not None
        messages = [Message("user", QUESTION, images=(read(pictures[name]).picture,)) for name in "ab"]
        first = harness.say(chat, QUESTION, images=[pictures["a"]])
        system = render_history(chat, chat.conversation.path()[-1]).boundaries[1]
        second = harness.say(other, QUESTION, images=[pictures["b"]])
        left, right = (chat.template.prompt([message]) for message in messages)
        assert vision.vocabulary_tokens(left) == vision.vocabulary_tokens(right) != left
        assert common_prefix(left, right) == next(i for i, t in enumerate(left) if t < 0)
        assert first.prompt_tokens == second.prompt_tokens
        assert system == second.reused_tokens
        assert first.logprobs != second.logprobs


def test_the_same_image_hits_in_another_session_and_under_another_name(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere" / "holiday.png"
    copy.parent.mkdir()
    copy.write_bytes(pictures["a"].read_bytes())
    with open_harness(vision_model, tmp_path) as harness:
        first = harness.say(harness.chat("one"), QUESTION, images=[pictures["a"]])
    with open_harness(vision_model, tmp_path) as harness:
        again = harness.say(harness.chat("two"), QUESTION, images=[copy])
    assert again.prefilled_tokens < 6 < 12 < first.prefilled_tokens
    assert outcome(first) == outcome(again)


@pytest.mark.slow
@by_chunks
def test_reopened_open_and_cold_say_the_same_to_the_bit(
    model_options: ModelOptions, vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    live = open_all_along(vision_model, tmp_path / "open", pictures, model_options=model_options)
    fresh = reopened(vision_model, tmp_path / "reopened", pictures, model_options=model_options)
    cold = open_all_along(vision_model, tmp_path / "cold", pictures, model_options=model_options, cache=False)
    assert [outcome(record) for record in live] == [outcome(record) for record in fresh]
    assert [outcome(record) for record in live] == [outcome(record) for record in cold]
    assert [record.reused_tokens for record in live] == [record.reused_tokens for record in fresh]
    assert all(record.reused_tokens > 40 for record in fresh[1:])


@pytest.mark.slow
def test_rows_are_borrowed_up_to_the_middle_of_an_image(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    """Two questions about one image share its whole chunks; the rest is prefilled."""
    question, other = ("one", ("large",)), ("two", ("large",))
    with open_harness(vision_model, tmp_path / "warm", model_options=CHUNKS) as harness:
        say(harness, harness.chat("one"), question, pictures)
        record = say(harness, harness.chat("two"), other, pictures)
    (cold,) = open_all_along(vision_model, tmp_path / "cold", pictures, [other], model_options=CHUNKS)
    assert record.reused_tokens > cold.reused_tokens + 100
    assert outcome(record) == outcome(cold)


def stop_at(events: Iterator[Event], kind: type, stop: threading.Event) -> None:
    """Run `events` to their end; `stop` is set at each of type `kind`."""
    for event in events:
        if isinstance(event, kind):
            stop.set()


@pytest.mark.slow
def test_a_prefill_that_is_cut_within_an_image_goes_on_there(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    with open_harness(vision_model, tmp_path / "cut", model_options=CHUNKS) as harness:
        chat = harness.chat("talk", system=None)
        stop = threading.Event()
        stop_at(turn.take(chat, QUESTION, stop, [read(pictures["large"])]), PrefillProgress, stop)
        again = finish(regenerate.regenerate(chat, NOT_CANCELLED))
    (whole,) = open_all_along(
        vision_model, tmp_path / "whole", pictures, [(QUESTION, ("large",))], model_options=CHUNKS
    )
    with open_harness(vision_model, tmp_path / "whole", model_options=CHUNKS) as harness:
        fresh = harness.say(harness.chat("other", system=None), QUESTION, images=[pictures["large"]])
    assert again.reused_tokens == 8
    assert outcome(again) == outcome(fresh) != outcome(whole)


def test_typeahead_prefills_the_image_of_a_message(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    with open_harness(vision_model, tmp_path / "typeahead") as harness:
        chat = harness.chat("talk")
        progress = list(typeahead.typeahead(chat, "What is", NOT_CANCELLED, [read(pictures["large"])]))
        assert not list((tmp_path / "typeahead").glob("images/??/*"))
        first = harness.say(chat, QUESTION, images=[pictures["large"]])
        assert progress
        list(typeahead.typeahead(chat, "And this?", NOT_CANCELLED, [read(pictures["a"])]))
        second = harness.say(chat, "And this?", images=[pictures["a"]])
    messages = [(QUESTION, ("large",)), ("And this?", ("a",))]
    plain = open_all_along(vision_model, tmp_path / "plain", pictures, messages)
    assert [outcome(record) for record in plain] == [outcome(first), outcome(second)]
    assert second.typeahead_tokens > 12 and second.prefilled_tokens < 6


def test_regenerate_continue_and_branch_see_the_same_images(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    with open_harness(vision_model, tmp_path) as harness:
        chat = harness.chat("talk")
        records = [say(harness, chat, message, pictures) for message in MESSAGES[:2]]
        regenerated = finish(regenerate.regenerate(chat, NOT_CANCELLED))
        assert outcome(records[1]) == outcome(regenerated)
        assert regenerated.prefilled_tokens < 6
        continued = finish(regenerate.continue_reply(chat, NOT_CANCELLED))
        assert continued.tokens[:6] == regenerated.tokens
        assert len(continued.tokens) == 12
        chat.session.move_head(chat.conversation.end_of_turn(1))
        branched = say(harness, chat, MESSAGES[1], pictures)
        assert outcome(records[1]) == outcome(branched)


@pytest.mark.slow
def test_a_batch_about_one_image_answers_as_single_turns_do(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    texts = ["Is it red?", "Is it blue?", "What else is there to see, and where is it?"]
    picture = read(pictures["a"])
    with open_harness(vision_model, tmp_path / "each") as harness:
        chat = harness.chat("talk")
        say(harness, chat, MESSAGES[1], pictures)
        events = batch.answer_each(chat, texts, NOT_CANCELLED, images=[picture])
        answers = {event.number: event.record for event in events if isinstance(event, Answered)}
    for number, text in enumerate(texts, start=1):
        *_, single = open_all_along(
            vision_model, tmp_path / f"{number}", pictures, [MESSAGES[1], (text, ("a",))]
        )
        assert single.tokens == answers[number].tokens
        assert single.prompt_tokens == answers[number].prompt_tokens


@pytest.mark.slow
def test_text_alone_uses_the_cache_as_with_any_model(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    messages = [("My dog is called Biscuit.", ()), ("What is its name?", ()), ("And mine?", ())]
    live = open_all_along(vision_model, tmp_path / "open", pictures, messages)
    fresh = reopened(vision_model, tmp_path / "reopened", pictures, messages)
    cold = open_all_along(vision_model, tmp_path / "cold", pictures, messages, cache=False)
    assert [outcome(record) for record in live] == [outcome(record) for record in fresh]
    assert [outcome(record) for record in live] == [outcome(record) for record in cold]
    for before, record in pairwise(fresh):
        assert record.reused_tokens > before.prompt_tokens


@pytest.mark.slow
@by_chunks
def test_an_image_that_is_never_kept_is_run_with_the_generation_prompt(
    model_options: ModelOptions, pictures: dict[str, Path], tmp_path: Path
) -> None:
    model = write_seeing(tmp_path / "late", LATE)
    messages = [(QUESTION, ("a",)), ("And this?", ("b",)), ("Or this?", ("wide", "a"))]
    live = open_all_along(model, tmp_path / "open", pictures, messages, model_options=model_options)
    fresh = reopened(model, tmp_path / "reopened", pictures, messages, model_options=model_options)
    assert [outcome(record) for record in live] == [outcome(record) for record in fresh]
    assert all(record.prefilled_tokens > 14 for record in fresh)
    assert all(record.reused_tokens > 16 for record in fresh[1:])
    with open_harness(model, tmp_path / "each", model_options=model_options) as harness:
        chat = harness.chat("talk")
        events = batch.answer_each(chat, [QUESTION, "Hm?"], NOT_CANCELLED, images=[read(pictures["a"])])
        answers = {event.number: event.record for event in events if isinstance(event, Answered)}
        say(harness, chat, messages[0], pictures)
        regenerated = finish(regenerate.regenerate(chat, NOT_CANCELLED))
    assert live[0].tokens == answers[1].tokens == regenerated.tokens
    assert regenerated.prefilled_tokens > 14


def test_miss_reason_shows_an_image_as_a_placeholder(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    with open_harness(vision_model, tmp_path) as harness:
        chat = harness.chat("talk", system=None)
        harness.say(chat, QUESTION, images=[pictures["a"]])
        chat.session.set_system(SYSTEM)
        reason = harness.say(chat, "And now?").miss_reason
    assert reason is not None
    assert "'user\\n[image]' → 'system\\n" in reason


# Renders another header for a message with images than for one without.
HEADER_BY_KIND = SEEING.replace(
    "+ m.role +", "+ m.role + (' of words' if m.content is string else ' of images') +"
)


def test_checkpoint_serves_a_next_message_with_or_without_an_image(
    pictures: dict[str, Path], tmp_path: Path
) -> None:
    model = write_seeing(tmp_path / "model", HEADER_BY_KIND)
    for name, messages in (("image", [("Hm.", ()), MESSAGES[0]]), ("words", [MESSAGES[0], ("Hm.", ())])):
        first, second = reopened(model, tmp_path / name, pictures, messages)
        assert second.reused_tokens > first.prompt_tokens


NO_PLACEHOLDER = SEEING.replace("'<|patch|>'", "''")
TWO_PLACEHOLDERS = SEEING.replace("'<|patch|>'", "'<|patch|> <|patch|>'")


@pytest.mark.parametrize("template", [NO_PLACEHOLDER, TWO_PLACEHOLDERS], ids=["blind", "twice"])
def test_a_template_that_does_not_show_each_image_once_is_refused_and_nothing_is_lost(
    template: str, pictures: dict[str, Path], tmp_path: Path
) -> None:
    with open_harness(write_seeing(tmp_path / "model", template), tmp_path / "saved") as harness:
        chat = harness.chat("talk")
        with pytest.raises(TemplateRefused, match="does not show each image of this"):
            harness.say(chat, QUESTION, images=[pictures["a"]])
        assert chat.conversation.head is None
        assert harness.say(chat, "Hello.").tokens


def test_image_markers_typed_as_text_are_no_images(
    vision_model: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    with open_harness(vision_model, tmp_path) as harness:
        chat = harness.chat("talk")
        text = "<|patch|> <|image_start|><|patch|><|image_end|>"
        assert harness.say(chat, text).tokens
        assert harness.say(chat, text, images=[pictures["a"]]).tokens
        vision = chat.template.vision
        assert vision is not None
        blocks = vision.blocks_in(chat.template.prompt(history(chat, chat.conversation.path()[-2])))
    assert ["a.png"] == [block.picture.name for _, block in blocks]


def test_a_model_without_a_processor_refuses_an_image_before_anything_is_written(
    models: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    with Harness(models / "qwen3_5", tmp_path, tokens=6) as harness:
        chat = harness.chat("talk")
        before = (tmp_path / "talk.jsonl").read_bytes()
        with pytest.raises(ImagesRefused, match="cannot see images: leave them out, or choose"):
            harness.say(chat, QUESTION, images=[pictures["a"]])
        assert before == (tmp_path / "talk.jsonl").read_bytes()
        assert not (tmp_path / "images").exists()


def test_a_model_without_vision_refuses_a_conversation_until_it_has_no_images(
    vision_model: Path, models: Path, pictures: dict[str, Path], tmp_path: Path
) -> None:
    messages = [("Hello.", ()), (QUESTION, ("a",))]
    open_all_along(vision_model, tmp_path, pictures, messages)
    with Harness(models / "qwen3_5", tmp_path, tokens=6) as harness:
        chat = harness.chat("talk")
        head = chat.conversation.head
        with pytest.raises(ImagesRefused, match="This conversation has images, which this model"):
            harness.say(chat, "And now?")
        assert head == chat.conversation.head
        chat.session.move_head(chat.conversation.end_of_turn(1))
        assert harness.say(chat, "And now?").tokens


@pytest.mark.slow
@pytest.mark.parametrize("template", [SEEING, LATE], ids=["in history", "run in every turn"])
def test_a_draft_model_sees_no_image_and_changes_nothing(
    tmp_path: Path, pictures: dict[str, Path], template: str
) -> None:
    """It drafts nothing for a reply whose image is prefilled with the generation prompt."""
    model = write_seeing(tmp_path / "model", template)
    config = json.loads((model / "config.json").read_bytes())
    config["text_config"]["sliding_window"] = 1024
    (model / "config.json").write_text(json.dumps(config))
    plain = open_all_along(model, tmp_path / "plain", pictures)
    live = open_all_along(model, tmp_path / "open", pictures, draft_model=model)
    fresh = reopened(model, tmp_path / "closed", pictures, draft_model=model)
    assert [record.tokens for record in plain] == [record.tokens for record in live]
    assert list(map(outcome, live)) == list(map(outcome, fresh))
    accepted = [record.draft_accepted_tokens for record in live]
    if template == LATE:
        assert not any(count for count, (_, names) in zip(accepted, MESSAGES, strict=True) if names)
    else:
        assert any(accepted)


@pytest.mark.parametrize(
    "template", [pytest.param(SEEING, marks=pytest.mark.slow), LATE], ids=["history", "tail"]
)
def test_looking_up_what_was_said_sees_the_images(
    tmp_path: Path, pictures: dict[str, Path], template: str
) -> None:
    model = write_seeing(tmp_path / "model", template)
    plain = open_all_along(model, tmp_path / "plain", pictures)
    live = open_all_along(model, tmp_path / "open", pictures, sampling=Sampling(lookup=True))
    assert [record.tokens for record in plain] == [record.tokens for record in live]
    for left, right in zip(plain, live, strict=True):
        assert left.logprobs == pytest.approx(right.logprobs, abs=1e-4)
        assert left.reused_tokens == right.reused_tokens
