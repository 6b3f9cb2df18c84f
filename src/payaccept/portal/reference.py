"""The reference of the API: what `openapi.json` says, in the shape of pages."""

import json
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from markupsafe import Markup
from msgspec import Struct

from payaccept.portal.library import REFERENCE, project_root
from payaccept.portal.markdown import render_inline
from payaccept.wire.codes import TABLE
from payaccept.wire.messages import VISIBLE_ASCII

Json = dict[str, Any]

PLACEHOLDER: Final = "sandbox_5f0c9a3e7b1d2468ace02468"
"""The Client-Id of the examples, which a signed-in reader sees replaced by their own."""
_MAX_DEPTH: Final = 6
_WEBHOOKS: Final = {"payment": "webhook", "test": "webhook-test"}
"""The last part of the address of each webhook's page."""
_MOST_VALUES: Final = 12  # that are listed with a field; there are more result codes, in a table of their own
_SHAPES: Final = {"^[A-Z]{3}$": "three capital letters"}
_ALPHABETS: Final = {VISIBLE_ASCII: "visible ASCII characters, no blanks"}
"""What patterns say, where the description does not say it already."""
_LONGEST_EXAMPLE: Final = 80


class Field(Struct, frozen=True):
    """A member of a body, or a header."""

    name: str
    type: str
    required: bool
    description: Markup
    bounds: tuple[str, ...]
    examples: tuple[str, ...]
    members: tuple["Field", ...]


class Example(Struct, frozen=True):
    """A body as JSON."""

    summary: str
    text: str


class Answer(Struct, frozen=True):
    """What may be answered: an HTTP status, and which result codes come with it."""

    status: str
    description: Markup
    headers: tuple[Field, ...]
    codes: tuple[str, ...]
    fields: tuple[Field, ...]
    examples: tuple[Example, ...]


class Operation(Struct, frozen=True, kw_only=True):
    """One operation, or the webhook, or a document."""

    name: str
    address: str
    method: str
    path: str
    summary: str
    description: Markup
    signed: bool
    headers: tuple[Field, ...]
    request_name: str
    request_note: Markup
    fields: tuple[Field, ...]
    examples: tuple[Example, ...]
    answers: tuple[Answer, ...]


class Code(Struct, frozen=True):
    """A row of the table of result codes."""

    code: str
    status: str
    http: int
    message: str


class Reference(Struct, frozen=True, kw_only=True):
    """Everything that the description says."""

    version: str
    about: Markup
    signing: Markup
    operations: tuple[Operation, ...]
    webhooks: tuple[Operation, ...]
    documents: tuple[Operation, ...]
    codes: tuple[Code, ...]

    def find(self, name: str) -> Operation | None:
        """Return an operation, or a webhook, by the last part of its address."""
        return next((one for one in (*self.operations, *self.webhooks) if one.name == name), None)


def read(text: str) -> Reference:
    """Read a description."""
    described = json.loads(text)
    reader = _Reader(described)
    paths = described["paths"]
    signing = described["components"]["securitySchemes"]["requestSignature"]["description"]
    return Reference(
        version=described["info"]["version"],
        about=render_inline(described["info"]["description"]),
        signing=render_inline(signing),
        operations=tuple(
            reader.operation(path, "post", item["post"]) for path, item in paths.items() if "post" in item
        ),
        webhooks=tuple(
            reader.operation("", "post", item["post"] | {"operationId": _WEBHOOKS[name]})
            for name, item in described["webhooks"].items()
        ),
        documents=tuple(
            reader.operation(path, "get", item["get"]) for path, item in paths.items() if "get" in item
        ),
        codes=tuple(
            Code(code, meaning.status, meaning.http, meaning.message) for code, meaning in TABLE.items()
        ),
    )


@cache
def reference() -> Reference:
    """Return what this installation's description says."""
    return read((project_root() / "openapi.json").read_text(encoding="utf-8"))


