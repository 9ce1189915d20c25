"""Files mentioned in a message: which ones, how the model gets them, refusals, completion."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from chatcli.commands import mentions
from chatcli.commands.mentions import Choice, choices, expand, sizes
from chatcli.conversation import attachments
from chatcli.conversation.tree import Message
from chatcli.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("first\nsecond\n")
    (tmp_path / "my notes.md").write_text("# Title\n")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "main.py").write_text("print(1)")
    return tmp_path


def names(message: str, folder: Path) -> list[str]:
    return [mention.name for mention in mentions.find(message, folder)]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("@notes.txt", ["notes.txt"]),
        ("sum up @notes.txt", ["notes.txt"]),
        ("is it @notes.txt?", ["notes.txt"]),
        ("(see @notes.txt, or @source/main.py).", ["notes.txt", "source/main.py"]),
        ('read @"my notes.md" please', ["my notes.md"]),
        ("line one\n@notes.txt\n", ["notes.txt"]),
        ("@notes.txt and @notes.txt and @./notes.txt", ["notes.txt"]),
        ("write to me@notes.txt", []),
        ("`@notes.txt`", []),
        ("@ notes.txt", []),
        ("hello @someone, @my and @", []),
        ('@"no such file"', []),
        ("@" + "x" * 5000, []),
        ("@a\0b", []),
        ("@source", ["source"]),
    ],
)
def test_a_name_is_an_existing_file_at_a_words_start(folder: Path, message: str, expected: list[str]) -> None:
    assert expected == names(message, folder)


@pytest.mark.parametrize(
    "text", ["", "one line", "```\nfenced\n```\n", "## heading\n\n````x\n````\n\n", "\n\n"]
)
def test_what_a_person_wrote_is_told_from_the_files_above_it(folder: Path, text: str) -> None:
    (folder / "notes.txt").write_text(text)
    for message in (
        'sum up @notes.txt and @"my notes.md"',
        "## own\n\n```\nwords\n```\n\n@notes.txt?",
    ):
        sent = expand(message, folder)
        assert message == attachments.typed_text(sent.text) == Message("user", sent.text).brief


@pytest.mark.parametrize(
    "message",
    [
        "words",
        "## Plan\n\n```\nmine\n```\n\nAsk @Planner",
        "## b.c\n\n```\n\n```\n\nto a@b.c",
        "## a\n\n```\nb\n```\n\nand not named",
        "## a\n\n```\nno end, @a",
        "## a\n\n@a",
        "",
    ],
)
def test_a_message_that_only_looks_like_it_stays_whole(message: str) -> None:
    assert message == attachments.typed_text(message)


def test_the_home_folder_and_absolute_paths_are_found(folder: Path) -> None:
    assert [f"{folder}/notes.txt"] == names(f"see @{folder}/notes.txt", Path("/"))
    assert [Path.home()] == [mention.path for mention in mentions.find("in @~", folder)]


def test_files_stand_before_the_message_which_stays_as_written(folder: Path) -> None:
    expanded = expand('compare @"my notes.md" with @source/main.py.', folder)
    assert (
        "## my notes.md\n\n```markdown\n# Title\n```\n\n"
        "## source/main.py\n\n```python\nprint(1)\n```\n\n"
        'compare @"my notes.md" with @source/main.py.'
    ) == expanded.text


def test_a_message_that_names_no_file_is_untouched(folder: Path) -> None:
    message = "me@example.org wrote to @someone\n\n"
    assert mentions.ExpandedMessage(message) == expand(message, folder)


def test_the_fence_is_longer_than_any_in_the_file(folder: Path) -> None:
    text = "before\n````python\nx = 1\n````\n"
    (folder / "fences.md").write_text(text)
    assert f"\n`````markdown\n{text}`````\n" in expand("@fences.md", folder).text


def test_an_empty_file_and_a_byte_order_mark(folder: Path) -> None:
    (folder / "empty").write_text("")
    (folder / "marked.csv").write_bytes(b"\xef\xbb\xbfa,b\n")
    assert expand("@empty @marked.csv", folder).text == (
        "## empty\n\n```\n```\n\n## marked.csv\n\n```csv\na,b\n```\n\n@empty @marked.csv"
    )


def test_a_name_in_what_was_pasted_attaches_nothing(folder: Path) -> None:
    pasted = "a log that says @source and @notes.txt\n"
    expanded = expand(f"see @source/main.py {pasted}", folder, ["other", pasted])
    block = "## source/main.py\n\n```python\nprint(1)\n```"
    assert f"{block}\n\nsee @source/main.py {pasted}" == expanded.text
    assert [] == names(f"x{pasted}".replace("@", "at "), folder)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("picture.png", b"\x89PNG\r\n\x1a\n\0", "The image picture.png is damaged: save it again"),
        ("nul.txt", b"a\0b", "@nul.txt is not text in UTF-8"),
        ("latin.txt", "café".encode("latin-1"), "@latin.txt is not text in UTF-8"),
        ("wide.txt", "abc".encode("utf-16"), "@wide.txt is not text in UTF-8"),
        ("huge.txt", b"x" * 2_345_678, "@huge.txt has 2.3 MB, and a message takes at most 2.0 MB"),
    ],
)
def test_what_is_no_text_for_a_message_is_refused(folder: Path, name: str, data: bytes, reason: str) -> None:
    (folder / name).write_bytes(data)
    with pytest.raises(UsageError, match=reason):
        expand(f"@notes.txt and @{name}!", folder)


def test_a_folder_is_refused_with_what_to_do(folder: Path) -> None:
    with pytest.raises(UsageError, match="@source/ is a folder: name a file in it, or put a space"):
        expand("look at @source/", folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_is_refused(folder: Path) -> None:
    (folder / "notes.txt").chmod(0)
    with pytest.raises(UsageError, match=r"@notes\.txt cannot be read"):
        expand("@notes.txt", folder)


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("sum up @missing.txt", "missing.txt"),
        ("@notes.txt and (@Missing.PY).", "Missing.PY"),
        ('read @"your notes.md"', "your notes.md"),
        ("@nowhere/main.py", "nowhere/main.py"),
        ("@source/mian", "source/mian"),
        ("@./notes, @../nothing-of-this-name", "./notes"),
        ("@~/nothing-of-this-name", "~/nothing-of-this-name"),
        ("@/tmp/nothing-of-this-name", "/tmp/nothing-of-this-name"),
    ],
)
def test_a_file_that_is_not_there_is_refused(folder: Path, message: str, name: str) -> None:
    with pytest.raises(UsageError, match=rf"There is no file @{re.escape(name)}: .* a space after the @"):
        expand(message, folder)
    pasted = expand(message, folder, [message])
    assert mentions.ExpandedMessage(message) == pasted


@pytest.mark.parametrize(
    "message",
    [
        "ask user@host, me@example.org, @someone, @jane.doe, @alice.bsky.social and @bob@example.md",
        "@property\n@dataclass(frozen=True)\n@app.route('/x.html')\n@pytest.mark.slow\ndef f(): ...",
        "npm i @types/node @angular/core@17.2 @vue/cli-service",
        "@Override @org.junit.Test @media (max-width: 3px) { @include mixin; }",
        '@"some words" @3.50 @v1.2.3 @50% @#1',
        "see `@missing.txt` and a@missing.txt and @ missing.txt",
    ],
)
def test_a_mention_that_may_be_something_else_passes_as_text(tmp_path: Path, message: str) -> None:
    assert mentions.ExpandedMessage(message) == expand(message, tmp_path)


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.py", "python"),
        ("a.toml", "toml"),
        ("a.TXT", "text"),
        ("Makefile", ""),
        ("a.bak~", ""),
        ("a.ts", "typescript"),
    ],
)
def test_the_language_is_told_by_the_suffix(name: str, language: str) -> None:
    assert language == mentions.language(Path(name))


@pytest.mark.parametrize(
    ("before", "typed"),
    [
        ("@", ""),
        ("see @no", "no"),
        ('see @"my no', '"my no'),
        ("see @notes.txt ", None),
        ('see @"my notes.md"', None),
        ("me@example", None),
    ],
)
def test_what_is_being_typed_after_an_at_sign(before: str, typed: str | None) -> None:
    assert typed == mentions.typed_name(before)


def test_names_are_offered_folders_first_and_hidden_ones_only_when_asked(folder: Path) -> None:
    (folder / ".hidden").write_text("x")
    (folder / "Notes.old").write_text("1234")
    assert [
        Choice("source/", "source/", None),
        Choice("Notes.old", "Notes.old", 4),
        Choice('"my notes.md"', "my notes.md", 8),
        Choice("notes.txt", "notes.txt", 13),
    ] == choices("", folder)
    assert ["Notes.old", "notes.txt"] == [choice.text for choice in choices("NO", folder)]
    assert [".hidden"] == [choice.text for choice in choices(".", folder)]
    assert ["source/main.py"] == [choice.text for choice in choices("source/", folder)]
    assert ['"my notes.md"'] == [choice.text for choice in choices('"my', folder)]
    assert ['"source/'] == [choice.text for choice in choices('"sou', folder)]
    assert [] == choices("nowhere/", folder) == choices("no\0", folder)


def test_names_that_a_terminal_would_act_on_are_not_offered(folder: Path) -> None:
    (folder / "evil\x1b[2J.txt").write_text("x")
    assert [] == choices("evil", folder)


def test_what_a_message_attaches_is_told_before(folder: Path) -> None:
    (folder / "pic.png").write_bytes(b"\0")
    (folder / "huge").write_bytes(b"x" * 2_100_000)
    assert "@notes.txt 13 B · @source/main.py 8 B" == sizes("@notes.txt @source/main.py", folder)
    told = "@pic.png 1 B · @huge 2.1 MB, too large · @source is a folder"
    assert told == sizes("@pic.png @huge @source", folder)
    assert "" == sizes("nothing, jane@doe.org", folder)
