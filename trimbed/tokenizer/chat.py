"""The literal text of chat templates, found without rendering anything. Knows Jinja's delimiters and strings only."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["CHAT_ROLES", "chat_template_literals"]

# What a template that prints message['role'] will be given.
CHAT_ROLES = ("system", "user", "assistant", "tool")

_OPEN = re.compile(r"\{\{|\{%|\{#")
_STRING = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_CLOSE = {"{{": "}}", "{%": "%}"}
_TAKES_ROLE = re.compile(r"\[\s*(['\"])role\1\s*\]|\.\s*role\b|\.get\(\s*(['\"])role\2")
_ENDRAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")


def chat_template_literals(template: str) -> list[str]:
    """Every stretch of text that rendering the template could print as it stands, in order, each once.

    These are the text around the Jinja (white space control and the usual trimming after blocks applied), the strings
    quoted inside it with their escapes undone, and, for a template that prints a message's role, the usual roles.
    Strings that are only compared or used as keys are among them: nothing is evaluated. An unclosed block ends with
    the text.

    >>> chat_template_literals("{{ bos }}<|im_start|>{{ m['role'] + '\\\\n' }}")
    ['<|im_start|>', 'role', '\\n', 'system', 'user', 'assistant', 'tool']
    """
    found: dict[str, None] = {}
    takes_role = False
    for kind, body in _parts(template):
        if kind == "text":
            found[body] = None
            continue
        for match in _STRING.finditer(body):
            found[_unescape(match[1] if match[1] is not None else match[2])] = None
        if kind == "{{" or body.lstrip("+- \t\r\n").startswith("set"):
            takes_role = takes_role or _TAKES_ROLE.search(body) is not None
    if takes_role:
        found.update(dict.fromkeys(CHAT_ROLES))
    found.pop("", None)
    return list(found)


def _parts(template: str) -> Iterator[tuple[str, str]]:
    """("text", literal), ("{{", expression) and ("{%", statement) in order."""
    at, strip_left = 0, ""
    while True:
        opening = _OPEN.search(template, at)
        text = template[at : opening.start() if opening else len(template)]
        if strip_left == "-":
            text = text.lstrip()
        elif strip_left == "%":
            text = text.removeprefix("\n")  # trim_blocks, as chat templates are rendered
        if opening is None:
            yield "text", text
            return
        start, mark = opening.end(), opening[0]
        if template[start : start + 1] == "-":
            text = text.rstrip()
        elif mark != "{{" and template[start : start + 1] != "+":
            line = text[text.rfind("\n") + 1 :]
            if not line.strip() and (len(line) < len(text) or at == 0):
                text = text[: len(text) - len(line)]  # lstrip_blocks
        yield "text", text
        if mark == "{#":
            end = template.find("#}", start)
            end = len(template) if end < 0 else end
            body = template[start:end]
        else:
            end = _block_end(template, start, _CLOSE[mark])
            body = template[start:end]
            yield mark, body
        strip_left = "-" if body.endswith("-") else "" if mark == "{{" or body.endswith("+") else "%"
        at = min(len(template), end + 2)
        if mark == "{%" and body.strip("+- \t\r\n") == "raw":
            closing = _ENDRAW.search(template, at)
            end = closing.start() if closing else len(template)
            yield "text", template[at:end]
            at = closing.end() if closing else len(template)


def _block_end(template: str, start: int, close: str) -> int:
    """Where a block closes; a delimiter inside a string doesn't count."""
    at = start
    while True:
        end = template.find(close, at)
        if end < 0:
            return len(template)
        string = _STRING.search(template, at, len(template))
        if string is None or string.start() > end:
            return end
        at = string.end()


_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|[0-7]{1,3}|\n|.)", re.DOTALL)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}


def _unescape(string: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "uUx" and len(code) > 1:
            value = int(code[1:], 16)
            return chr(value) if value <= 0x10FFFF else match[0]
        if code.isdigit():
            return chr(int(code, 8)) if all(c in "01234567" for c in code) else match[0]
        if code in _SIMPLE:
            return _SIMPLE[code]
        return code if code in "\\'\"" else match[0]

    return _ESCAPE.sub(one, string)
