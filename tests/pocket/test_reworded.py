"""Questions in words that nobody wrote: what must stay, stays."""

from __future__ import annotations

from random import Random

from training.pocket.reworded import GENERAL, STRICT, SUMS, hasty, reworded, synonymous
from training.pocket.written import Exchange, ordered


def every_wording(text: str, groups: str, *kept: str) -> set[str]:
    return {reworded(Random(seed), text, set(kept), groups) for seed in range(300)}


def test_a_question_is_put_in_other_words() -> None:
    assert "how can i quit?" in {
        synonymous(Random(seed), "how do i leave?", GENERAL, set(), 1.0) for seed in range(300)
    }


def test_slots_commands_options_and_names_of_files_stay() -> None:
    text = "how do i use /quit --delete @notes.txt with [name]"
    for said in every_wording(text, GENERAL):
        assert all(part in said for part in ("/quit", "--delete", "@notes.txt", "[name]")), said


def test_kept_words_stay() -> None:
    assert all("film" in said for said in every_wording("find me a film", GENERAL, "film"))


def test_what_was_told_is_asked_for_with_strict_synonyms_only() -> None:
    said = every_wording("is my mother tired", STRICT)
    assert "is my mum tired" in said
    assert all(one.startswith("is my m") for one in said)


def test_a_sum_keeps_its_numbers_and_its_operation() -> None:
    for said in every_wording("what is 7 minus 4", SUMS):
        assert "7" in said and "4" in said
        assert not any(word in said for word in ("plus", "times", "divided"))


def test_haste_never_leaves_one_word() -> None:
    assert all(len(hasty(Random(seed), "is it the", set()).split()) > 1 for seed in range(100))


def test_a_dialogue_of_what_was_never_told_is_never_empty() -> None:
    asked = Exchange(("who is ada",), "Asked: who Ada is. Not told.", "You have not told me that yet.")
    assert all(ordered(Random(seed), (asked,)) for seed in range(50))


def test_a_question_gets_no_word_that_something_else_was_told_in() -> None:
    said = {
        reworded(Random(seed), "where is my car", set(), STRICT, frozenset({"auto"})) for seed in range(300)
    }
    assert len(said) > 1
    assert not any("auto" in one.split() for one in said)


def test_a_phrase_keeps_its_place_its_capital_and_its_marks() -> None:
    said = {
        synonymous(Random(seed), "Film, (film)! film-like, film.txt", "film;movie", set(), 0.5)
        for seed in range(99)
    }
    assert said == {
        f"{first}, ({second})! film-like, film.txt"
        for first in ("Film", "Movie")
        for second in ("film", "movie")
    }
