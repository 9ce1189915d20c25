"""Message content: every API's spelling of an image, and notes in place of unsupported parts."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from chatcli.conversation.tree import Picture
from chatcli.serve.content import ContentReader
from chatcli.serve.wire import BadRequest, Fields
from tests.support.sight import write_picture


def spellings(data: str) -> list[dict[str, Any]]:
    url = f"data:image/png;base64,{data}"
    return [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "input_image", "image_url": url},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
    ]


def test_an_image_is_read_in_every_apis_spelling(tmp_path: Path) -> None:
    data = base64.b64encode(write_picture(tmp_path / "a.png", 1, 16, 12).read_bytes()).decode()
    reader = ContentReader("text or an image")
    pictures = {reader.part(Fields(part), lenient=False) for part in spellings(data)}
    assert [(16, 12)] == [(each.width, each.height) for each in pictures if isinstance(each, Picture)]
    assert 1 == len(reader.images)


def test_an_unsupported_part_is_refused_or_noted() -> None:
    reader = ContentReader("text or an image")
    part = Fields({"type": "input_audio"}, "messages[0].content[0]")
    with pytest.raises(BadRequest, match="must be text or an image") as refused:
        reader.part(part, lenient=False)
    assert "messages[0].content[0].type" == refused.value.param
    assert "[audio: not shown to this model]" == reader.part(part, lenient=True)
