"""Conversations with images: which checkpoints they share, and what the model then says, to the bit."""

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
from chatcli.settings.values import ModelOptions
from chatcli.store.segments.token_path import common_prefix
from chatcli.turn import batch, regenerate, turn, typeahead
from chatcli.turn.prompt import history, render_history
from tests.support.harness import SYSTEM, Harness, finish, outcome
from tests.support.sight import SEEING, write_picture, write_seeing

# Longer than two images, so that an image lies across chunks, and two conversations share some.
CHUNKS = ModelOptions(prefill_step_size=8)
ASKED = "What is this?"
NEVER = threading.Event()
by_chunks = pytest.mark.parametrize(
    "model_options",
    [pytest.param(ModelOptions(), marks=pytest.mark.slow), CHUNKS],
    ids=["whole", "cut by chunks"],
)
Said = tuple[str, tuple[str, ...]]
# Images in three turns of four, two of them together, one of them again.
TALK: tuple[Said, ...] = (
    (ASKED, ("a",)),
    ("And these two?", ("b", "wide")),
    ("Which of them?", ()),
    ("Again:", ("a",)),
)


# The last message is written otherwise than the same message in history: its image is run with the
# generation prompt, in every turn.
LATE = SEEING.replace(
    "{{- '<|im_start|>' + m.role +",
    "{{- '<|im_start|>' + m.role + (' last' if loop.last else '') +",
)


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two pictures of one size, and two of other sizes."""
    folder = tmp_path_factory.mktemp("pictures")
    sizes = {"a": (16, 12), "b": (16, 12), "wide": (40, 8), "large": (64, 48)}
    return {
        name: write_picture(folder / f"{name}.png", number, *size)
        for number, (name, size) in enumerate(sizes.items())
    }


def harness(model: Path, sessions: Path, **options: Any) -> Harness:
    return Harness(model, sessions, tokens=6, trust_remote_code=True, **options)


def say(home: Harness, chat: turn.TurnContext, said: Said, shown: dict[str, Path]) -> TurnRecord:
    text, names = said
    return home.say(chat, text, images=[shown[name] for name in names])


def talked(
    model: Path, sessions: Path, shown: dict[str, Path], talk: Sequence[Said] = TALK, **options: Any
) -> list[TurnRecord]:
    """A conversation in one process."""
    with harness(model, sessions, **options) as home:
        chat = home.chat("talk")
        return [say(home, chat, said, shown) for said in talk]


def reopened(
    model: Path, sessions: Path, shown: dict[str, Path], talk: Sequence[Said] = TALK, **options: Any
) -> list[TurnRecord]:
    """A conversation with everything closed after every turn."""
    records = []
    for said in talk:
        with harness(model, sessions, **options) as home:
            records.append(say(home, home.chat("talk"), said, shown))
    return records


def mlx_lm_says(
    home: Harness, chat: turn.TurnContext, said: Said, shown: dict[str, Path]
) -> tuple[int, float]:
    """The first token and its log probability as mlx-lm's own code has them, of the whole prompt."""
    text, names = said
    pictures = [read(shown[name]) for name in names]
    messages = [
        Message("system", SYSTEM),
        Message("user", text, images=tuple(one.picture for one in pictures)),
    ]
    loaded = home.runtime.loaded
    rendered = chat.template.text(messages, generation=True)
    arrays = [pixels(one.picture, one.data) for one in pictures]

    def run() -> tuple[int, float]:
        expanded, values = loaded.processor(rendered, images=arrays)
        tokens = mx.array(loaded.tokenizer.encode(expanded, add_special_tokens=False))
        embedded = loaded.model.embed_inputs(tokens, pixel_values=values)
        logits = loaded.model(tokens[None], input_embeddings=embedded[None])[0, -1]
        logprobs = logits - mx.logsumexp(logits)
        token = mx.argmax(logprobs).item()
        return token, logprobs[token].item()

    return home.worker.call(run)


