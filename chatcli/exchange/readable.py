"""Exports the current path of a conversation for reading: Markdown, or one HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from chatcli.conversation import finish
from chatcli.conversation.tree import Conversation, Turn, date_in_words
from chatcli.text import clean, clean_line, count

if TYPE_CHECKING:
    from markdown_it.token import Token

FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*?)[ \t]*$")
HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
MAX_HEADING_LEVEL = 6
# The start of a tag, a comment or similar, but not of a link or a line break.
TAG_START = re.compile(r"<(?=[A-Za-z/!?])(?!br *\/?>)(?!(?:[A-Za-z][A-Za-z0-9+.-]+:|[^\s<>@]+@)[^\s<>]*>)")
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
# The schemes of links that a page may contain.
SAFE_LINK = re.compile(r"https?://|mailto:|#", re.IGNORECASE)
LEADING = re.compile(r"^[ \t]+", re.MULTILINE)
STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c1d21; --dim: #676b75; --line: #dcdee3;
  --code: #f3f4f6; --you: #eaf1fc; --accent: #2559a8; }
@media (prefers-color-scheme: dark) { :root { --back: #17181b; --text: #e4e5e8; --dim: #9a9ea8;
  --line: #35373d; --code: #222429; --you: #1d2a3d; --accent: #8ab4f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 46rem; padding: 1.5rem 1rem 4rem; background: var(--back);
  color: var(--text); font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: break-word; }
header { border-bottom: 1px solid var(--line); margin-bottom: 1.5rem; }
h1 { font-size: 1.4rem; margin: 0; }
header p, summary, .cut { color: var(--dim); font-size: .875rem; }
a { color: var(--accent); }
.you { background: var(--you); border-radius: .75rem; margin: 2rem 0 1rem; padding: .75rem 1rem; }
.number { color: var(--dim); float: right; font-size: .875rem; margin-left: 1rem;
  text-decoration: none; }
.plain { white-space: pre-wrap; }
details { border-left: 3px solid var(--line); margin: .75rem 0; padding-left: .75rem; }
details .plain { color: var(--dim); font-size: .9375rem; }
summary { cursor: pointer; }
pre, code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .875rem; }
code { background: var(--code); border-radius: .25rem; padding: .1em .3em; }
pre { background: var(--code); border-radius: .5rem; line-height: 1.45; overflow-x: auto;
  padding: .75rem 1rem; }
pre code { padding: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; }
blockquote { border-left: 3px solid var(--line); color: var(--dim); margin: 1rem 0;
  padding-left: .75rem; }
hr { border: 0; border-top: 1px solid var(--line); }
"""
PAGE = """<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1 dir="auto">{title}</h1><p>{facts}</p>{system}</header>
<main>
{turns}
</main>
</body>
</html>
"""


def markdown(name: str, conversation: Conversation, *, thinking: bool = False) -> str:
    """The current path as Markdown. Thinking is quoted. A message's Markdown cannot affect the next one."""
    parts = [f"# {clean_line(name)}", f"*{_subtitle(conversation)}*"]
    if conversation.system:
        parts += ["## System prompt", _quoted(conversation.system)]
    for turn in conversation.turns():
        parts += [f"## {turn.number} · You", contained(_printable(turn.user.message.shown), 2)]
        if turn.reply is not None:
            parts.append(f"### Reply {finish.mark(turn.reply.finish_reason)}".rstrip())
            if thinking and turn.reply.message.thinking:
                parts.append(_quoted(f"*Thinking*\n\n{turn.reply.message.thinking}"))
            parts.append(contained(_printable(turn.reply.message.content), 3))
    return "\n\n".join(parts) + "\n"


def page(name: str, conversation: Conversation, *, thinking: bool = False) -> str:
    """The current path as one HTML page that loads and runs nothing."""
    from markdown_it import MarkdownIt

    class InertMarkdown(MarkdownIt):
        def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
            return SAFE_LINK.match(url) is not None

    # No raw HTML, no images, and only links to pages.
    parser = InertMarkdown("commonmark", {"html": False, "linkify": False, "breaks": True})
    parser.enable(["table", "strikethrough"]).disable("image")
    return PAGE.format(
        title=html.escape(clean_line(name)),
        style=STYLE,
        facts=html.escape(_subtitle(conversation)),
        system=_folded("System prompt", conversation.system) if conversation.system else "",
        turns="\n".join(_turn(turn, thinking, parser.render) for turn in conversation.turns()),
    )


