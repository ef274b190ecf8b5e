"""JSON, read strictly (B074)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aistation.api.errors import MalformedError
from aistation.api.parsers import parse_json
from aistation.core.errors import InvalidInputError

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_json_can_say_arrives_unchanged(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_either_json_or_refused(data: bytes) -> None:
    try:
        parse_json(data)
    except (MalformedError, InvalidInputError):
        return


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 01}',
        b"\xff\xfe{\x00}\x00",
        '{"a": "ü"}'.encode("latin-1"),
        b"[" * 33 + b"]" * 33,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'\xef\xbb\xbf{"a": 1}',
    ],
)
def test_what_is_not_json_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_json(data)


def test_thirty_two_levels_are_enough_for_everybody() -> None:
    assert parse_json(b"[" * 31 + b"1" + b"]" * 31)


@pytest.mark.parametrize(
    ("data", "field", "code"),
    [
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "c", "duplicate_key"),
        (b'{"a": {"b": ["x", "y\\u0000"]}}', "a.b[1]", "nul"),
        (b'{"a": {"b\\u0000": 1}}', "a.b\x00", "nul"),
        (b'{"a": "\\ud800"}', "a", "surrogate"),
        (b'{"\\udfff": 1}', "\\udfff", "surrogate"),
    ],
)
def test_what_no_table_can_hold_is_refused_with_its_place(data: bytes, field: str, code: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        parse_json(data)
    (error,) = refused.value.errors
    assert (error.field, error.code) == (field, code)


def test_an_integer_of_any_length_is_read_at_once_and_stays_out_of_all_ranges() -> None:
    assert parse_json(b"[" + b"9" * 1_000_000 + b"]") == [10**30]
    assert parse_json(b"[-" + b"9" * 1_000_000 + b"]") == [-(10**30)]
