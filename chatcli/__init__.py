"""Chat with local models, with a prefix cache on disk: `from chatcli import Chat`.

`Chat` is imported on first use, so that importing the package stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chatcli.api import Chat as Chat

__version__ = "0.2.0"
__all__ = ["Chat", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "Chat":
        from chatcli.api import Chat

        return Chat
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
