"""A vision model, through both APIs' clients."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from chatcli.serve.engine import Engine
from chatcli.settings.values import Sampling, Settings
from tests.support.serving import serving
from tests.support.sight import write_picture


@pytest.mark.slow
def test_an_image_is_prefilled_once_whichever_api_sends_it(vision_model: Path, tmp_path: Path) -> None:
    cat, dog = (
        base64.b64encode(write_picture(tmp_path / f"{seed}.png", seed).read_bytes()).decode()
        for seed in (1, 2)
    )
    settings = Settings(
        sessions=tmp_path / "s", sampling=Sampling(max_tokens=8, temp=0.0), trust_remote_code=True
    )

    def asked(image: str, *more: Any) -> list[Any]:
        shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}
        return [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, shown]}, *more]

    with (
        serving(Engine(settings, str(vision_model))) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client,
        anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as other_client,
    ):

        def tokens(messages: list[Any]) -> tuple[int, int]:
            usage = client.chat.completions.create(model="any", messages=messages).usage
            assert usage is not None and usage.prompt_tokens_details is not None
            return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens or 0

        count, reused = tokens(asked(cat))
        assert 0 == reused
        reply = {"role": "assistant", "content": "A cat."}
        _, reused = tokens(asked(cat, reply, {"role": "user", "content": "And now?"}))
        assert reused > count - 12
        assert 12 > tokens(asked(dog))[1]
        source: Any = {"type": "base64", "media_type": "image/png", "data": cat}
        content: Any = [{"type": "text", "text": "What is this?"}, {"type": "image", "source": source}]
        messages: Any = [{"role": "user", "content": content}]
        usage = other_client.messages.create(model="any", max_tokens=8, messages=messages).usage
        assert (1, count - 1) == (usage.input_tokens, usage.cache_read_input_tokens)
        assert count == other_client.messages.count_tokens(model="any", messages=messages).input_tokens
