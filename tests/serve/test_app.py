"""The HTTP server: access control, limits, keep-alives, clients that disconnect."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import select
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.datastructures import Headers

from chatcli.errors import UsageError
from chatcli.serve import app, server
from chatcli.serve.guard import Access
from chatcli.serve.wire import MAX_JSON_VALUES
from tests.support.serving import ScriptedEngine, serving
from tests.support.waiting import wait_until

ENGINE = ScriptedEngine()
SLOW = pytest.mark.slow
ROUTES = {"/v1/chat/completions", "/v1/messages", "/v1/responses"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(ENGINE) as url:
        yield url


@contextlib.contextmanager
def asked(
    url: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> Iterator[http.client.HTTPResponse]:
    data = json.dumps(body) if isinstance(body, dict) else body
    with contextlib.closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)) as connection:
        connection.request(method, path, data, dict(headers or {}))
        yield connection.getresponse()


def answer(url: str, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    with asked(url, method, path, body, given) as response:
        return response.status, json.loads(response.read())


def message(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **more}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:1"}, 200),
        ({"host": "LOCALHOST"}, 200),
        ({"host": "[::1]:8080"}, 200),
        ({"host": "127.0.0.1"}, 200),
        ({"host": "evil.example"}, 403),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "same-origin"}, 403),
        ({"sec-fetch-site": ""}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:8080"}, 403),
        ({"host": "[::1].evil.example"}, 403),
        ({"host": ""}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
    ],
    ids=str,
)
def test_web_pages_and_foreign_hosts_are_refused(url: str, headers: dict[str, str], status: int) -> None:
    with asked(url, "GET", "/v1/models", headers=headers) as response:
        assert status == response.status
        assert not [name for name, _ in response.getheaders() if "access-control" in name.lower()]


def test_every_route_except_health_requires_the_key() -> None:
    with serving(ENGINE, key="s3cret") as url:
        assert 200 == answer(url, "GET", "/health")[0]
        assert 200 == answer(url, "GET", "/v1/models", authorization="Bearer s3cret")[0]
        assert 200 == answer(url, "GET", "/v1/models", x_api_key="s3cret")[0]
        for headers in (
            {},
            {"authorization": "Bearer s3cre"},
            {"x_api_key": "ä"},
            {"authorization": "s3cret"},
        ):
            assert 401 == answer(url, "GET", "/v1/models", **headers)[0]
            status, body = answer(url, "POST", "/v1/messages", message("chat"), **headers)
            assert (401, "authentication_error") == (status, body["error"]["type"])


@pytest.mark.parametrize(
    ("host", "names", "others"),
    [
        ("0.0.0.0", ["192.168.1.5:80", "mac.local"], []),
        ("::", ["[fe80::1]", "mac.local"], []),
        ("192.168.1.5", ["192.168.1.5", "localhost"], ["mac.local", ""]),
        ("mac.local", ["MAC.local:8080", "127.0.0.1"], ["evil.example"]),
    ],
)
def test_an_address_that_other_machines_reach_needs_a_key(
    host: str, names: list[str], others: list[str]
) -> None:
    with pytest.raises(UsageError, match="--api-key"):
        Access(host, None)
    for name in names + others:
        refusal = Access(host, "key").refusal("/health", Headers({"host": name}))
        assert (name in others) == (refusal is not None)
    assert (
        Access(host, "key").refusal(
            "/health", app.Request({"type": "http", "headers": [(b"host", host.encode())]}).headers
        )
        is None
    )


def test_an_unknown_route_lists_the_routes(url: str) -> None:
    status, body = answer(url, "POST", "/v1/embeddings", {})
    assert 404 == status and all(route in body["error"]["message"] for route in ROUTES)
    assert 404 == answer(url, "GET", "/v1/messages/batches")[0]
    assert 405 == answer(url, "GET", "/v1/messages")[0]
    assert "POST /v1/messages" in answer(url, "GET", "/")[1]["routes"]
    status, body = answer(url, "PUT", "/v1/messages")
    assert (405, "error") == (status, body["type"])


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b'{"prompt": "\xed\xa0\xbd"}', "not valid JSON"),
        (json.dumps({"prompt": "a"}).encode("utf-16"), "not valid JSON"),
        (b"[]", "object"),
        (b'{"messages": NaN}', "not valid JSON"),
        (b'{"a": ' * 2000 + b"1" + b"}" * 2000, "deep"),
        (b'{"a": ' * 100 + b"1" + b"}" * 100, "deeper than"),
        (b'{"max_tokens": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
    ids=["nothing", "cut", "bytes", "surrogate", "utf16", "list", "constant", "deep", "nested", "digits"],
)
def test_an_invalid_body_is_refused(url: str, body: bytes, word: str) -> None:
    for path in ROUTES:
        status, refused = answer(url, "POST", path, body)
        assert 400 == status and word in refused["error"]["message"]


def test_lone_surrogates_are_replaced(url: str) -> None:
    body = b'{"messages": [{"role": "user", "content": "a\\ud83d b \\ud83d\\ude00"}]}'
    assert 200 == answer(url, "POST", "/v1/chat/completions", body)[0]
    assert "a\ufffd b \U0001f600" == ENGINE.requests[-1].messages[0].content


def test_a_body_has_a_limit(url: str) -> None:
    length = str(app.MAX_BODY_BYTES + 1)
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as connection:
        head = f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        connection.sendall(head.encode())
        assert b" 413 " in connection.recv(1000)


@SLOW
def test_a_connection_that_sends_no_request_is_closed(url: str) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0)) as connection:
        connection.settimeout(3 * server.HEAD_SECONDS)
        connection.sendall(b"POST /v1/messages HTTP/1.1\r\nHost: local")
        assert b"" == connection.recv(1000)


@pytest.mark.parametrize("path", ["/v1/messages", pytest.param("/v1/chat/completions", marks=SLOW)])
def test_a_stream_is_kept_alive_while_it_waits_and_prefills(url: str, path: str) -> None:
    with asked(url, "POST", path, message("slow", stream=True)) as response:
        lines = response.read().splitlines()
    assert b": waiting" == lines[0] and b"There." in b"".join(lines)
    assert (b"event: ping" if "messages" in path else b": prefill 4/8") in lines


def test_an_error_before_a_stream_begins_has_a_status_and_after_that_an_event(url: str) -> None:
    with asked(url, "POST", "/v1/messages", message("late", stream=True)) as response:
        assert (200, True) == (response.status, b"event: error" in response.read())
    assert 500 == answer(url, "POST", "/v1/messages", message("broken"))[0]


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_disconnects_cancels_its_reply(url: str, stream: bool) -> None:
    text = "endless" if stream else "silent"
    before, left = len(ENGINE.requests), len(ENGINE.cancelled)
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("POST", "/v1/chat/completions", json.dumps(message(text, stream=stream)))
    wait_until(lambda: len(ENGINE.requests) > before)
    if stream:
        connection.getresponse().readline()
    connection.close()
    wait_until(lambda: len(ENGINE.cancelled) > left)
    wait_until(lambda: answer(url, "GET", "/v1/status")[1]["running"] == 0)


@pytest.mark.parametrize("version", [pytest.param("1.0", marks=SLOW), "1.1"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_half_closed_client_gets_its_reply(url: str, stream: bool, version: str) -> None:
    body = json.dumps(message("slow", stream=stream))
    head = (
        f"POST /v1/chat/completions HTTP/{version}\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(f"{head}{body}".encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as replies:
            received = replies.read()
    assert b"There." in received and received.count(b" 200 OK") == 1


def test_prometheus_reads_what_is_reused_and_how_long_clients_wait() -> None:
    with serving(ScriptedEngine(loading=1.0), wait=False) as url, asked(url, "GET", "/metrics") as response:
        assert 200 == response.status
    with serving(ScriptedEngine()) as url:
        for text in ("chat", "call"):
            answer(url, "POST", "/v1/messages", message(text, max_tokens=9))
        with asked(url, "GET", "/metrics") as response:
            text = response.read().decode()
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.labels
    }
    assert 2 == samples["chatcli_requests_total"] == samples["chatcli_time_to_first_token_seconds_count"]
    assert 0.5 == samples["chatcli_time_to_first_token_seconds_sum"]
    names = ("hits_total", "reused_tokens_total", "prefilled_tokens_total", "queued_requests")
    assert {f"chatcli_{name}" for name in names} <= samples.keys()


def test_requests_are_told_to_retry_while_the_model_loads() -> None:
    with serving(ScriptedEngine(loading=1.0), wait=False) as url:
        assert (503, {"status": "loading"}) == answer(url, "GET", "/health")
        with asked(url, "POST", "/v1/messages", message("chat")) as response:
            assert (503, "1") == (response.status, response.getheader("retry-after"))
        wait_until(lambda: answer(url, "GET", "/health") == (200, {"status": "ok"}))


def test_messages_are_logged_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    for log_messages in (False, True):
        with serving(ENGINE, log_messages=log_messages) as url:
            answer(url, "POST", "/v1/chat/completions", message("tell nobody"))
            answer(url, "POST", "/v1/chat/completions", message("chat", temperature="tell nobody"))
            answer(url, "POST", "/v1/chat/completions", message("chat", tool_choice="required"))
        log = capsys.readouterr().err
        assert "32 of 40 tokens reused, 8 prefilled, 5 generated" in log and "temperature must be" in log
        assert "tool_choice requires a call" in log
        assert log_messages == ("tell nobody" in log)
        assert (2 if log_messages else 0) == log.count("tell nobody")


def test_the_bodies_of_all_requests_have_a_limit(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    held = []
    body = b'{"messages": [{"role": "user", "content": "' + b"a" * (app.MAX_BODY_BYTES - 100) + b'"}]}'
    head = f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(app.MAX_BODIES_BYTES // app.MAX_BODY_BYTES + 2):
        held.append(socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=20))
        held[-1].sendall(head.encode() + body[:-1])
    wait_until(lambda: 2 == len(select.select(held, [], [], 0)[0]))
    assert all(b" 503 " in refused.recv(1000) for refused in select.select(held, [], [], 0)[0])
    # Small bodies still fit, and later large ones again.
    assert 200 == answer(url, "POST", "/v1/messages", message("chat"))[0]
    for connection in held:
        connection.close()
    large = message("chat", ignored="a" * (2 << 20))
    wait_until(lambda: answer(url, "POST", "/v1/messages", large)[0] == 200)
    # Refusals are logged at most once a second.
    assert 1 <= capfd.readouterr().err.count("The bodies of other requests") <= 3


@pytest.mark.parametrize(
    ("value", "status"),
    [("{},", 400), ("[],", 400), ("0,", 400), ('"ab",', 400), ("{}" * 4 + " ", 200), ('\\\\\\",', 200)],
)
def test_the_values_of_a_body_have_a_limit(url: str, value: str, status: int) -> None:
    many = value * (2 * MAX_JSON_VALUES + 2)
    # Inside a string they do not count.
    ignored = f"[{many}0]" if status == 400 else f'"{many}"'
    body = f'{{"messages": [{{"role": "user", "content": "chat"}}], "ignored": {ignored}}}'
    got, reply = answer(url, "POST", "/v1/chat/completions", body)
    assert status == got, reply
    assert status == 200 or "has more than 524,288 values" in reply["error"]["message"]


def test_connections_beyond_the_limit_are_refused_and_logged_once_a_second(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with serving(ENGINE, max_connections=3) as url:
        address = ("127.0.0.1", urlsplit(url).port or 0)
        open_ones = [socket.create_connection(address, timeout=20) for _ in range(20)]
        assert 17 == sum(_is_closed(connection) for connection in open_ones)
        for connection in open_ones:
            connection.close()
        wait_until(lambda: answered(url))
    log = capfd.readouterr().err
    assert 1 <= log.count("A connection was refused: 3 are open.") <= 3 and "Traceback" not in log


def _is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.3)
    with contextlib.suppress(TimeoutError, ConnectionError):
        return b"" == connection.recv(1)
    return _is_reset(connection)


def _is_reset(connection: socket.socket) -> bool:
    try:
        connection.send(b"G")
    except ConnectionError:
        return True
    return False


def answered(url: str) -> bool:
    with contextlib.suppress(OSError):
        return 200 == answer(url, "GET", "/health")[0]
    return False


def test_connections_leave_file_descriptors_for_the_store() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    connections, backlog = server.connection_limits()
    assert 1 <= connections + backlog <= soft // 2


def test_a_request_with_two_body_lengths_is_refused(url: str) -> None:
    body = b'{"messages": [{"role": "user", "content": "chat"}]}'
    chunked = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
    before = len(ENGINE.requests)
    for length in (len(body), 0, 5):
        with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=20) as connection:
            head = (
                f"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n"
                "Transfer-Encoding: chunked\r\n\r\n"
            )
            connection.sendall(head.encode() + chunked)
            with connection.makefile("rb") as answers:
                told = answers.read()
        assert b" 400 " in told.splitlines()[0] and 1 == told.count(b"HTTP/1.1 ")
    assert before == len(ENGINE.requests)
