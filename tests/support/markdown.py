"""Markdown as models write it, whole and in pieces."""

from __future__ import annotations

REPLY = """\
# Sorting

There are **two** ways to sort: `list.sort()` and the *built-in* `sorted(iterable)`. Both are **stable
and fast**, cost $5, and see [the docs](https://docs.python.org/3/) or [1] for ~~nothing~~ more.

1. Install it:
   ```bash
   pip install foo
   ```
2. Run it
   - nested, with a long sentence that has to be wrapped because it is wider than the screen is
     - deeper

1. Numbered by place
- [x] done
- [ ] open

```python
def quick(values):
\treturn sorted(values)
```

| Name | Stable |
|:--|--:|
| `sort` | yes |
| 漢字 | no |

> Quoted words that go on
> over two lines.

---

The formula \\(a_1 * b_2 * c\\) and $x*y*z$.

$$
a &= b
+ c
$$

<div>
as it is
</div>

Last<br>words &amp; 2 * 3 * 4.
"""
FRAGMENTS = [
    *("# ", "- ", "- [ ] ", "1. ", "2) ", "> ", "```\n", "```py\n", "~~~\n", "---\n", "===\n"),
    *("| a | b |\n", "|---|:-:|\n", "| 1 | 2 |\n", "|", "\n", "\n\n", "  ", "    ", "\t", "\r\n"),
    *(
        "**",
        "*",
        "_",
        "`",
        "``",
        "~~",
        "[",
        "](",
        ")",
        "<b>",
        "<div>\n",
        "<",
        "<!-- ",
        "-->",
        "<br>",
    ),
    *(
        "$",
        "$$",
        "$$\n",
        "\\(",
        "\\)",
        "\\[",
        "\\]\n",
        "\\",
        "&amp;",
        "\x1b[31m",
        "é",
        "漢字かな。「",
    ),
    *(
        "word ",
        "long-word ",
        "[link](http://x.y)",
        "🎉",
        "x" * 90,
        "The quick brown fox jumps. " * 5,
    ),
    *("def f(x):\n    return 'x'\n", "     code\n", "> ```\n", "- ```\n", "```", "|-|\n", "\r"),
]


def chunks(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
