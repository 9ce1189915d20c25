"""Whatever the program can say is seen in review: the list of its sentences is kept beside the tests."""

from __future__ import annotations

from tests.support.sentences import FIXTURE, listing


def test_every_sentence_of_the_program_is_in_the_list() -> None:
    assert listing() == FIXTURE.read_text(encoding="utf-8"), (
        "Sentences have changed. Read them as a user would, then write the list anew: "
        "python -m tests.support.sentences > tests/sentences.txt"
    )
