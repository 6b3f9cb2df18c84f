"""The reader of answers alone: the same answer in whatever pieces it comes, and bounds that are exact."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from payaccept.adapters.outbound.answer import MAX_BODY_BYTES, MAX_HEAD_BYTES, AnswerReader
from payaccept.adapters.outbound.judgement import judge
from payaccept.adapters.outbound.unanswered import Unanswered

ANSWERS = {
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello": (200, b"hello", None),
    b"HTTP/1.1 204 No Content\r\n\r\n": (204, b"", None),
    b"HTTP/1.1 503 Busy\r\nretry-AFTER: 120\r\nContent-Length: 0\r\n\r\n": (503, b"", b"120"),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nRetry-After: 9\r\n\r\n": (
        200,
        b"hello",
        None,
    ),
    b"HTTP/1.1 103 Hints\r\nRetry-After: 5\r\n\r\nHTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nhi": (
        201,
        b"hi",
        None,
    ),
}


def told(reader: AnswerReader) -> tuple[int, bytes, bytes | None]:
    return reader.status, reader.body, reader.retry_after


@pytest.mark.parametrize("answer", ANSWERS)
def test_byte_by_byte(answer):
    reader = AnswerReader()
    for number in range(len(answer)):
        assert not reader.is_done
        reader.feed(answer[number : number + 1])
    assert reader.is_done
    assert reader.is_reusable
    assert told(reader) == ANSWERS[answer]


@given(
    answer=st.sampled_from(list(ANSWERS)), cuts=st.sets(st.integers(1, 100)), beyond=st.binary(max_size=30)
)
def test_in_any_pieces_and_whatever_follows(answer, cuts, beyond):
    data = answer + beyond
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    reader = AnswerReader()
    for begin, end in pairwise(edges):
        if not reader.is_done:
            reader.feed(data[begin:end])
    assert told(reader) == ANSWERS[answer]


@given(st.binary(max_size=400) | st.binary(max_size=300).map(lambda data: b"HTTP/1.1 200 OK\r\n" + data))
def test_no_bytes_break_the_reader(data):
    reader = AnswerReader()
    with suppress(Unanswered):
        reader.feed(data)
    reader.end()
    assert len(reader.body) <= MAX_BODY_BYTES


def head_of(size: int) -> bytes:
    """A head of just so many bytes, with an interim answer in it."""
    interim = b"HTTP/1.1 103 Hints\r\nX: y\r\n\r\n"
    first, last = b"HTTP/1.1 200 OK\r\nX: ", b"\r\nContent-Length: 0\r\n\r\n"
    return interim + first + b"x" * (size - len(interim) - len(first) - len(last)) + last


@pytest.mark.parametrize("piece", [1, 1000, MAX_HEAD_BYTES * 2])
def test_a_head_is_read_up_to_its_bound_and_not_a_byte_further(piece):
    for size, good in ((MAX_HEAD_BYTES - 1, True), (MAX_HEAD_BYTES, True), (MAX_HEAD_BYTES + 1, False)):
        reader, data = AnswerReader(), head_of(size)
        pieces = [data[at : at + piece] for at in range(0, size, piece)]
        if good:
            assert [reader.feed(part) for part in pieces][-1]
        else:
            with pytest.raises(Unanswered, match="longer than 32 KiB"):
                list(map(reader.feed, pieces))


def test_many_small_interim_answers_count_as_one_head():
    reader, interim = AnswerReader(), b"HTTP/1.1 100 Continue\r\n\r\n"
    for _ in range(MAX_HEAD_BYTES // len(interim)):
        assert not reader.feed(interim)
    with pytest.raises(Unanswered, match="longer than 32 KiB"):
        reader.feed(interim)


@pytest.mark.parametrize(
    ("length", "reusable"), [(MAX_BODY_BYTES - 1, True), (MAX_BODY_BYTES, True), (MAX_BODY_BYTES + 1, False)]
)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_is_read_up_to_its_bound_and_a_longer_one_ends_there(length, reusable, chunked):
    body = b"b" * length
    if chunked:
        data = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (length, body)
    else:
        data = b"Content-Length: %d\r\n\r\n%b" % (length, body)
    reader = AnswerReader()
    assert reader.feed(b"HTTP/1.1 200 OK\r\n" + data)
    assert reader.body == body[:MAX_BODY_BYTES]
    assert reader.is_reusable is reusable


def test_a_body_in_chunks_of_one_byte_is_read_whole():
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(MAX_BODY_BYTES - 1):
        assert not reader.feed(b"1\r\nx\r\n")
    assert reader.feed(b"0\r\n\r\n")
    assert reader.body == b"x" * (MAX_BODY_BYTES - 1)
    assert reader.is_reusable


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (b"", None),
        (b'{"result":{"resultStatus":"S"}}', None),
        (b'{"result":{"resultStatus":"F"}}', "HTTP 200 with resultStatus 'F'"),
        (b' \n{"result":{"resultStatus":"U"}}', "HTTP 200 with resultStatus 'U'"),
        (b'{"result":{"resultStatus":"\xc3\xa4"}}', "HTTP 200 with resultStatus '\\xe4'"),
        (b'{"result":{"resultStatus":' + b'"' + b"x" * 100 + b'"}}', f"HTTP 200 with resultStatus '{'x' * 16}'"),
        (b'{"result":{"resultStatus":null}}', None),
        (b'{"result":null}', None),
        (b'{"result":[]}', None),
        (b'["result"]', None),
        (b"\xff\xfe", None),
        (b'{"a":' * 2000, None),
    ],
)  # fmt: skip
def test_what_a_body_says(body, refusal):
    assert judge(200, body, None).refusal == refusal


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"7", 7.0),
        (b" 7 ", 7.0),
        (b"-7", None),
        (b"soon", None),
        (b"", None),
        (b"\xb2", None),
        (b"9" * 400, float("inf")),
        (b"Mon, 01 Jan 2024 00:00:00 +99999999999999999999", None),
    ],
)
def test_when_to_come_again(value, seconds):
    assert judge(503, b"", value).retry_after_s == seconds


def test_when_to_come_again_as_a_date():
    told_s = judge(503, b"", b"Wed, 01 Jan 2098 00:00:00 GMT").retry_after_s
    assert told_s is not None
    assert told_s > 1e9
