"""Typed columns for `unnest(…)`: lists sent as binary arrays of one fixed type.

psycopg chooses an array's type by looking at its elements, so that a batch of NULLs or of small
integers would be another prepared statement; these do not, and are written in one pass.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, ClassVar, Final
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.postgres import types
from psycopg.pq import Format

_HEADER: Final = Struct("!iIIii").pack
_LENGTH: Final = Struct("!i").pack
_INT4: Final = Struct("!ii").pack
_INT8: Final = Struct("!iq").pack
_NULL: Final = _LENGTH(-1)
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Texts(list[str | None]):
    """A column of text."""


class Blobs(list[bytes | None]):
    """A column of bytea."""


class Integers(list[int | None]):
    """A column of integer."""


class Bigints(list[int | None]):
    """A column of bigint."""


class Timestamps(list[datetime | None]):
    """A column of timestamptz."""


class Uuids(list[UUID]):
    """A column of uuid."""


def by_bucket(values: Sequence[int]) -> dict[str, Integers]:
    """Return a batch's column of buckets, and the set of them for `= ANY(…)`.

    As a set, for the planner takes each element of a list for another part of the table.
    """
    return {"bucket": Integers(values), "buckets": Integers(set(values))}


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _LENGTH(len(encoded)) + encoded


def _blob(value: bytes) -> bytes:
    return _LENGTH(len(value)) + value


def _integer(value: int) -> bytes:
    return _INT4(4, value)


def _bigint(value: int) -> bytes:
    return _INT8(8, value)


def _timestamp(value: datetime) -> bytes:
    return _INT8(8, (value - _EPOCH) // _MICROSECOND)


def _uuid(value: UUID) -> bytes:
    return b"\0\0\0\x10" + value.bytes


class _ColumnDumper(Dumper):
    format = Format.BINARY
    element_oid: ClassVar[int]
    element: ClassVar[Callable[[Any], bytes]]

    def dump(self, obj: list[Any]) -> Buffer:
        write = type(self).element
        parts = [_NULL if value is None else write(value) for value in obj]
        return _HEADER(1, 1, self.element_oid, len(parts), 1) + b"".join(parts)


def _dumper(type_name: str, write: Callable[[Any], bytes]) -> type[Dumper]:
    info = types[type_name]
    members = {"oid": info.array_oid, "element_oid": info.oid, "element": staticmethod(write)}
    return type(f"_{type_name}_ColumnDumper", (_ColumnDumper,), members)


_DUMPERS: Final = {
    Texts: _dumper("text", _text),
    Blobs: _dumper("bytea", _blob),
    Integers: _dumper("int4", _integer),
    Bigints: _dumper("int8", _bigint),
    Timestamps: _dumper("timestamptz", _timestamp),
    Uuids: _dumper("uuid", _uuid),
}


def register(connection: AsyncConnection[Any]) -> None:
    """Teach a connection to send these columns."""
    for column, dumper in _DUMPERS.items():
        connection.adapters.register_dumper(column, dumper)
