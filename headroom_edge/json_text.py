"""What JSON allows and this project refuses: a key that is given twice, and half of a character.

A parser keeps the last of two values without a word, so what is written and what is done would differ. Half of a
character (a lone surrogate) can be stored and sent nowhere.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from json.scanner import make_scanner
from typing import Any, Final

_HALF: Final = re.compile("[\ud800-\udfff]")
_HALF_IN_BYTES: Final = re.compile(b"\xed[\xa0-\xbf]")  # how UTF-8 would write U+D800 to U+DFFF, which it must not
_LONGEST_NAME: Final = 64  # of a key, in a sentence


class RepeatedKeyError(ValueError):
    def __init__(self, key: str) -> None:
        self.key = printable(key)
        super().__init__(f"{self.key} is given twice in one object; give it once")


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An `object_pairs_hook` of `json`."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = Counter(key for key, _ in pairs)
        raise RepeatedKeyError(keys.most_common(1)[0][0])
    return found


_scan: Final = make_scanner(json.JSONDecoder(object_pairs_hook=distinct))  # type: ignore[arg-type] # as the decoder does it


def refuse_repeats(raw: bytes) -> None:
    """Raises RepeatedKeyError. `raw` must be JSON in UTF-8; that is not checked again."""
    texts = raw.split(b'"')[1::2]  # keys and values, unless a quotation mark is escaped
    if b"\\" in raw or len(set(texts)) < len(texts):
        _scan(raw.decode().lstrip(), 0)


def encoding_fault(raw: bytes) -> str | None:
    """Why the bytes are not UTF-8, as a sentence."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        if _HALF_IN_BYTES.match(raw, error.start):
            what = "begins half of a character (a lone surrogate); send the whole character, or remove it"
            return f"Byte {error.start} of the body {what}."
        return f"Byte {error.start} of the body (0x{raw[error.start]:02x}) is not UTF-8; send the body in UTF-8."
    return None


def half_character(raw: bytes) -> tuple[str, str] | None:
    """The path of a text with a lone surrogate, such as `subject.ip`, and a sentence. None: none, or no JSON."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return next(_halves(value), None)


def _halves(value: Any) -> Iterator[tuple[str, str]]:
    left = [("", value)]
    while left:
        path, one = left.pop()
        if isinstance(one, str) and (half := _HALF.search(one)):
            place, code = printable(path), f"U+{ord(half[0]):04X}"
            sentence = f"has half of a character ({code}, a lone surrogate); send the whole character, or remove it."
            yield place, f"{place or 'The body'} {sentence}"
        elif isinstance(one, dict):
            left += [(path, key) for key in one]
            left += [(f"{path}.{key}" if path else key, below) for key, below in one.items()]
        elif isinstance(one, list):
            left += [(f"{path}[{index}]", below) for index, below in enumerate(one)]


def printable(name: str) -> str:
    text = name[:_LONGEST_NAME]
    return text if text.isprintable() else ascii(text)
