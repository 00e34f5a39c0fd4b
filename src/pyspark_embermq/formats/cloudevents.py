"""CloudEvents 1.0 over AMQP, in binary mode (attributes are headers, the body is the data) and in structured
mode (the body is JSON with everything).

Headers are called `cloudEvents:id`; `cloudEvents_id`, which other programs write, is read as well.
"""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

import pyarrow as pa

from embermq.wire.properties import Properties
from pyspark_embermq.encoding.json_bodies import timestamps
from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats.typed_values import rows_of

PREFIXES = ("cloudEvents:", "cloudEvents_")
STRUCTURED = "application/cloudevents"
JSON_EVENT = "application/cloudevents+json; charset=utf-8"
SPEC_VERSION = "1.0"
ATTRIBUTES: dict[str, str] = {
    "id": "string",
    "source": "string",
    "specversion": "string",
    "type": "string",
    "subject": "string",
    "time": "timestamp",
    "datacontenttype": "string",
    "dataschema": "string",
}
FIELDS = {**ATTRIBUTES, "data": "binary", "extensions": "map<string,string>"}
SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in FIELDS.items())
REQUIRED = ("id", "source", "type")
BINARY, STRUCTURED_MODE = "binary", "structured"


class NoEvent(ValueError):
    """A message that is no CloudEvent; the text says why."""


# -- reading


def event_of(body: bytes, properties: Properties) -> dict[str, Any]:
    """The fields of an event, in whichever mode it came."""
    kind = properties.content_type or ""
    found = structured(body) if kind.lower().startswith(STRUCTURED) else binary(body, properties)
    missing = [name for name in (*REQUIRED, "specversion") if not found.get(name)]
    if missing:
        raise NoEvent(f"it has no attribute {missing[0]!r}")
    return found


def binary(body: bytes, properties: Properties) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in (properties.headers or {}).items():
        for prefix in PREFIXES:
            if name.startswith(prefix):
                given[name.removeprefix(prefix)] = value
    if not given:
        raise NoEvent("it has no headers cloudEvents:... and is not of the type application/cloudevents")
    given.setdefault("datacontenttype", properties.content_type)
    return {**split(given), "data": body}


def structured(body: bytes) -> dict[str, Any]:
    try:
        given = json.loads(body)
    except ValueError as error:
        raise NoEvent(f"not JSON: {error}") from None
    if not isinstance(given, dict):
        raise NoEvent("it is no JSON object")
    data: bytes | None = None
    if "data_base64" in given:
        data = base64.b64decode(given.pop("data_base64"), validate=True)
    elif "data" in given:
        value = given.pop("data")
        kind = given.get("datacontenttype") or "application/json"
        is_text = isinstance(value, str) and not is_json(kind)
        data = value.encode() if is_text else json.dumps(value, separators=(",", ":")).encode()
    return {**split(given), "data": data}


def split(given: dict[str, Any]) -> dict[str, Any]:
    """Attributes under their names, everything else as an extension."""
    found: dict[str, Any] = {name: given.get(name) for name in ATTRIBUTES}
    found["time"] = moment(found["time"])
    found["extensions"] = {
        name: text(value) for name, value in given.items() if name not in ATTRIBUTES and value is not None
    }
    return found


def text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def moment(value: Any) -> datetime.datetime | None:
    if value is None:
        return None
    try:
        if isinstance(value, int):  # a timestamp of AMQP
            return datetime.datetime.fromtimestamp(value, datetime.UTC)
        found = datetime.datetime.fromisoformat(str(value))
    except (ValueError, OverflowError, OSError):
        raise NoEvent(f"its time is {value!r}; expected RFC 3339") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)


def is_json(kind: str) -> bool:
    main = kind.partition(";")[0].strip().lower()
    return main.endswith(("/json", "+json"))


# -- writing


def check_fields(kinds: dict[str, str]) -> None:
    """On the driver: what there is to know of rows that are to be events."""
    for name in REQUIRED:
        if name not in kinds:
            raise AMQPSourceError(f"an event needs a column {name!r}; there are {', '.join(kinds)}")
    for name, kind in kinds.items():
        if name not in FIELDS:
            raise AMQPSourceError(
                f"an event has no attribute {name!r}: put it into the map 'extensions'; there are "
                f"{', '.join(FIELDS)}"
            )
        if kind != FIELDS[name] and not (name == "data" and kind == "string"):
            raise AMQPSourceError(f"column {name!r} is {kind}; expected {FIELDS[name]}")


def event_columns(columns: dict[str, pa.Array], count: int, mode: str) -> dict[str, pa.Array]:
    """The columns of the messages: a body, a content type and, in binary mode, headers."""
    columns = dict(columns)
    if "time" in columns:
        columns["time"] = pa.array([moment and json.loads(moment) for moment in timestamps(columns["time"])])
    rows = rows_of(columns, count)
    for row in rows:
        row["specversion"] = row.get("specversion") or SPEC_VERSION
        missing = [name for name in REQUIRED if not row.get(name)]
        if missing:
            raise AMQPSourceError(f"a row is no event: its {missing[0]!r} is empty")
    if mode == STRUCTURED_MODE:
        kinds = pa.repeat(pa.scalar(JSON_EVENT), count)
        return {"body": pa.array([event_text(row) for row in rows], pa.string()), "content_type": kinds}
    return {
        "body": pa.array([as_bytes(row.get("data")) for row in rows], pa.binary()),
        "content_type": pa.array([row.get("datacontenttype") for row in rows], pa.string()),
        "headers": pa.array([headers_of(row) for row in rows], pa.map_(pa.string(), pa.string())),
    }


def headers_of(row: dict[str, Any]) -> list[tuple[str, str]]:
    given = {**(row.get("extensions") or {}), **{name: row.get(name) for name in ATTRIBUTES}}
    del given["datacontenttype"]  # that is the content type of the message
    return [(f"{PREFIXES[0]}{name}", value) for name, value in given.items() if value is not None]


def event_text(row: dict[str, Any]) -> str:
    given = {**(row.get("extensions") or {}), **{name: row.get(name) for name in ATTRIBUTES}}
    event = {name: value for name, value in given.items() if value is not None}
    data = row.get("data")
    if data is not None:
        event |= data_of(data, event.get("datacontenttype") or "application/json")
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def data_of(data: bytes | str, kind: str) -> dict[str, Any]:
    if is_json(kind):
        try:
            return {"data": json.loads(data)}
        except ValueError:
            raise AMQPSourceError(
                "a row is no event: its data is not JSON, as its datacontenttype says"
            ) from None
    if isinstance(data, str):
        return {"data": data}
    return {"data_base64": base64.b64encode(data).decode()}


def as_bytes(data: bytes | str | None) -> bytes:
    return b"" if data is None else data.encode() if isinstance(data, str) else data
