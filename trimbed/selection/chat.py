"""The words that a chat template puts into every prompt. Reads Jinja's outermost syntax; runs no template."""

from __future__ import annotations

import ast
import re

__all__ = ["template_literals"]

_TAG = re.compile(r"\{#-?.*?-?#\}|\{%-?(?P<statement>.*?)-?%\}|\{\{-?(?P<expression>.*?)-?\}\}", re.DOTALL)
_STRING = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)


def template_literals(template: str) -> list[str]:
    """Text outside of tags, and the string literals inside of them, in order, each once; comments are left out.

    Some of the literals are never printed (roles to compare with, names of keys): keeping their tokens too costs
    little, and which are printed can't be told without running the template on every kind of conversation.

    >>> template_literals("{% if x == 'user' %}<|user|>{{ '\\n' + m }}{% endif %}")
    ['user', '<|user|>', '\\n']
    """
    found: list[str] = []
    at = 0
    for tag in _TAG.finditer(template):
        found.append(template[at : tag.start()])
        inside = tag["statement"] or tag["expression"] or ""
        found += [_unquote(match[0]) for match in _STRING.finditer(inside)]
        at = tag.end()
    found.append(template[at:])
    return list(dict.fromkeys(text for text in found if text))


def _unquote(literal: str) -> str:
    try:
        value = ast.literal_eval(literal.replace("\n", "\\n"))
    except (SyntaxError, ValueError):
        return literal[1:-1]
    return value if isinstance(value, str) else literal[1:-1]
