"""The config file: what it saves, and messages about a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatcli.errors import UsageError
from chatcli.settings import config_file
from chatcli.settings.values import SETTINGS


@pytest.mark.parametrize(
    ("text", "clue"),
    [
        ("temp = 1\nseed =\n", "not TOML at line 2"),
        ("seed = 1\nseed = 2\n", "not TOML at line 2"),
        ('temp = "hot"\n', "temp must be a number ≥ 0, not 'hot'"),
        ("temp = inf\n", "temp must be"),
        ("temp = true\n", "temp must be"),
        ("top_p = 1.5\n", "top_p must be a number from 0 to 1"),
        ("max_tokens = 0\n", "max_tokens must be a whole number ≥ 1"),
        ("seed = 1.5\n", "seed must be"),
        ('think = "yes"\n', "think must be true or false"),
        ('cache_limit = "much"\n', "cache_limit must be a size"),
        ('panel = "huge"\n', "panel must be one of line, full, off"),
        ("model = 5\n", "model must be text"),
        ("models = 5\n", "models must be a table"),
        ('[models]\npocket = "x"\n', "'pocket' is the built-in model"),
        ("[models]\nfast = 5\n", "models.fast must be text"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(tmp_path: Path, text: str, clue: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    (problem,) = config_file.read(path).problems.values()
    assert clue in problem and str(path) in problem


@pytest.mark.parametrize(
    ("key", "word", "clue"),
    [
        ("tmp", "1", "no setting 'tmp' (did you mean 'temp'?)"),
        ("zzz", "1", "no setting 'zzz'. To list them: chatcli config"),
        ("temp", "hot", "temp must be a number ≥ 0, not 'hot'"),
        ("temp", "nan", "temp must be"),
        ("temp", "inf", "temp must be"),
        ("temp", "-1", "temp must be"),
        ("top_k", "1.5", "top_k must be"),
        ("think", "maybe", "think must be true or false"),
        ("model", " ", "model must be text"),
        ("models.pocket", "x", "'pocket' is the built-in model"),
        ("models.", "x", "needs a name"),
    ],
)
def test_a_word_that_cannot_be_is_refused(key: str, word: str, clue: str) -> None:
    with pytest.raises(UsageError) as refused:
        config_file.setting_of(config_file.key_of(key)).check_word(word, key)
    assert clue in str(refused.value)


# What each setting is given, and what the file brings back.
GIVEN: list[tuple[str, str, object]] = [
    ("model", "org/name", "org/name"),
    ("temp", "1", 1.0),
    ("top_p", "0.9", 0.9),
    ("top_k", "40", 40),
    ("min_p", "0.05", 0.05),
    ("repetition_penalty", "1.1", 1.1),
    ("seed", "7", 7),
    ("max_tokens", "9", 9),
    ("think", "off", False),
    ("cache", "no", False),
    ("typeahead", "TRUE", True),
    ("cache_limit", "5GiB", "5GiB"),
    ("sessions", "/x", "/x"),
    ("panel", "off", "off"),
    ("memory_limit", "12 GB", "12 GB"),
    ("recompute_seconds", "0.5", 0.5),
    ("max_kv_size", "64", 64),
    ("kv_bits", "8", 8),
    ("kv_group_size", "32", 32),
    ("prefill_step_size", "9", 9),
    ("adapter_path", "/x", "/x"),
    ("min_tokens_to_keep", "2", 2),
    ("xtc_probability", "0.5", 0.5),
    ("xtc_threshold", "0.2", 0.2),
    ("presence_penalty", "-1", -1.0),
    ("frequency_penalty", "1.5", 1.5),
    ("repetition_context_size", "64", 64),
    ("stop", "\n\n", ["\n\n"]),
    ("logit_bias", "5:-1.5, 6:2", ["5:-1.5", "6:2"]),
    ("system", 'two\nlines "and" \\ ünï', 'two\nlines "and" \\ ünï'),
    ("think_budget", "500", 500),
    ("pipeline", "on", True),
    ("draft_model", "org/name", "org/name"),
    ("num_draft_tokens", "3", 3),
    ("lookup", "off", False),
]


@pytest.mark.parametrize(("key", "word", "value"), GIVEN)
def test_every_setting_comes_back_as_it_was_given(tmp_path: Path, key: str, word: str, value: object) -> None:
    path = tmp_path / "config.toml"
    given = config_file.setting_of(key).check_word(word, key)
    assert (value, type(value)) == (given, type(given))
    assert not config_file.change(path, key, given)
    assert {key: value} == config_file.read(path).values
    assert config_file.change(path, key, None)
    assert {} == config_file.read(path).values


def test_no_setting_is_left_out_of_that() -> None:
    assert {*SETTINGS} == {key for key, _, _ in GIVEN}
