"""Reads the content of messages in any API's format: text, images, and notes for anything else."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from chatcli.conversation import images
from chatcli.conversation.images import Image
from chatcli.conversation.tree import Message, Picture
from chatcli.errors import ImagesRefused, NotAnImage
from chatcli.serve.request import not_shown
from chatcli.serve.wire import MAX_SHOWN_VALUE, BadRequest, Fields
from chatcli.text import shorten

# The types of text parts, and the field that holds each one's text.
TEXTS = {type_: "text" for type_ in ("text", "input_text", "output_text", "summary_text")}
TEXTS["refusal"] = "refusal"
# The types of other parts, and their names in notes.
OTHERS = {
    **dict.fromkeys(("image_url", "input_image"), "image"),
    **dict.fromkeys(("input_audio", "audio"), "audio"),
    **dict.fromkeys(("file", "input_file"), "file"),
}


@dataclass
class ContentReader:
    """Reads message content and collects its images by hash. `accepted` names the parts for errors.

    A `lenient` read replaces a part that cannot be shown by a note. Clients keep a refused message in their
    history, so otherwise every later request would fail too.

    Methods raise `BadRequest`; unless `lenient`, also `NotAnImage` and `ImagesRefused`.
    """

    accepted: str
    images: dict[str, Image] = field(default_factory=dict)

    def content(self, fields: Fields, key: str, *, lenient: bool) -> tuple[list[str], tuple[Picture, ...]]:
        """The texts and pictures of a field that is a string or a list of parts."""
        content = fields.values.get(key)
        if content is None or isinstance(content, str):
            return [content or ""], ()
        parts = [self.part(part, lenient=lenient) for part in fields.objects(key)]
        return texts_and_pictures(parts)

    def part(self, part: Fields, *, lenient: bool) -> str | Picture:
        kind = part.need("type", str)
        if kind in TEXTS:
            return part.need(TEXTS[kind], str)
        is_document = kind in ("document", "search_result")
        if is_document and (text := self._document(part, lenient=lenient)) is not None:
            return text
        return self.image(OTHERS.get(kind, kind), partial(self._read_image, part, kind), lenient=lenient)

    def _document(self, part: Fields, *, lenient: bool) -> str | None:
        """The text of a document or a search result, after its source and title; None if it is not text."""
        source, key = part.values.get("source"), "content"
        heads = [part.get(name, str) for name in ("title", "context")]
        if isinstance(source, dict):
            if source.get("type") not in ("text", "content"):
                return None
            key = "data" if source["type"] == "text" else "content"
            part = Fields(source, part.name("source"))
        elif isinstance(source, str):
            heads.insert(0, source)
        else:
            return None
        texts, pictures = self.content(part, key, lenient=lenient)
        return None if pictures else "\n".join(filter(None, [*heads, *texts]))

    def image(self, kind: str, read: Callable[[], Image], *, lenient: bool) -> str | Picture:
        """The image that `read` returns, or a note that names its `kind`."""
        try:
            image = read()
        except (BadRequest, NotAnImage, ImagesRefused):
            if not lenient:
                raise
            return not_shown(shorten(kind, MAX_SHOWN_VALUE))
        self.images[image.picture.sha256] = image
        return image.picture

    def _read_image(self, part: Fields, kind: str) -> Image:
        if kind == "image":
            source = Fields(part.need("source", dict), part.name("source"))
            if source.need("type", str) != "base64":
                raise source.wrong("type", "must be base64: images are not fetched")
            return read_image(source.name("data"), source.need("data", str))
        if kind == "image_url":
            holder, key = Fields(part.need("image_url", dict), part.name("image_url")), "url"
        elif kind == "input_image":
            holder, key = part, "image_url"
        else:
            raise part.wrong("type", f"must be {self.accepted}: other content is not supported")
        url = holder.need(key, str)
        if not url.startswith("data:") or ";base64," not in url:
            raise holder.wrong(key, "must be a data: URL in base64: images are not fetched")
        return read_image(holder.name(key), url.partition(";base64,")[2])


def read_image(where: str, data: str) -> Image:
    """Decode a base64 image in the field `where`. Raises `BadRequest` and whatever `from_bytes` raises."""
    try:
        return images.from_bytes("image", base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        raise BadRequest(f"{where} is not valid base64.", where) from None


def texts_and_pictures(parts: Sequence[str | Picture]) -> tuple[list[str], tuple[Picture, ...]]:
    texts = [part for part in parts if isinstance(part, str)]
    return texts, tuple(part for part in parts if isinstance(part, Picture))


def newest_images(messages: Sequence[Message]) -> tuple[str, ...]:
    """The hashes of the last user message's images, without those of the history."""
    last = messages[-1] if messages and messages[-1].role == "user" else None
    return tuple(picture.sha256 for picture in last.images) if last is not None else ()
