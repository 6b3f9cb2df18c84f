"""Strict JSON: what two readers could understand differently is refused."""

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from payaccept.wire import strict_json
from payaccept.wire.strict_json import JsonRefused, load_object

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
integers = st.integers() | st.integers(-(10**40), 10**40)
scalars = st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(texts, values, max_size=5)
styles = st.sampled_from(
    [
        {"separators": (",", ":")},
        {"separators": (",", ":"), "ensure_ascii": False},
        {"indent": 2},
        {"ensure_ascii": False},
        {"indent": "\t"},
    ]
)


def nested(depth: int, *, as_list: bool = False) -> bytes:
    """An object in which `depth` objects or lists are open at once."""
    if as_list:
        return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    return b'{"a":' * (depth - 1) + b"{}" + b"}" * (depth - 1)


def same(one: object, other: object) -> bool:
    """Equal, and of the same types throughout: 1, 1.0 and true are three values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other


@settings(max_examples=150, deadline=None)
@given(value=objects, style=styles)
@example(value={"a": 2**64}, style={})
@example(value={"a": -(2**63) - 1}, style={"separators": (",", ":")})
@example(value={"a": 2**64}, style={"separators": (",", ":")})
@example(value={"a": -0.0}, style={"separators": (",", ":")})
@example(value={"a": 1e16, "b": 1e-7, "c": 5e-324}, style={"separators": (",", ":")})
def test_whatever_a_json_writer_writes_is_read_as_it_was(value, style):
    assert same(load_object(json.dumps(value, **style).encode()), value)


FRAGMENTS = [*'{}[]:,"/\\ \n\t\0\ufeffé', '"a"', '"b"', '"a":', '"x"', '"\\u0061"', '{"a":1}']
FRAGMENTS += ["1", "-0", "1.0", "0.10", "1e5", "1E400", "01", "18446744073709551616", "9" * 4300, "9" * 4301]
FRAGMENTS += ["true", "null", "NaN", "-Infinity", "\\u0000", "\\ud800", "\\ud83d\\ude00", "\\u00e9", "\\/"]
fragments = st.sampled_from(FRAGMENTS)
almost_json = st.lists(fragments, max_size=10).map("".join)


def outcome(read, data):
    try:
        return read(data)
    except JsonRefused as error:
        return error


@settings(max_examples=500, deadline=None)
@given(data=almost_json.map(lambda inner: ("{" + inner + "}").encode()) | st.binary(max_size=20))
@example(data=b'{"a":1,"\\u0061":2}')
@example(data=b'{"a":"\xed\xa0\x80"}')
@example(data=b'{"a":18446744073709551616}')
@example(data=b"{}\n")
def test_what_is_accepted_is_what_the_json_module_reads_and_both_paths_agree(data):
    usual, slow = outcome(load_object, data), outcome(strict_json._load_slowly, data)
    if isinstance(usual, JsonRefused):
        assert isinstance(slow, JsonRefused) or not isinstance(slow, dict)
    else:
        assert same(usual, slow)
        assert same(usual, json.loads(data.decode("utf-8")))


def wrapped(value, depth):
    """The value below `depth` more levels, objects and lists by turns."""
    for level in range(depth):
        value = {"in": value, "n": level} if level % 2 else [value, level]
    return value


@settings(max_examples=100, deadline=None)
@given(value=objects, depth=st.integers(0, 6), style=styles, name=texts, two=st.tuples(scalars, scalars))
def test_a_member_named_twice_is_refused_wherever_it_is(value, depth, style, name, two):
    text = json.dumps({"top": wrapped({"MARK": 0, "rest": value}, depth)}, **style)
    twice = "".join(f"{json.dumps(name)}:{json.dumps(member)}," for member in two)
    with pytest.raises(JsonRefused, match="twice"):
        load_object(text.replace('"MARK"', twice + '"MARK"', 1).encode())


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"b":2,"a":3}',
        b'{"x":{"a":1,"a":2}}',
        b'{"x":[[{"a":null,"a":null}]]}',
        b'{"a":1,"\\u0061":1}',
        b'{"\xc3\xa9":1,"\\u00e9":1}',
        b'{"":1,"":1}',
        b'{ "a" : {} , "a" : {} }',
    ],
)
def test_duplicate_members_are_refused_however_they_are_written(data):
    with pytest.raises(JsonRefused, match="twice"):
        load_object(data)


def test_names_that_differ_in_case_or_form_are_two_members():
    assert load_object('{"a":1,"A":2,"é":3,"e\u0301":4}'.encode()) == {"a": 1, "A": 2, "é": 3, "e\u0301": 4}


@pytest.mark.parametrize("as_list", [False, True])
def test_sixteen_levels_are_accepted_and_seventeen_refused(as_list):
    assert isinstance(load_object(nested(16, as_list=as_list)), dict)
    with pytest.raises(JsonRefused, match="deeper than 16"):
        load_object(nested(17, as_list=as_list))


@pytest.mark.parametrize("depth", [18, 1000, 16_000])
def test_any_greater_depth_is_refused_and_never_a_crash(depth):
    for data in (nested(depth), nested(depth, as_list=True), b"{" * depth, b'{"a":' + b"[" * depth):
        with pytest.raises(JsonRefused):
            load_object(data)


def test_many_brackets_side_by_side_or_in_strings_are_no_depth():
    assert load_object(b'{"a":[' + b",".join([b"{}"] * 100) + b"]}") == {"a": [{}] * 100}
    assert load_object(b'{"a":"' + b"[{" * 100 + b'"}') == {"a": "[{" * 100}


REFUSED = {
    "empty": b"",
    "blank": b" \n",
    "a list": b"[]",
    "a string": b'"a"',
    "a number": b"1",
    "null": b"null",
    "true": b"true",
    "two objects": b"{}{}",
    "an object and a word": b"{} x",
    "a trailing NUL": b"{}\0",
    "a comment": b"{/* */}",
    "a trailing comma": b'{"a":1,}',
    "a trailing comma in a list": b'{"a":[1,]}',
    "single quotes": b"{'a':1}",
    "a bare name": b"{a:1}",
    "cut short": b'{"a":1',
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "-Infinity": b'{"a":[-Infinity]}',
    "nan": b'{"a":nan}',
    "a number that overflows": b'{"a":1e999}',
    "a negative number that overflows": b'{"a":{"b":[-1e999]}}',
    "a leading zero": b'{"a":01}',
    "a plus": b'{"a":+1}',
    "a point without digits": b'{"a":1.}',
    "hexadecimal": b'{"a":0x10}',
    "4301 digits": b'{"a":' + b"9" * 4301 + b"}",
    "4301 digits and a sign": b'{"a": -' + b"9" * 4301 + b"}",
    "60000 digits": b'{"a":[' + b"9" * 60_000 + b"]}",
    "NUL escaped": b'{"a":"\\u0000"}',
    "NUL escaped within": b'{"a":["x\\u0000y"]}',
    "NUL in a name": b'{"a\\u0000":1}',
    "NUL raw": b'{"a":"\0"}',
    "a control character": b'{"a":"\x01"}',
    "a raw line feed": b'{"a":"\n"}',
    "a lone high surrogate": b'{"a":"\\ud800"}',
    "a lone low surrogate": b'{"a":"\\uDC00"}',
    "surrogates the wrong way round": b'{"a":"\\ude00\\ud83d"}',
    "a surrogate in a name": b'{"\\udfff":1}',
    "a surrogate as UTF-8": b'{"a":"\xed\xa0\x80"}',
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "UTF-16 without mark": '{"a":1}'.encode("utf-16-le"),
    "UTF-32": '{"a":1}'.encode("utf-32-be"),
    "Latin-1": b'{"a":"caf\xe9"}',
    "an overlong form": b'{"a":"\xc0\xaf"}',
    "UTF-8 cut short": b'{"a":"\xe2\x82"}',
    "beyond Unicode": b'{"a":"\xf4\x90\x80\x80"}',
    "an unknown escape": b'{"a":"\\x41"}',
    "a no-break space": b'{"a":\xc2\xa01}',
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_no_strict_json_is_refused_with_a_reason(data):
    with pytest.raises(JsonRefused) as caught:
        load_object(data)
    assert str(caught.value)
    assert str(caught.value).isascii()


ACCEPTED = {
    "an empty object": (b"{}", {}),
    "white space": (b' \t\r\n{ "a" : [ ] }\n', {"a": []}),
    "a pair of surrogates": (b'{"a":"\\ud83d\\ude00"}', {"a": "😀"}),
    "emoji as UTF-8": ('{"a":"😀"}'.encode(), {"a": "😀"}),
    "escapes": (rb'{"a":"\"\\\/\b\f\n\r\t\u00e9"}', {"a": '"\\/\b\f\n\r\té'}),
    "an escaped backslash before u0000": (rb'{"a":"\\u0000"}', {"a": "\\u0000"}),
    "an escaped backslash before ud800": (rb'{"a":"\\ud800"}', {"a": "\\ud800"}),
    "4300 digits": (b'{"a":' + b"9" * 4300 + b"}", {"a": 10**4300 - 1}),
    "4300 digits and a sign": (b'{"a":-' + b"9" * 4300 + b"}", {"a": 1 - 10**4300}),
    "4300 digits and white space": (b'{"a": ' + b"9" * 4300 + b" }", {"a": 10**4300 - 1}),
    "4300 digits, a sign, white space": (b'{"a": -' + b"9" * 4300 + b" }", {"a": 1 - 10**4300}),
    "2 to the 53rd and one": (b'{"a":9007199254740993}', {"a": 9007199254740993}),
    "2 to the 64th": (b'{"a":18446744073709551616}', {"a": 2**64}),
    "below 64 bits": (b'{"a":-9223372036854775809}', {"a": -(2**63) - 1}),
    "a float stays a float": (b'{"a":1.0}', {"a": 1.0}),
    "an exponent": (b'{"a":1e2}', {"a": 100.0}),
    "minus zero": (b'{"a":-0}', {"a": 0}),
    "noncharacters": ('{"a":"\uffff\ufdd0"}'.encode(), {"a": "\uffff\ufdd0"}),
    "a mark within a string": ('{"a":"\ufeff"}'.encode(), {"a": "\ufeff"}),
    "an empty name": (b'{"":0}', {"": 0}),
    "DEL and U+2028": ('{"a":"\x7f\u2028"}'.encode(), {"a": "\x7f\u2028"}),
}


@pytest.mark.parametrize(("data", "value"), ACCEPTED.values(), ids=ACCEPTED)
def test_unusual_but_unambiguous_json_is_read_exactly(data, value):
    assert same(load_object(data), value)


def test_the_reason_names_the_member_or_the_place_and_never_raw_bytes():
    with pytest.raises(JsonRefused, match=r"^names the member '\\u65e5' twice$"):
        load_object('{"日":1,"日":1}'.encode())
    with pytest.raises(JsonRefused, match=r"not UTF-8 \(byte 6\)"):
        load_object(b'{"a":"\xff"}')
    with pytest.raises(JsonRefused, match=r"character 5\)"):
        load_object(b'{"a":}')


def test_a_body_of_64_kib_made_to_hurt_is_answered_quickly():
    size = 64 * 1024
    for data in (
        b'{"a":' + b"9" * size + b"}",
        b'{"a":"' + b"\\u0001" * (size // 6) + b'"}',
        b'{"a":[' + b"[]," * (size // 3) + b"0]}",
        b"{" + b",".join(b'"%d":0' % n for n in range(6000)) + b',"0":0}',
        b'{"a":' + b"[" * size,
        b'{"a":1e' + b"9" * size + b"}",
    ):
        outcome(load_object, data)
