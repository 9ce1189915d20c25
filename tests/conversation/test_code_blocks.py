"""The last code block of a reply."""

from __future__ import annotations

import pytest

from chatcli.conversation.code_blocks import last_code_block


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("no code, `inline` only", None),
        ("```sh\nls\n```", "ls"),
        ("```sh\nls\n```\nand\n~~~~\n```\ncd\n\n~~~~\nbye", "```\ncd\n"),
        ("- a step\n\n  ```python\n  if a:\n      b()\n  ```", "if a:\n    b()"),
        ("> ```\n> quoted\n> ```", "quoted"),
        ("cut:\n```python\nx = 1\ny", "x = 1\ny"),
        ("indented:\n\n    make\n    test\n\ndone", "make\ntest"),
        ("```\n```", ""),
    ],
)
def test_the_last_code_block_is_found(text: str, block: str | None) -> None:
    assert block == last_code_block(text)
