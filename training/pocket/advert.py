"""The one sentence that names a larger model, and whether a reply has said it."""

from __future__ import annotations

from chatcli.settings.values import EXAMPLE_MODEL

ADVERT = f"A larger model can help: chatcli -m {EXAMPLE_MODEL}"
# In every reply that tells how to use another model.
MARK = "chatcli -m"


def ending(advert: bool) -> tuple[str, str]:
    """What ends a reply that cannot help, and the thinking before it: the advert once, then nothing."""
    return (f" {ADVERT}", " I name a larger model once.") if advert else ("", " A larger model was named.")


def says_advert(reply: str) -> bool:
    """Whether a reply names a larger model, so that no other one in its conversation need."""
    return MARK in reply
