"""Access control: the addresses, hosts, origins and keys that a request must have.

Any web page can make a person's browser send requests to this machine, even under the page's own host name
(DNS rebinding). So requests with a foreign `Host`, and all requests from web pages, are refused.
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
# A `Host` header, with the name in group 2 or the IPv6 address in group 1.
HOST = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::\d*)?")
# The `Sec-Fetch-Site` of a request that the person typed, not a page.
TYPED = "none"
# Paths that need no key.
OPEN_PATHS = ("/health",)


@dataclass(frozen=True)
class Access:
    """`host` is the address or name that the server listens on. Every request must send `key`, if set."""

    host: str
    key: str | None

    def __post_init__(self) -> None:
        """Raises `UsageError` for an address that other machines reach, without a key."""
        if self.key is None and not is_local(self.host):
            raise UsageError(
                f"Other machines can reach {self.host}: set --api-key, which every request must then send, "
                "or leave --host out."
            )
        if self.key is not None and not (self.key.isascii() and self.key.isprintable() and self.key.strip()):
            raise UsageError("--api-key must be non-empty printable ASCII text.")

    def refusal(self, path: str, headers: Headers) -> tuple[int, str] | None:
        """The status and sentence of a refused request; None if it is allowed."""
        # Browsers omit Origin for images, scripts, links and frames, but send Sec-Fetch-Site.
        if "origin" in headers or headers.get("sec-fetch-site", TYPED) != TYPED:
            return 403, "Requests from web pages are refused: send them from a program."
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may rely on the other one for the length of the body (request smuggling).
            return 400, "A request may have Content-Length or Transfer-Encoding, not both."
        # On all addresses any host name is valid. There the key keeps web pages out.
        names = (*LOCAL_NAMES, self.host.lower())
        match = HOST.fullmatch(headers.get("host", ""))
        name = (match[1] or match[2]).lower() if match else ""
        if not is_any(self.host) and name not in names:
            return 403, f"The Host header must be {self.host} or localhost."
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


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address. A name other than localhost may resolve to any."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_any(host: str) -> bool:
    """Whether the address stands for all addresses of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def guarded(app: ASGIApp, access: Access, refuse: Callable[[Scope, int, str], ASGIApp]) -> ASGIApp:
    """ASGI middleware that refuses requests before reading their bodies."""

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = access.refusal(scope["path"], Headers(scope=scope))
        await (app if refusal is None else refuse(scope, *refusal))(scope, receive, send)

    return guard
