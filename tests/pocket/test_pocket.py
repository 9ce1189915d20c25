"""Tests of pocket, the built-in model: its folder, its template, its generator and its talk."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from chatcli.pocket import FOLDER
from training.pocket import grammar, people
from training.pocket import tokenizer as words
from training.pocket.configuration import Shape, export_configuration
from training.pocket.conversations import Difficulty, conversation
from training.pocket.talk import Engine, Talk
from training.pocket.values import Source

HISTORY = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "Hello!", "reasoning_content": "A greeting."},
    {"role": "user", "content": "bye"},
]


@cache
def engine() -> Engine:
    return Engine.open(FOLDER)


@cache
def tokenizer(folder: Path) -> Any:
    """The recipe's tokenizer, from few conversations, as mlx-lm loads it."""
    words.save(words.train(count=200), folder)
    export_configuration(Shape(words.SIZE), folder)
    return load_tokenizer(folder)


@pytest.fixture
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tokenizer(tmp_path_factory.getbasetemp())


def render(**options: Any) -> str:
    text: str = engine().tokenizer.apply_chat_template(HISTORY, tokenize=False, **options)
    return text


def replies(*lines: str, think: bool = True) -> list[str]:
    talk = Talk(engine(), think)
    return [talk.say(line).text for line in lines]


def talks(seed: int, held: bool = False) -> list[list[str]]:
    source = Source(Random(seed), held)
    conversations = [conversation(source, Difficulty()) for _ in range(300)]
    return [[turn.user + turn.thinking + turn.reply for turn in talk.turns] for talk in conversations]


def test_the_folder_is_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 12_000_000


def test_the_config_is_a_wrapped_text_config() -> None:
    config = json.loads((FOLDER / "config.json").read_text())
    assert config["model_type"] == "qwen3_5"
    assert config["text_config"]["num_hidden_layers"] == 6


def test_it_thinks() -> None:
    assert engine().tokenizer.has_thinking is True


def test_generation_prompt_opens_thinking() -> None:
    assert render(add_generation_prompt=True).endswith("<|im_start|>assistant\n<think>\n")


def test_generation_prompt_without_thinking_is_a_closed_stub() -> None:
    text = render(add_generation_prompt=True, enable_thinking=False)
    assert text.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")


def test_thinking_of_earlier_turns_is_dropped() -> None:
    assert render(add_generation_prompt=False) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n"
        "<|im_start|>user\nbye<|im_end|>\n"
    )


def test_a_system_message_comes_first() -> None:
    messages = [{"role": "system", "content": "Be kind."}, *HISTORY]
    text = engine().tokenizer.apply_chat_template(messages, tokenize=False)
    assert text.startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi")


def test_digits_are_single_tokens() -> None:
    tokens = engine().tokenizer.convert_ids_to_tokens(engine().tokenizer.encode("4417"))
    assert tokens == ["4", "4", "1", "7"]


@pytest.mark.parametrize(
    "text",
    ["Zorblat's café — 17:45!", "  two  spaces\n\nand lines", "日本", "BOB and iPhone", "👩‍🚀 **Bob**"],
)
def test_any_text_survives_the_tokenizer(text: str, recipe: Any) -> None:
    assert recipe.decode(recipe.encode(text)) == text


@pytest.mark.parametrize("value", ["Jürgen", "小白", "Zorblat", "red Fiat", "44-17-9", "**Bob**"])
def test_a_value_has_the_same_tokens_wherever_it_stands(value: str, recipe: Any) -> None:
    alone = recipe.encode(value)[1 if value[0].isupper() else 0 :]
    for before in ("", "I am ", '"', "(", "line\n", "is: "):
        assert recipe.encode(before + value)[-len(alone) :] == alone


def test_a_name_and_the_same_in_small_letters_share_their_tokens(recipe: Any) -> None:
    assert recipe.encode("Zorblat")[1:] == recipe.encode("zorblat")


