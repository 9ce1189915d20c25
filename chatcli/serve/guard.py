"""Who may ask: the addresses, hosts, origins and keys that requests are let in with.

A web page that a person opens can have their browser send requests to this machine, also under a name of
its own that leads here (DNS rebinding). So a request's `Host` must be ours, and none comes from a page.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from chatcli.errors import UsageError

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
HOST = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::\d*)?")
# What browsers call a request of the person at the keyboard, not of a page.
TYPED = "none"
# What asks for no key: whether the server is there and ready.
OPEN_PATHS = ("/health",)


@dataclass(frozen=True)
class Access:
    """`host` is the address or name that the server listens at; `key` is what every request must bring."""

    host: str
    key: str | None

    def __post_init__(self) -> None:
        """Raises `UsageError` for an address that others reach, without a key."""
        if self.key is None and not is_local(self.host):
            raise UsageError(
                f"Others can reach {self.host}: give --api-key, which every request must bring then, "
                "or leave --host out."
            )
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and self.key.strip()):
            raise UsageError("--api-key must be printable ASCII text that is not empty.")

    def refusal(self, path: str, headers: Headers) -> tuple[int, str] | None:
        """The status and the sentence with which a request is refused; None: it is let in."""
        # Browsers send no Origin with images, scripts, links and frames, but they say who asks.
        if "origin" in headers or headers.get("sec-fetch-site", TYPED) != TYPED:
            return 403, "Requests of web pages are refused: ask from a program."
        if "transfer-encoding" in headers and "content-length" in headers:
            # Programs on the way may take another one of them for the body's length.
            return 400, "A request has Content-Length or Transfer-Encoding, not both."
        # A key is what keeps a page out where any name of this machine may be asked.
        names = (*LOCAL_NAMES, self.host.lower())
        if not is_any(self.host) and name_of(headers.get("host", "")) not in names:
            return 403, f"The Host of a request must be {self.host} or localhost."
        if self.key is None or path in OPEN_PATHS:
            return None
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        given = bearer.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        if not hmac.compare_digest(given.encode(), self.key.encode()):
            return (
                401,
                "The key is missing or wrong: send it as 'Authorization: Bearer KEY' or 'x-api-key: KEY'.",
            )
        return None


def name_of(host: str) -> str:
    """A `Host` without its port and an IPv6 address's brackets; empty if it is none."""
    match = HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else ""


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address. A name but localhost may lead anywhere."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_any(host: str) -> bool:
    """Whether a server that listens there has all of the machine's addresses."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


class Guard:
    """Refuses requests before anything of them is read."""

    def __init__(self, app: ASGIApp, access: Access, refuse: Callable[[Scope, int, str], ASGIApp]) -> None:
        self._app, self._access, self._refuse = app, access, refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._access.refusal(scope["path"], Headers(scope=scope))
        app = self._app if refusal is None else self._refuse(scope, *refusal)
        await app(scope, receive, send)