class _Reader:
    """Follows references, and puts bounds into words."""

    def __init__(self, described: Json) -> None:
        self._described = described

    def operation(self, path: str, method: str, described: Json) -> Operation:
        body = described.get("requestBody", {})
        content = body.get("content", {}).get("application/json", {})
        schema = content.get("schema", {})
        return Operation(
            name=described["operationId"],
            address=f"{REFERENCE}/{described['operationId']}",
            method=method.upper(),
            path=path,
            summary=described["summary"],
            description=render_inline(described.get("description", "")),
            signed=bool(described.get("security")),
            headers=tuple(self._header(self._resolved(one)) for one in described.get("parameters", ())),
            request_name=schema.get("$ref", "").rpartition("/")[2],
            request_note=render_inline(
                _one_of_required(self._resolved(schema)) or body.get("description", "")
            ),
            fields=self._fields(schema),
            examples=tuple(_examples(content)),
            answers=tuple(self._answer(status, one) for status, one in described["responses"].items()),
        )

    def _answer(self, status: str, described: Json) -> Answer:
        described = self._resolved(described)
        content = described.get("content", {}).get("application/json", {})
        schema = content.get("schema", {})
        examples = tuple(_examples(content))
        return Answer(
            status=status,
            description=render_inline(described["description"]),
            headers=tuple(
                self._header(self._resolved(one) | {"name": name})
                for name, one in described.get("headers", {}).items()
                if name != "Request-Id"  # every answer has it
            ),
            codes=tuple(_codes_of([schema, self._resolved(schema)])),
            fields=self._fields(schema) if status.startswith("2") else (),
            examples=examples,
        )

    def _header(self, described: Json) -> Field:
        schema = described["schema"]
        example = described.get("example")
        return Field(
            name=described["name"],
            type=_type_of(schema),
            required=described.get("required", False),
            description=render_inline(described.get("description", "")),
            bounds=tuple(_bounds(schema)),
            examples=() if example is None else (_shortened(str(example)),),
            members=(),
        )

    def _fields(self, schema: Json, depth: int = 0) -> tuple[Field, ...]:
        schema = self._resolved(schema)
        required = schema.get("required", ())
        return tuple(
            self._field(name, self._resolved(one), name in required, depth)
            for name, one in schema.get("properties", {}).items()
        )

    def _field(self, name: str, schema: Json, required: bool, depth: int) -> Field:  # noqa: FBT001
        inner = schema.get("contentSchema") or schema
        return Field(
            name=name,
            type=_type_of(schema),
            required=required,
            description=render_inline(schema.get("description", "")),
            bounds=tuple(_bounds(schema)),
            examples=tuple(_write(example) for example in schema.get("examples", ())),
            members=self._fields(inner, depth + 1) if depth < _MAX_DEPTH else (),
        )

    def _resolved(self, schema: Json) -> Json:
        """Return a schema with what it refers to; what stands beside a reference goes before it."""
        reference = schema.get("$ref")
        if reference is None:
            return schema
        found: Any = self._described
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        beside = {name: value for name, value in schema.items() if name not in {"$ref", "properties"}}
        return self._resolved(found) | beside


def _type_of(schema: Json) -> str:
    if "const" in schema or len(schema.get("enum", ())) == 1:
        return "constant"
    kind: str = schema.get("type", "object" if "properties" in schema else "string")
    if kind == "array":
        return f"list of {schema.get('items', {}).get('type', 'string')}s"
    return {"date-time": "instant", "uri": "URL"}.get(schema.get("format", ""), kind)


def _bounds(schema: Json) -> Iterator[str]:
    """Say the limits of a value in words; a pattern only where nothing else tells the shape."""
    if schema.get("pattern") in _SHAPES:
        yield _SHAPES[schema["pattern"]]
        return
    if "const" in schema:
        yield str(schema["const"])
    enum = schema.get("enum") or schema.get("items", {}).get("enum")
    if enum and len(enum) > _MOST_VALUES:
        yield "a result code"
    elif enum:
        yield ("" if len(enum) == 1 else "one of ") + ", ".join(map(str, enum))
    if "maxLength" in schema and not enum:
        shortest, longest = schema.get("minLength", 0), schema["maxLength"]
        yield f"{shortest} to {longest} characters" if shortest else f"at most {longest} characters"
    if "minimum" in schema:
        yield (
            f"{schema['minimum']:,} to {schema['maximum']:,}"
            if "maximum" in schema
            else f"{schema['minimum']} or more"
        )
    if "maxItems" in schema:
        yield f"at most {schema['maxItems']} items"
    if schema.get("default"):
        yield f"default {schema['default']}"
    if schema.get("pattern") in _ALPHABETS:
        yield _ALPHABETS[schema["pattern"]]


def _one_of_required(schema: Json) -> str:
    """Say which of several members must be there, if that is how it is."""
    wanted: list[str] = [
        one["required"][0] for one in schema.get("anyOf", ()) if len(one.get("required", ())) == 1
    ]
    return f"At least one of {' and '.join(f'`{name}`' for name in wanted)}." if wanted else ""


def _codes_of(schema: Any) -> Iterator[str]:
    """Yield the result codes that an answer's schema allows, in the order of their first appearance."""
    seen: set[str] = set()
    for code in _walk_codes(schema):
        if code not in seen:
            seen.add(code)
            yield code


def _walk_codes(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, inner in schema.items():
            if name == "resultCode" and isinstance(inner, dict):
                yield from inner.get("enum", ())
            else:
                yield from _walk_codes(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _walk_codes(inner)


def _examples(content: Json) -> Iterator[Example]:
    if "example" in content:
        yield Example("", _write(content["example"]))
    for one in content.get("examples", {}).values():
        yield Example(one.get("summary", ""), _write(one["value"]))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_EXAMPLE else f"{text[:_LONGEST_EXAMPLE]}…"


def _write(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def curl_of(operation: Operation, base_url: str, client_id: str) -> str:
    """Return how the first example is sent, with what only its sender can fill in."""
    body = json.dumps(json.loads(operation.examples[0].text), separators=(",", ":"), ensure_ascii=False)
    lines: Sequence[str] = (
        f"curl {base_url}{operation.path}",
        f"-H 'Client-Id: {client_id}'",
        '-H "Request-Time: $request_time"',
        '-H "Signature: algorithm=SHA256withRSA, keyVersion=$key_version, signature=$signature"',
        "-H 'Content-Type: application/json'",
        f"--data-binary {shlex.quote(body)}",
    )
    return " \\\n  ".join(lines)
