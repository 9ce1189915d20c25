"""Private requests: reused in memory, and nothing of them is on disk or in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.asking import Served, question, with_reply
from tests.support.families import at_night
from tests.support.program import folder_contents
from tests.support.serving import serving

SECRET = "heliotrope is my code word"


@pytest.mark.parametrize("keep", [False, at_night(True)])
def test_a_private_request_is_reused_in_memory_and_leaves_no_file(
    keep: bool, recurrent: Path, tmp_path: Path
) -> None:
    with Served(recurrent, tmp_path, keep=keep) as served:
        served.ask(question("Hello."))
        served.rest()
        before = folder_contents(tmp_path)
        messages = question(SECRET)
        reply = served.ask(messages, private=True)
        served.rest()
        again = served.ask(question("Say it.", with_reply(messages, reply)), private=True)
        served.rest()
        assert again.record.reused_tokens + again.record.typeahead_tokens > reply.record.prompt_tokens // 2
        assert before == folder_contents(tmp_path)
        served.ask(question("Thank you."))
    after = folder_contents(tmp_path)
    assert before.keys() < after.keys() and not any(SECRET.encode() in data for data in after.values())


@pytest.mark.parametrize(
    "given",
    [{"store": False}, at_night({"extra_headers": {"X-Chatcli-Private": "1"}})],
    ids=["store", "header"],
)
def test_clients_say_what_is_private(
    given: dict[str, Any], recurrent: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Served(recurrent, tmp_path, tokens=4) as served, serving(served.engine, log_messages=True) as url:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="none")
        ask = client.chat.completions.create
        ask(model="tiny", messages=[{"role": "user", "content": SECRET}], **given)
        served.rest()
        ask(model="tiny", messages=[{"role": "user", "content": "openly said"}], store=True)
        served.rest()
    log = capsys.readouterr().err
    assert "openly said" in log and SECRET not in log
    assert not any(SECRET.encode() in data for data in folder_contents(tmp_path).values())
