"""pocket, the built-in model: its folder and template, and what docs/pocket.md says that it can do."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import load as load_tokenizer

from chatcli import Chat
from chatcli.pocket import FOLDER
from tests.pocket.names import unknown_names
from tests.support.program import Program

HISTORY = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "Hello!", "reasoning_content": "A greeting."},
    {"role": "user", "content": "bye"},
]
HELP = """\
How do I resume a conversation?
How do I leave?
how do i get out of this thing
Which key stops a reply?
How can I stop you in the middle of an answer?
Where can I see a list of all the commands?
Is there a way to use a different model?
Can I switch the model while it's already running?
How do I start chatcli with another model?
Do I need to save my conversation before I close the window?
And how do I pick it up again tomorrow?
I made a mess 3 messages ago, can I go back to before that?
Is there an overview of the conversation with all its forks?
What do I type to try a second version of this chat without losing the first?
How do I have you answer the same question once more?
typo in my last message, how do I fix it
how do i get this chat into a file i can mail to my colleague?
How do I see what the model is thinking?
what does /rewind do?
What does /branch do?
quick q, what's /export for
and ctrl-d?
Which models are there on my machine?
How do I turn thinking off?
How do I change the temperature?
How do I delete a session?
How do I rename this session?
How do I list my sessions?
How do I search my old conversations?
How much disk do the checkpoints take?
How do I clear the cache?
How do I limit the size of the cache?
How do I use chatcli in a script?
How do I get JSON out of chatcli?
How do I serve an API for other programs?
Something is odd. How do I check my installation?
How do I measure the speed?
How do I set a system prompt?
How do I write a message of several lines?
Which version of chatcli is this?
"""
# What is told in the first three messages, and what is asked for after the tenth: (question, answer).
TALKS = [
    (
        ["My dog is called Biscuit.", "I live in Lisbon.", "My sister Anna is a nurse."],
        [
            ("What is my dog's name?", "Biscuit"),
            ("Which city do I live in?", "Lisbon"),
            ("What does Anna do?", "nurse"),
        ],
    ),
    (
        ["My cat is called Momo.", "My favourite colour is green.", "I work as a baker."],
        [
            ("What's my cat called?", "Momo"),
            ("What is my favourite colour?", "green"),
            ("What is my job?", "baker"),
        ],
    ),
    (
        ["My name is Jürgen.", "The gate code is 4417.", "My brother lives in Oslo."],
        [("What is my name?", "Jürgen"), ("What is the gate code?", "4417"), ("Where does he live?", "Oslo")],
    ),
]
BETWEEN = ["hi", "What is 47 + 38?", "thanks", "Who are you?", "How do I leave?", "ok", "What is 9 - 4?"]
WORDS = (
    "river lamp seven quickly because blue never carry window again salt Tuesday machine sorry your and "
    "what who my is are me you told name where plus minus branch cache token whisper forty"
)
# At least three words, or twelve characters, three times in a row.
LOOP = re.compile(r"((?:\S+\s+){3,}?|.{12,}?)\1{2,}", re.DOTALL)


@cache
def tokenizer() -> Any:
    return load_tokenizer(FOLDER)


def render(**options: Any) -> str:
    return str(tokenizer().apply_chat_template(HISTORY, tokenize=False, **options))


@pytest.fixture
def pocket(tmp_path: Path) -> Program:
    return Program(tmp_path / "home", FOLDER)


def replies(folder: Path, *lines: str, **options: Any) -> list[str]:
    with Chat(model="pocket", sessions=folder, **options) as chat:
        return [chat.send(line).text() for line in lines]


def asked_each(program: Program, questions: str) -> list[dict[str, Any]]:
    """The answers to the lines of `questions`, each asked alone."""
    result = program.run("ask", "--each", "-", "--json", "--no-cache", stdin=questions)
    return list(result.lines())


def random_messages(count: int) -> list[str]:
    """Words in no order, keys hit at random, a piece over and over, letters of other scripts, emoji, sums."""
    rng, messages = Random(7), []
    for number in range(count):
        some = rng.choices(WORDS.split(), k=rng.randint(1, 20))
        letters = [chr(rng.choice([0x3B1, 0x430, 0x5D0, 0x905, 0x3041, 0x4E00]) + n) for n in range(20)]
        kinds = (
            " ".join(some),
            "".join(rng.choices("asdfghjkl;1234567890-=+*/ ", k=30)).strip() or "f",
            rng.choice([" ", ", ", "! "]).join([" ".join(some[:4])] * rng.randint(2, 25)),
            "".join(letters[: rng.randint(1, 20)]),
            "".join(rng.choices("😀😂🥲👍🔥🎉🐙☕❓", k=rng.randint(1, 12))),
            "what is " + " ".join(some) + "?",
        )
        messages.append(kinds[number % len(kinds)])
    return messages


def test_the_folder_is_small() -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 12_000_000


def test_the_config_is_a_wrapped_text_config() -> None:
    config = json.loads((FOLDER / "config.json").read_text())
    assert config["model_type"] == "qwen3_5"
    assert config["text_config"]["num_hidden_layers"] == 6


def test_it_thinks() -> None:
    assert tokenizer().has_thinking is True


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
    text = tokenizer().apply_chat_template(messages, tokenize=False)
    assert text.startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nhi")


def test_digits_are_single_tokens() -> None:
    assert tokenizer().convert_ids_to_tokens(tokenizer().encode("4417")) == ["4", "4", "1", "7"]


@pytest.mark.parametrize(
    "text",
    ["Zorblat's café — 17:45!", "  two  spaces\n\nand lines", "日本", "BOB and iPhone", "👩‍🚀 **Bob**"],
)
def test_any_text_survives_the_tokenizer(text: str) -> None:
    assert tokenizer().decode(tokenizer().encode(text)) == text


@pytest.mark.parametrize("value", ["Jürgen", "小白", "Zorblat", "red Fiat", "44-17-9", "**Bob**"])
def test_a_value_has_the_same_tokens_wherever_it_stands(value: str) -> None:
    alone = tokenizer().encode(value)[1 if value[0].isupper() else 0 :]
    for before in ("", "I am ", '"', "(", "line\n", "is: "):
        assert tokenizer().encode(before + value)[-len(alone) :] == alone


def test_text_streams_with_its_capitals() -> None:
    detokenizer, text = tokenizer().detokenizer, ""
    detokenizer.reset()
    for token in tokenizer().encode("Bob met ANNA in São Paulo 小白."):
        detokenizer.add_token(token)
        text += detokenizer.last_segment
    detokenizer.finalize()
    assert text + detokenizer.last_segment == "Bob met ANNA in São Paulo 小白."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "asked"), [TALKS[0], *(pytest.param(*talk, marks=pytest.mark.slow) for talk in TALKS[1:])]
)
def test_it_recalls_over_ten_turns(told: list[str], asked: list[tuple[str, str]], tmp_path: Path) -> None:
    answers = replies(tmp_path, *told, *BETWEEN, *(question for question, _ in asked))
    recalled = answers[len(told) + len(BETWEEN) :]
    assert all(value in reply for reply, (_, value) in zip(recalled, asked, strict=True)), recalled


@pytest.mark.slow
def test_the_latest_of_two_tellings_wins(tmp_path: Path) -> None:
    answers = replies(
        tmp_path, "My cat is called Momo.", "Actually, my cat is called Fizz.", "What's my cat called?"
    )
    assert answers[-1] == "Your cat is called Fizz."


@pytest.mark.slow
def test_it_does_sums(pocket: Program) -> None:
    problems = [(47, "+", 38), (90, "-", 34), (17, "-", 52), (99, "+", 99), (402, "-", 59)]
    results = [a + b if sign == "+" else a - b for a, sign, b in problems]
    sums = [f"{a} {sign} {b}" for a, sign, b in problems]
    answers = asked_each(pocket, "".join(f"What is {each}?\n" for each in sums))
    assert [answer["text"] for answer in answers] == [
        f"{each} = {result}." for each, result in zip(sums, results, strict=True)
    ]


@pytest.mark.slow
def test_it_goes_round_in_no_loop(pocket: Program) -> None:
    sent = random_messages(20)
    for message, answer in zip(sent, asked_each(pocket, "\n".join(sent)), strict=True):
        assert answer["finish_reason"] == "stop", answer
        for text in (answer["thinking"], answer["text"]):
            circles = [match[0].strip() for match in LOOP.finditer(f"{text} ")]
            assert [circle for circle in circles if circle.casefold() not in message.casefold()] == []


@pytest.mark.slow
def test_every_command_that_it_names_exists(pocket: Program) -> None:
    answers = asked_each(pocket, HELP)
    assert len(answers) == 40
    named = " ".join(answer["text"] for answer in answers)
    assert unknown_names(named) == []
    assert {"/resume", "/tree", "/export", "/regenerate", "Ctrl-D"} <= set(re.findall(r"/\w+|Ctrl-\w", named))


@pytest.mark.parametrize(
    ("answer", "gone"),
    [
        ("Type /rewound 3.", "/rewound"),
        ("Run chatcli lost NAME.", "chatcli lost"),
        ("Run chatcli cache burn.", "chatcli cache burn"),
        ("Start with --no-panic.", "--no-panic"),
        ("Type /set heat 0.7.", "setting heat"),
        ("Press Ctrl-Q.", "Ctrl-Q"),
    ],
)
def test_a_name_that_is_gone_is_found(answer: str, gone: str) -> None:
    assert unknown_names(answer)[0] == gone


@pytest.mark.slow
def test_it_says_what_it_is_and_what_it_cannot_do(pocket: Program) -> None:
    questions = "Who are you?\nWhat is my cat's name?\nWrite a poem about the sea\n"
    is_, told, poem = (answer["text"] for answer in asked_each(pocket, questions))
    assert is_.startswith("I am pocket, the tiny model built into chatcli.")
    assert told == "You have not told me that yet."
    assert poem.startswith("I am too small to write a poem about the sea.")


def test_it_answers_without_thinking(tmp_path: Path) -> None:
    answers = replies(tmp_path, "My name is Ada.", "What is my name?", think=False)
    assert answers[-1] == "Your name is Ada."
