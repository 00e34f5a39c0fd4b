"""Bodies in Avro, with one schema for all or framed with the id of a schema in a registry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats import schema_registry
from pyspark_embermq.formats.typed_values import rows_of
from pyspark_embermq.options import Options

DECIMAL_DIGITS_MAX = 38


def fastavro_module() -> Any:
    try:
        import fastavro
    except ImportError:
        raise AMQPSourceError(
            "option 'format' is 'avro': that needs fastavro (pip install fastavro)"
        ) from None
    return fastavro


def parsed(schema_text: str) -> Any:
    try:
        return fastavro_module().parse_schema(json.loads(schema_text))
    except AMQPSourceError:
        raise
    except Exception as error:
        raise AMQPSourceError(f"option 'avroSchema' is not an Avro schema: {error}") from None


def avro_reader(options: Options) -> Callable[[bytes], Any]:
    """What reads a body. With a registry `avroSchema`, if it is given, is the reader's schema."""
    fastavro = fastavro_module()
    if not options.avro_schema and not options.schema_registry:
        raise AMQPSourceError(
            "option 'format' is 'avro': give the writer's schema in option 'avroSchema', or a registry of "
            "schemas in 'schemaRegistry'"
        )
    given = parsed(options.avro_schema) if options.avro_schema else None
    known: dict[int, Any] = {}

    def writers_schema(schema_id: int) -> Any:
        if schema_id not in known:
            known[schema_id] = parsed(schema_registry.schema_text(options.schema_registry, schema_id))
        return known[schema_id]

    def read(body: bytes) -> Any:
        schema = given
        if options.schema_registry:
            schema_id, body = schema_registry.unframed(body)
            schema = writers_schema(schema_id)
        stream = io.BytesIO(body)
        row = fastavro.schemaless_reader(stream, schema, given)
        if stream.read(1):
            raise ValueError("bytes are left over")
        return row

    return read


def avro_bodies(columns: dict[str, pa.Array], count: int, options: Options) -> pa.Array:
    fastavro = fastavro_module()
    schema = parsed(options.avro_schema)
    found: list[bytes] = []
    for row in rows_of(columns, count):
        stream = io.BytesIO()
        try:
            fastavro.schemaless_writer(stream, schema, row)
        except Exception as error:  # whatever its C code met
            raise AMQPSourceError(f"a row is not of the Avro schema: {error}") from None
        body = stream.getvalue()
        found.append(schema_registry.framed(options.schema_id, body) if options.schema_registry else body)
    return pa.array(found, pa.binary())


def avro_schema_of(schema: pa.Schema) -> str:
    """The Avro schema of rows: every field may be null."""
    fields = [field_of(field, "row") for field in schema]
    return json.dumps({"type": "record", "name": "row", "fields": fields})


def field_of(field: pa.Field, path: str) -> dict[str, Any]:
    kind = avro_type(field.type, f"{path}_{field.name}")
    return {"name": field.name, "type": ["null", kind], "default": None}


def avro_type(kind: pa.DataType, name: str) -> Any:
    if pa.types.is_struct(kind):
        return {"type": "record", "name": name, "fields": [field_of(field, name) for field in kind]}
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise AMQPSourceError(f"column {name!r}: the keys of a map are strings in Avro")
        return {"type": "map", "values": ["null", avro_type(kind.item_type, f"{name}_value")]}
    if pa.types.is_list(kind):
        return {"type": "array", "items": ["null", avro_type(kind.value_type, f"{name}_item")]}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        local = "" if kind.tz is not None else "local-"
        return {"type": "long", "logicalType": f"{local}timestamp-micros"}
    for is_kind, avro in PLAIN:
        if is_kind(kind):
            return avro
    raise AMQPSourceError(f"column {name!r} is {kind}, which has no form in Avro: cast it to a string")


PLAIN: tuple[tuple[Callable[[pa.DataType], Any], Any], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_integer, "int"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
    (pa.types.is_date, {"type": "int", "logicalType": "date"}),
)