def _turn(turn: Turn, thinking: bool, render: Callable[[str], str]) -> str:
    number = f'<a class="number" href="#turn-{turn.number}">{turn.number}</a>'
    parts = [
        f'<section class="you" aria-label="You" id="turn-{turn.number}">{number}'
        f"{_plain(turn.user.message.shown)}</section>"
    ]
    if turn.reply is not None:
        reply = turn.reply.message
        thoughts = _folded("Thinking", reply.thinking) if thinking and reply.thinking else ""
        mark = finish.mark(turn.reply.finish_reason)
        cut = f'<p class="cut">{mark}</p>' if mark else ""
        # Markdown can contain escaped control characters, so its output is cleaned too.
        text = clean(render(_printable(reply.content)))
        parts.append(f'<article aria-label="Reply" dir="auto">{thoughts}{text}{cut}</article>')
    return "\n".join(parts)


def _plain(text: str) -> str:
    return f'<div class="plain" dir="auto">{html.escape(_printable(text))}</div>'


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>{_plain(text)}</details>"


def _printable(text: str) -> str:
    return clean(text.replace("\r\n", "\n")).strip("\n")


def _quoted(text: str) -> str:
    # After the mark a tab is narrower, and would no longer indent a code block.
    spaced = LEADING.sub(lambda space: space[0].expandtabs(4), _printable(text))
    return "\n".join(f"> {line}".rstrip() for line in contained(spaced, 3).split("\n"))


def _subtitle(conversation: Conversation) -> str:
    """Model, date and number of turns."""
    model = [clean_line(conversation.model)] if conversation.model else []
    return " · ".join([*model, date_in_words(conversation.date), count("turn", len(conversation.turns()))])


def contained(text: str, level: int) -> str:
    """`text` with headings below `level`, code blocks closed, and HTML as text, as on the screen."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    lines = text.split("\n")
    while True:
        tokens = parser.parse("\n".join(lines))
        changed = _without_underlines(_without_html(lines, tokens), tokens)
        if changed == lines:
            break
        # The text may have hidden other HTML and headings.
        lines = changed
    lines = _lowered(lines, tokens, level)
    last = tokens[-1] if tokens else None
    if last is not None and last.type == "fence" and last.map is not None:
        closing = FENCE.match(lines[last.map[1] - 1]) if last.map[1] - last.map[0] > 1 else None
        if closing is None or closing[2] or not closing[1].startswith(last.markup):
            lines.append(last.markup)
    return "\n".join(lines)


def _without_underlines(lines: Sequence[str], tokens: Sequence[Token]) -> list[str]:
    """Escape underlines, which are not headings on the screen either."""
    changed = list(lines)
    for token in tokens:
        if token.type == "heading_open" and token.map is not None and not token.markup.startswith("#"):
            underline = token.map[1] - 1
            line = changed[underline]
            at = line.index(token.markup)
            changed[underline] = f"{line[:at]}\\{line[at:]}" if token.markup == "=" else f"\n{line}"
    return "\n".join(changed).split("\n")


def _lowered(lines: Sequence[str], tokens: Sequence[Token], level: int) -> list[str]:
    """Move headings `level` levels down."""
    changed = list(lines)
    for token in tokens:
        if token.type == "heading_open" and token.level == 0 and token.map is not None:
            marks = "#" * min(len(token.markup) + level, MAX_HEADING_LEVEL)
            changed[token.map[0]] = HEADING.sub(marks, changed[token.map[0]], count=1)
    return changed


def _without_html(lines: Sequence[str], tokens: Sequence[Token]) -> list[str]:
    """Escape tags outside code."""
    changed = list(lines)
    for token in tokens:
        if token.map is not None and token.type in ("html_block", "inline"):
            for number in range(*token.map):
                changed[number] = _escaped(changed[number])
    return changed


def _escaped(line: str) -> str:
    parts, end = [], 0
    for span in CODE_SPAN.finditer(line):
        parts += [TAG_START.sub("&lt;", line[end : span.start()]), span.group()]
        end = span.end()
    return "".join([*parts, TAG_START.sub("&lt;", line[end:])])