@by_chunks
@pytest.mark.parametrize("late", [False, True], ids=["kept", "never kept"])
def test_the_model_is_given_what_mlx_lm_gives_it(
    late: bool, model_options: ModelOptions, seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    model = write_seeing(tmp_path / "late", LATE) if late else seer
    with harness(model, tmp_path / "saved", model_options=model_options) as home:
        chat = home.chat("talk")
        for said in (("One?", ("large", "a")), ("Two?", ("b", "wide", "large"))):
            chat.saved.move_head(None)
            token, logprob = mlx_lm_says(home, chat, said, shown)
            found = say(home, chat, said, shown)
            assert token == found.tokens[0]
            assert logprob == pytest.approx(found.logprobs[0], abs=0.02)


def test_images_of_one_size_share_nothing_and_are_told_apart(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    with harness(seer, tmp_path) as home:
        one, other = home.chat("one"), home.chat("other")
        vision = one.template.vision
        assert vision is not None
        said = [Message("user", ASKED, images=(read(shown[name]).picture,)) for name in "ab"]
        first = home.say(one, ASKED, images=[shown["a"]])
        system = render_history(one, one.conversation.path()[-1]).boundaries[1]
        second = home.say(other, ASKED, images=[shown["b"]])
        left, right = (one.template.prompt([message]) for message in said)
        assert vision.vocabulary_tokens(left) == vision.vocabulary_tokens(right) != left
        assert common_prefix(left, right) == next(i for i, t in enumerate(left) if t < 0)
        assert first.prompt_tokens == second.prompt_tokens
        assert system == second.reused_tokens
        assert first.logprobs != second.logprobs


def test_the_same_image_hits_in_another_session_and_under_another_name(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere" / "holiday.png"
    copy.parent.mkdir()
    copy.write_bytes(shown["a"].read_bytes())
    with harness(seer, tmp_path) as home:
        first = home.say(home.chat("one"), ASKED, images=[shown["a"]])
    with harness(seer, tmp_path) as home:
        again = home.say(home.chat("two"), ASKED, images=[copy])
    assert again.prefilled_tokens < 6 < 12 < first.prefilled_tokens
    assert outcome(first) == outcome(again)


@by_chunks
def test_reopened_open_and_cold_say_the_same_to_the_bit(
    model_options: ModelOptions, seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    kept = talked(seer, tmp_path / "open", shown, model_options=model_options)
    again = reopened(seer, tmp_path / "reopened", shown, model_options=model_options)
    cold = talked(seer, tmp_path / "cold", shown, model_options=model_options, cache=False)
    assert [outcome(one) for one in kept] == [outcome(one) for one in again]
    assert [outcome(one) for one in kept] == [outcome(one) for one in cold]
    assert [one.reused_tokens for one in kept] == [one.reused_tokens for one in again]
    assert all(one.reused_tokens > 40 for one in again[1:])


def test_rows_are_borrowed_up_to_the_middle_of_an_image(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    """Two questions about one image share it in whole chunks; the rest of it is run from there."""
    question, other = ("one", ("large",)), ("two", ("large",))
    with harness(seer, tmp_path / "warm", model_options=CHUNKS) as home:
        say(home, home.chat("one"), question, shown)
        found = say(home, home.chat("two"), other, shown)
    (cold,) = talked(seer, tmp_path / "cold", shown, [other], model_options=CHUNKS)
    assert found.reused_tokens > cold.reused_tokens + 100
    assert outcome(found) == outcome(cold)


def until(events: Iterator[Event], kind: type, stop: threading.Event) -> None:
    for event in events:
        if isinstance(event, kind):
            stop.set()


def test_a_prefill_that_is_cut_within_an_image_goes_on_there(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    with harness(seer, tmp_path / "cut", model_options=CHUNKS) as home:
        chat = home.chat("talk", system=None)
        stop = threading.Event()
        until(turn.take(chat, ASKED, stop, [read(shown["large"])]), PrefillProgress, stop)
        again = finish(regenerate.regenerate(chat, NEVER))
    (whole,) = talked(seer, tmp_path / "whole", shown, [(ASKED, ("large",))], model_options=CHUNKS)
    with harness(seer, tmp_path / "whole", model_options=CHUNKS) as home:
        fresh = home.say(home.chat("other", system=None), ASKED, images=[shown["large"]])
    assert again.reused_tokens == 8
    assert outcome(again) == outcome(fresh) != outcome(whole)


def test_an_image_is_drafted_with_its_message(seer: Path, shown: dict[str, Path], tmp_path: Path) -> None:
    with harness(seer, tmp_path / "draft") as home:
        chat = home.chat("talk")
        drafted = list(typeahead.typeahead(chat, "What is", NEVER, [read(shown["large"])]))
        assert not list((tmp_path / "draft").glob("images/??/*"))
        sent = home.say(chat, ASKED, images=[shown["large"]])
        assert drafted
        list(typeahead.typeahead(chat, "And this?", NEVER, [read(shown["a"])]))
        next_ = home.say(chat, "And this?", images=[shown["a"]])
    talk = [(ASKED, ("large",)), ("And this?", ("a",))]
    plain = talked(seer, tmp_path / "plain", shown, talk)
    assert [outcome(one) for one in plain] == [outcome(sent), outcome(next_)]
    assert next_.drafted_tokens > 12 and next_.prefilled_tokens < 6


def test_other_ways_to_a_reply_see_the_same_images(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    with harness(seer, tmp_path) as home:
        chat = home.chat("talk")
        records = [say(home, chat, said, shown) for said in TALK[:2]]
        again = finish(regenerate.regenerate(chat, NEVER))
        assert outcome(records[1]) == outcome(again)
        assert again.prefilled_tokens < 6
        longer = finish(regenerate.go_on(chat, NEVER))
        assert longer.tokens[:6] == again.tokens
        assert len(longer.tokens) == 12
        chat.saved.move_head(chat.conversation.end_of_turn(1))
        beside = say(home, chat, TALK[1], shown)
        assert outcome(records[1]) == outcome(beside)


def test_many_questions_about_one_image_are_answered_as_one_by_one(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    texts = ["Is it red?", "Is it blue?", "What else is there to see, and where is it?"]
    picture = read(shown["a"])
    with harness(seer, tmp_path / "each") as home:
        chat = home.chat("talk")
        say(home, chat, TALK[1], shown)
        events = batch.answer_each(chat, texts, NEVER, images=[picture])
        answers = {one.number: one.record for one in events if isinstance(one, Answered)}
    for number, text in enumerate(texts, start=1):
        *_, alone = talked(seer, tmp_path / f"{number}", shown, [TALK[1], (text, ("a",))])
        assert alone.tokens == answers[number].tokens
        assert alone.prompt_tokens == answers[number].prompt_tokens


def test_words_alone_use_the_cache_as_with_any_model(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    talk = [("My dog is called Biscuit.", ()), ("What is its name?", ()), ("And mine?", ())]
    kept = talked(seer, tmp_path / "open", shown, talk)
    again = reopened(seer, tmp_path / "reopened", shown, talk)
    cold = talked(seer, tmp_path / "cold", shown, talk, cache=False)
    assert [outcome(one) for one in kept] == [outcome(one) for one in again]
    assert [outcome(one) for one in kept] == [outcome(one) for one in cold]
    for before, one in pairwise(again):
        assert one.reused_tokens > before.prompt_tokens


@by_chunks
def test_an_image_that_is_never_kept_is_run_with_the_generation_prompt(
    model_options: ModelOptions, shown: dict[str, Path], tmp_path: Path
) -> None:
    model = write_seeing(tmp_path / "late", LATE)
    talk = [(ASKED, ("a",)), ("And this?", ("b",)), ("Or this?", ("wide", "a"))]
    kept = talked(model, tmp_path / "open", shown, talk, model_options=model_options)
    again = reopened(model, tmp_path / "reopened", shown, talk, model_options=model_options)
    assert [outcome(one) for one in kept] == [outcome(one) for one in again]
    assert all(one.prefilled_tokens > 14 for one in again)
    assert all(one.reused_tokens > 16 for one in again[1:])
    with harness(model, tmp_path / "each", model_options=model_options) as home:
        chat = home.chat("talk")
        events = batch.answer_each(chat, [ASKED, "Hm?"], NEVER, images=[read(shown["a"])])
        answers = {one.number: one.record for one in events if isinstance(one, Answered)}
        say(home, chat, talk[0], shown)
        again = finish(regenerate.regenerate(chat, NEVER))
    assert kept[0].tokens == answers[1].tokens == again.tokens
    assert again.prefilled_tokens > 14


def test_where_prompts_parted_is_told_with_a_sign_for_an_image(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    with harness(seer, tmp_path) as home:
        chat = home.chat("talk", system=None)
        home.say(chat, ASKED, images=[shown["a"]])
        chat.saved.set_system(SYSTEM)
        reason = home.say(chat, "And now?").miss_reason
    assert reason is not None
    assert "'user\\n[image]' → 'system\\n" in reason


# A message with an image has another header than one without.
WORDED = SEEING.replace("+ m.role +", "+ m.role + (' of words' if m.content is string else ' of images') +")


def test_a_checkpoint_ends_where_a_next_message_with_an_image_would_still_go_on(
    shown: dict[str, Path], tmp_path: Path
) -> None:
    model = write_seeing(tmp_path / "model", WORDED)
    for name, talk in (("image", [("Hm.", ()), TALK[0]]), ("words", [TALK[0], ("Hm.", ())])):
        first, second = reopened(model, tmp_path / name, shown, talk)
        assert second.reused_tokens > first.prompt_tokens


BLIND = SEEING.replace("'<|patch|>'", "''")
TWICE = SEEING.replace("'<|patch|>'", "'<|patch|> <|patch|>'")


@pytest.mark.parametrize("template", [BLIND, TWICE], ids=["blind", "twice"])
def test_a_template_that_does_not_show_each_image_once_is_refused_and_nothing_is_lost(
    template: str, shown: dict[str, Path], tmp_path: Path
) -> None:
    with harness(write_seeing(tmp_path / "model", template), tmp_path / "saved") as home:
        chat = home.chat("talk")
        with pytest.raises(TemplateRefused, match="does not show each image of this"):
            home.say(chat, ASKED, images=[shown["a"]])
        assert chat.conversation.head is None
        assert home.say(chat, "Hello.").tokens


def test_a_message_that_spells_an_image_shows_none(
    seer: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    with harness(seer, tmp_path) as home:
        chat = home.chat("talk")
        text = "<|patch|> <|image_start|><|patch|><|image_end|>"
        assert home.say(chat, text).tokens
        assert home.say(chat, text, images=[shown["a"]]).tokens
        vision = chat.template.vision
        assert vision is not None
        found = vision.blocks_in(chat.template.prompt(history(chat, chat.conversation.path()[-2])))
    assert ["a.png"] == [block.picture.name for _, block in found]


def test_a_model_without_a_processor_refuses_an_image_before_anything_is_written(
    models: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    with Harness(models / "qwen3_5", tmp_path, tokens=6) as home:
        chat = home.chat("talk")
        before = (tmp_path / "talk.jsonl").read_bytes()
        with pytest.raises(ImagesRefused, match="cannot be shown images: leave them out, or choose"):
            home.say(chat, ASKED, images=[shown["a"]])
        assert before == (tmp_path / "talk.jsonl").read_bytes()
        assert not (tmp_path / "images").exists()


def test_a_conversation_with_images_is_refused_by_a_model_that_sees_none_until_it_goes_back(
    seer: Path, models: Path, shown: dict[str, Path], tmp_path: Path
) -> None:
    talk = [("Hello.", ()), (ASKED, ("a",))]
    talked(seer, tmp_path, shown, talk)
    with Harness(models / "qwen3_5", tmp_path, tokens=6) as home:
        chat = home.chat("talk")
        head = chat.conversation.head
        with pytest.raises(ImagesRefused, match="This conversation has images, which this model"):
            home.say(chat, "And now?")
        assert head == chat.conversation.head
        chat.saved.move_head(chat.conversation.end_of_turn(1))
        assert home.say(chat, "And now?").tokens


@pytest.mark.slow
@pytest.mark.parametrize("template", [SEEING, LATE], ids=["in history", "run in every turn"])
def test_a_draft_model_sees_no_image_and_changes_nothing(
    tmp_path: Path, shown: dict[str, Path], template: str
) -> None:
    """A reply whose image is run with the generation prompt comes without it."""
    model = write_seeing(tmp_path / "model", template)
    config = json.loads((model / "config.json").read_bytes())
    config["text_config"]["sliding_window"] = 1024
    (model / "config.json").write_text(json.dumps(config))
    plain = talked(model, tmp_path / "plain", shown)
    open_ = talked(model, tmp_path / "open", shown, draft_model=model)
    closed = reopened(model, tmp_path / "closed", shown, draft_model=model)
    assert [one.tokens for one in plain] == [one.tokens for one in open_]
    assert list(map(outcome, open_)) == list(map(outcome, closed))
    accepted = [one.draft_accepted_tokens for one in open_]
    if template == LATE:
        assert not any(count for count, (_, names) in zip(accepted, TALK, strict=True) if names)
    else:
        assert any(accepted)