def test_text_streams_with_its_capitals(recipe: Any) -> None:
    detokenizer, text = recipe.detokenizer, ""
    detokenizer.reset()
    for token in recipe.encode("Bob met ANNA in São Paulo 小白."):
        detokenizer.add_token(token)
        text += detokenizer.last_segment
    detokenizer.finalize()
    assert text + detokenizer.last_segment == "Bob met ANNA in São Paulo 小白."


@pytest.mark.parametrize(
    ("said", "of_anna"),
    [
        ("I live in Oslo", "Anna lives in Oslo"),
        ("I'm a nurse and I like my job", "Anna is a nurse and she likes her job"),
        ("my job is dull", "Anna's job is dull"),
        ("do I have a dog?", "does Anna have a dog?"),
        ("where was I born?", "where was Anna born?"),
        ("I have to buy milk", "Anna has to buy milk"),
        ("I don't like rain", "Anna doesn't like rain"),
        ("I can play chess", "Anna can play chess"),
        ("what can't I stand?", "what can't Anna stand?"),
        ("what don't I like?", "what doesn't Anna like?"),
        ("I became a nurse", "Anna became a nurse"),
        ("who pays me?", "who pays Anna?"),
        ("what car is mine?", "what car is Anna's?"),
        ("I am teaching myself Greek", "Anna is teaching herself Greek"),
    ],
)
def test_what_is_said_of_oneself_can_be_said_of_another(said: str, of_anna: str) -> None:
    assert grammar.about(said, people.Who("", "Anna", "she").person("Anna")) == of_anna


def test_what_is_said_of_oneself_can_be_repeated() -> None:
    assert grammar.yours("I keep my bees where we live") == "you keep your bees where you live"


def test_the_generator_is_determined_by_its_seed() -> None:
    assert talks(3) == talks(3)
    assert talks(3) != talks(4)


@pytest.mark.parametrize("kind", ["name", "place", "password", "word", "pet", "when", "spot"])
def test_training_and_evaluation_share_no_value(kind: str) -> None:
    trained, held = Source(Random(1)), Source(Random(2), held=True)
    ours = {trained.draw(kind).lower() for _ in range(2000)}
    others = {held.draw(kind).lower() for _ in range(300)}
    assert {v for v in ours & others if not v.isdigit()} == set()


def test_it_remembers_a_dog_and_a_city() -> None:
    answers = replies(
        "My dog is called Biscuit and I live in Lisbon.",
        "What is 47 + 38?",
        "thanks",
        "What is my dog's name?",
        "Which city do I live in?",
    )
    assert answers[1] == "47 + 38 = 85."
    assert answers[3:] == ["Your dog is called Biscuit.", "You live in Lisbon."]


def test_the_latest_of_two_tellings_wins() -> None:
    answers = replies("My cat is called Momo.", "Actually, my cat is called Fizz.", "What's my cat called?")
    assert answers[-1] == "Your cat is called Fizz."


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("What is 90 - 34?", "90 - 34 = 56."),
        ("17 minus 52", "17 - 52 = -35."),
        ("99+99=?", "99 + 99 = 198."),
    ],
)
def test_it_does_sums(asked: str, answer: str) -> None:
    assert replies(asked) == [answer]


def test_it_says_what_it_is() -> None:
    assert replies("Who are you?")[0].startswith("I am pocket, the tiny model built into chatcli.")


def test_it_does_not_make_up_what_it_was_not_told() -> None:
    assert replies("What is my cat's name?") == ["You have not told me that yet."]


def test_it_does_not_make_up_poems() -> None:
    (reply,) = replies("Write a poem about the sea")
    assert reply.startswith("I am too small to write a poem about the sea.")


def test_it_explains_resume() -> None:
    assert "chatcli resume NAME" in replies("How do I resume a conversation?")[0]


def test_it_answers_without_thinking() -> None:
    answers = replies("My name is Ada.", "What is my name?", think=False)
    assert answers[-1] == "Your name is Ada."


def test_thinking_closes_and_an_answer_follows() -> None:
    answer = Talk(engine()).say("What is 12 + 9?")
    assert answer.well_formed
    assert answer.thinking == "12+9: 2+9=11, write 1 carry 1, 1+0+1=2, makes 21."
