"""Schema registries: Confluent's HTTP API, or a directory with a file `ID.avsc` for each schema; and the
frame that says which schema a body has.

    0  1  zero
    1  4  the schema's id, big-endian
    5     the body

of a Protobuf message with the path to its type in between: a count and so many indexes, as zigzag varints; a
single zero stands for the first type of its file.
"""

from __future__ import annotations

import base64
import json
import struct
import urllib.error
import urllib.request
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from pyspark_embermq.errors import AMQPSourceError

FRAME = struct.Struct(">bI")
ANSWER_S_MAX = 30.0
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
SUFFIX = ".avsc"


class NotFramed(ValueError):
    """A body that does not begin as one of a registry does."""


def framed(schema_id: int, body: bytes) -> bytes:
    return FRAME.pack(0, schema_id) + body


def unframed(body: bytes) -> tuple[int, bytes]:
    """The id of its schema, and what follows."""
    if len(body) < FRAME.size or body[0] != 0:
        raise NotFramed("it does not begin with a zero and the number of a schema, as with a registry")
    return FRAME.unpack_from(body)[1], body[FRAME.size :]


def after_type_path(body: bytes) -> bytes:
    """Of a framed Protobuf message: without the indexes of its type, which option protobufMessage names."""
    count, at = varint(body, 0)
    for _ in range(count):
        _, at = varint(body, at)
    return body[at:]


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number, and where the next one begins."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise NotFramed("the indexes of its type are cut off")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


@lru_cache(maxsize=1000)
def schema_text(registry: str, schema_id: int) -> str:
    """The schema of an id; a schema never changes, so it is asked for once."""
    if is_directory(registry):
        file = directory(registry) / f"{schema_id}{SUFFIX}"
        try:
            return file.read_text()
        except OSError as error:
            raise AMQPSourceError(f"schema {schema_id}: {file}: {error.strerror}") from None
    answer = ask(registry, f"/schemas/ids/{schema_id}")
    if answer.get("references"):
        raise AMQPSourceError(f"schema {schema_id} refers to others, which is not supported")
    return str(answer["schema"])


def schema_id(registry: str, subject: str, schema: str) -> int:
    """The id of a schema to write with, registered under the subject if it is new."""
    if is_directory(registry):
        return id_in_directory(directory(registry), schema)
    if not subject:
        raise AMQPSourceError("option 'schemaSubject' is missing: under which a registry keeps the schema")
    answer = ask(registry, f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
    return int(answer["id"])


def id_in_directory(place: Path, schema: str) -> int:
    place.mkdir(parents=True, exist_ok=True)
    known = {int(file.stem): file for file in place.glob(f"*{SUFFIX}") if file.stem.isdecimal()}
    for number, file in sorted(known.items()):
        if json.loads(file.read_text()) == json.loads(schema):
            return number
    number = max(known, default=0) + 1
    temporary = place / f".{number}{SUFFIX}"
    temporary.write_text(schema)
    temporary.rename(place / f"{number}{SUFFIX}")
    return number


def is_directory(registry: str) -> bool:
    return not registry.startswith(("http://", "https://"))


def directory(registry: str) -> Path:
    return Path(registry.removeprefix("file://"))


def ask(registry: str, path: str, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """User and password are those of the URL."""
    parts = urlsplit(registry)
    place = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    request = urllib.request.Request(place + path, headers={"Accept": CONTENT_TYPE})
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        request.add_header("Authorization", f"Basic {base64.b64encode(login).decode()}")
    if given is not None:
        request.data = json.dumps(given).encode()
        request.add_header("Content-Type", CONTENT_TYPE)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_S_MAX) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        with error:
            why = error.read(1000).decode("utf-8", "replace")
        raise AMQPSourceError(
            f"the schema registry at {place} answers {error.code} to {path}: {why}"
        ) from None
    except (OSError, ValueError) as error:
        raise AMQPSourceError(f"the schema registry at {place} cannot be asked: {error}") from None
