"""Bodies in Protocol Buffers, by a descriptor set: what `protoc --include_imports --descriptor_set_out=FILE`
writes.

A field that is absent and can be (optional, of a oneof, a message) is null. An enum is the name of its value,
or its number where the column is a number. google.protobuf.Timestamp is a timestamp, wrappers are what they
wrap.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from pyspark_embermq.errors import AMQPSourceError
from pyspark_embermq.formats import schema_registry
from pyspark_embermq.formats.typed_values import rows_of
from pyspark_embermq.options import Options

IN_OPTION = "base64:"  # what a descriptor set begins with that stands in the option itself
TIMESTAMP = "google.protobuf.Timestamp"
WRAPPERS = "google.protobuf."


def embedded(descriptor: str) -> str:
    """On the driver: the descriptor set itself, for executors that do not have the file."""
    if descriptor.startswith(IN_OPTION):
        return descriptor
    try:
        return IN_OPTION + base64.b64encode(Path(descriptor).read_bytes()).decode()
    except OSError as error:
        raise AMQPSourceError(f"option 'protobufDescriptor': {descriptor}: {error.strerror}") from None


def message_class(options: Options) -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError:
        raise AMQPSourceError(
            "option 'format' is 'protobuf': that needs protobuf (pip install 'embermq[spark-protobuf]')"
        ) from None
    raw = embedded(options.protobuf_descriptor).removeprefix(IN_OPTION)
    pool = descriptor_pool.DescriptorPool()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(raw))
        for file in files.file:
            pool.Add(file)
        found = pool.FindMessageTypeByName(options.protobuf_message)
    except KeyError:
        raise AMQPSourceError(
            f"option 'protobufMessage' is {options.protobuf_message!r}, which the descriptor set lacks "
            f"(it has {', '.join(names_in(files)) or 'none'})"
        ) from None
    except Exception as error:
        raise AMQPSourceError(f"option 'protobufDescriptor' is no descriptor set: {error}") from None
    return message_factory.GetMessageClass(found)


def names_in(files: Any) -> list[str]:
    return [
        ".".join(part for part in (file.package, message.name) if part)
        for file in files.file
        for message in file.message_type
    ][:20]


# -- reading


def protobuf_reader(options: Options, schema: pa.Schema) -> Callable[[bytes], dict[str, Any]]:
    kind = message_class(options)
    wanted = pa.struct(list(schema))

    def read(body: bytes) -> dict[str, Any]:
        if options.schema_registry:
            body = schema_registry.after_type_path(schema_registry.unframed(body)[1])
        return as_row(kind.FromString(body), wanted)

    return read


def as_row(message: Any, kind: pa.StructType) -> dict[str, Any]:
    """The fields of a message that a struct has."""
    fields = message.DESCRIPTOR.fields_by_name
    return {
        wanted.name: field_value(message, fields[wanted.name], wanted.type)
        for wanted in kind
        if wanted.name in fields
    }


def field_value(message: Any, field: Any, kind: pa.DataType) -> Any:
    if is_map(field):
        value_field = field.message_type.fields_by_name["value"]
        inner = kind.item_type if pa.types.is_map(kind) else pa.null()
        items = getattr(message, field.name).items()
        return {name: value_of(value, value_field, inner) for name, value in items}
    if field.is_repeated:
        inner = kind.value_type if pa.types.is_list(kind) else pa.null()
        return [value_of(value, field, inner) for value in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name):
        return None
    return value_of(getattr(message, field.name), field, kind)


def value_of(value: Any, field: Any, kind: pa.DataType) -> Any:
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == TIMESTAMP:
            return value.ToDatetime(tzinfo=datetime.UTC)
        if is_wrapper(field.message_type):
            return value.value
        return as_row(value, kind) if pa.types.is_struct(kind) else value
    if field.enum_type is not None and not pa.types.is_integer(kind):
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    return value


def is_map(field: Any) -> bool:
    return bool(
        field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry
    )


def is_wrapper(kind: Any) -> bool:
    """google.protobuf.Int64Value and the like; google.protobuf.Value is any JSON."""
    name = kind.full_name.removeprefix(WRAPPERS)
    return bool(name != kind.full_name and name.endswith("Value") and name not in ("Value", "ListValue"))


# -- writing


def protobuf_bodies(columns: dict[str, pa.Array], count: int, options: Options) -> pa.Array:
    kind = message_class(options)
    found = []
    for row in rows_of(columns, count):
        message = kind()
        try:
            fill(message, row)
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise AMQPSourceError(f"a row is no {options.protobuf_message}: {error}") from None
        found.append(message.SerializeToString(deterministic=True))
    return pa.array(found, pa.binary())


def check_fields(options: Options, names: list[str]) -> None:
    """On the driver: has the message all fields that rows have?"""
    fields = message_class(options).DESCRIPTOR.fields_by_name
    for name in names:
        if name not in fields:
            raise AMQPSourceError(
                f"{options.protobuf_message} has no field {name!r}; it has {', '.join(fields)}"
            )


def fill(message: Any, row: dict[str, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in row.items():
        field = fields.get(name)
        if field is None:
            raise ValueError(f"it has no field {name!r}")
        if value is not None:
            set_field(message, field, value)


def set_field(message: Any, field: Any, value: Any) -> None:
    place = getattr(message, field.name)
    if is_map(field):
        inner = field.message_type.fields_by_name["value"]
        for key, item in value.items():
            if inner.message_type is not None:
                set_message(place[key], inner, item)
            else:
                place[key] = plain(item, inner)
    elif field.is_repeated:
        for item in value:
            if field.message_type is not None:
                set_message(place.add(), field, item)
            else:
                place.append(plain(item, field))
    elif field.message_type is not None:
        set_message(place, field, value)
    else:
        setattr(message, field.name, plain(value, field))


def set_message(message: Any, field: Any, value: Any) -> None:
    message.SetInParent()
    if field.message_type.full_name == TIMESTAMP:
        message.FromDatetime(value)
    elif is_wrapper(field.message_type):
        message.value = value
    else:
        fill(message, value)


def plain(value: Any, field: Any) -> Any:
    if field.enum_type is not None and isinstance(value, str):
        known = field.enum_type.values_by_name.get(value)
        if known is None:
            raise ValueError(f"{value!r} is no {field.enum_type.name}")
        return known.number
    return value
