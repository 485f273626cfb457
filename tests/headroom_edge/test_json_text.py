from __future__ import annotations

import pytest

from headroom_edge.json_text import RepeatedKeyError, refuse_repeats


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        ' \n{ "a" : 1 , "a" : 1 }',
        '{"a":1,"\\u0061":2}',
        '{"a":"\\"","a":"\\""}',
        '{"é":1,"b":{"c":"x"},"é":2}',
        '{"checks":[{"a":"x"},{"a":"y","b":{"c":"1","c":"2"}}]}',
    ],
)
def test_a_key_that_is_given_twice_is_found(text: str) -> None:
    with pytest.raises(RepeatedKeyError, match="given twice"):
        refuse_repeats(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a":"b","c":{"d":"e"}}',
        ' \t{"a":"a","b":"a"}\n',
        '{"a":"\\"a\\":1","b":"\\\\"}',
        '{"checks":[{"a":"x"},{"a":"x"}],"a":null}',
    ],
)
def test_the_same_text_in_other_places_is_no_repeat(text: str) -> None:
    refuse_repeats(text.encode())
