"""The conversation line by line, without colours or cursor moves, for dumb terminals and `--plain`."""

from __future__ import annotations

import threading
from dataclasses import replace

from chatcli.commands import results, script
from chatcli.errors import ChatcliError
from chatcli.events import Event, TurnDone
from chatcli.session.live_chat import LiveChat
from chatcli.tui.render.panel import prompt_parts, reasons
from chatcli.tui.render.pipe import Pipe

PROMPT, PRIVATE_PROMPT = "> ", "private> "


class LineDisplay(Pipe):
    """Replies and results as plain lines, each turn with its hit ratio."""

    color_system = None

    def event(self, event: Event) -> None:
        super().event(event)
        if isinstance(event, TurnDone):
            numbers = event.record.numbers()
            for line in (" · ".join(prompt_parts(numbers)), *reasons(numbers)):
                self.result(results.PlainText(f"[{line}]"))

    def result(self, result: results.Result) -> None:
        """The keys of the help are those of the input box: here there is none."""
        if isinstance(result, results.Help):
            result = replace(result, keys=False)
        elif isinstance(result, results.KeyHelp):
            result = results.PlainText("Ctrl-C stops a reply, Ctrl-D leaves.")
        super().result(result)


def run(chat: LiveChat, first_message: str = "") -> None:
    """Run the conversation until the person leaves. Raises `ModelError` if there is no model."""
    display = LineDisplay(context=chat.model.context_size)
    print("chatcli: type a message, press Enter. /help shows the commands, Ctrl-D leaves.")
    if (log := chat.session.log).has_begun:
        display.result(results.Opened(chat.session.title, log.conversation, chat.notes()))
    for download in chat.model.downloads(threading.Event()):
        display.event(download)
    display.abandon()
    chat.model.wait()
    while True:
        try:
            line, first_message = (
                first_message or input(PRIVATE_PROMPT if chat.session.log.is_private else PROMPT),
                "",
            )
        except (EOFError, KeyboardInterrupt):
            print()
            break
        try:
            if line.strip() and script.run_line(line, chat, display, in_terminal=True):
                break
        except ChatcliError as error:
            display.result(results.PlainText(str(error)))
        except KeyboardInterrupt:
            print("(stopped)")
    if (name := chat.session.name) is not None:
        resume = chat.session.folder.command("resume", name)
        display.result(results.PlainText(f"To continue this conversation: {resume}"))
