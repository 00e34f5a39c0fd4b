"""Values of JSON and CSV bodies as Spark's own from_json and from_csv take them: a converter per Arrow type.

A converter takes a value that is not null and answers one that pyarrow takes for the type, or raises
`Misfit`. What does not fit inside a struct is null there, as in Spark, and is added to the problems. Times
without a zone are UTC, because a source in Python is not told the time zone of the session.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

Convert = Callable[[Any, list[str]], Any]


class Misfit(Exception):
    """A value that is not of the type; the text says what it is."""


class FloatText(str):
    """A number of JSON with a fraction or an exponent, NaN or Infinity, as the body has it: for decimals."""

    __slots__ = ()


def needs_text(kind: pa.DataType) -> bool:
    """Whether values of this type take all digits of a number; else floats, which are faster, will do."""
    if pa.types.is_decimal(kind) or is_variant(kind):
        return True
    return any(needs_text(kind.field(index).type) for index in range(kind.num_fields))


def misfit(value: Any, kind: str) -> Misfit:
    text = json_text(value) if not isinstance(value, str) or isinstance(value, FloatText) else repr(value)
    return Misfit(f"is {text[:80]}; expected {kind}")


def is_variant(kind: pa.DataType) -> bool:
    """Spark's variant in Arrow: a struct whose second field says so."""
    if not pa.types.is_struct(kind) or kind.num_fields != 2:
        return False
    return b"variant" in (kind.field(1).metadata or {})


# -- JSON


def converter(kind: pa.DataType) -> Convert | None:
    """For values of JSON; None: there is no way to read such a type."""
    if is_variant(kind):
        return as_variant
    if pa.types.is_struct(kind):
        return struct_converter(kind)
    if pa.types.is_map(kind):
        return map_converter(kind)
    if pa.types.is_list(kind):
        return list_converter(kind)
    if pa.types.is_integer(kind):
        return integer_converter(kind)
    if pa.types.is_decimal(kind):
        return decimal_converter(kind)
    if pa.types.is_timestamp(kind):
        return as_timestamp if kind.tz is not None else as_local_timestamp
    for is_kind, convert in SIMPLE:
        if is_kind(kind):
            return convert
    return None


def struct_converter(kind: pa.StructType) -> Convert | None:
    found = [(field.name, converter(field.type)) for field in kind]
    fields = [(name, convert) for name, convert in found if convert is not None]
    if len(fields) < len(found):
        return None

    def convert_struct(value: Any, problems: list[str]) -> Any:
        if type(value) is not dict:
            raise misfit(value, "an object")
        return {name: field_of(value, name, convert, problems) for name, convert in fields}

    return convert_struct


def field_of(row: dict[str, Any], name: str, convert: Convert, problems: list[str]) -> Any:
    """A field that does not fit is null, and a problem."""
    value = row.get(name)
    if value is None:
        return None
    try:
        return convert(value, problems)
    except Misfit as why:
        problems.append(f"field '{name}' {why}")
        return None


def list_converter(kind: pa.ListType) -> Convert | None:
    convert = converter(kind.value_type)
    if convert is None:
        return None

    def convert_list(value: Any, problems: list[str]) -> Any:
        if type(value) is not list:
            raise misfit(value, "an array")
        return [None if item is None else convert(item, problems) for item in value]

    return convert_list


def map_converter(kind: pa.MapType) -> Convert | None:
    convert = converter(kind.item_type)
    if convert is None or not pa.types.is_string(kind.key_type):
        return None

    def convert_map(value: Any, problems: list[str]) -> Any:
        if type(value) is not dict:
            raise misfit(value, "an object")
        return [
            (as_utf8(name), None if item is None else convert(item, problems)) for name, item in value.items()
        ]

    return convert_map


def integer_converter(kind: pa.DataType) -> Convert:
    limit = 1 << (kind.bit_width - 1)
    name = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}[kind.bit_width]

    def convert_integer(value: Any, problems: list[str]) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise misfit(value, name)
        return value

    return convert_integer


NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)


def decimal_converter(kind: pa.DataType) -> Convert:
    name = f"decimal({kind.precision},{kind.scale})"
    step = Decimal(1).scaleb(-kind.scale)
    context = decimal.Context(prec=kind.precision, rounding=decimal.ROUND_HALF_UP)

    def convert_decimal(value: Any, problems: list[str]) -> Any:
        if type(value) is int:
            text = str(value)
        elif isinstance(value, FloatText):
            text = value
        elif type(value) is str:
            text = value.replace(",", "")
        else:
            raise misfit(value, name)
        if not NUMBER.fullmatch(text):
            raise misfit(value, name)
        try:
            return Decimal(text).quantize(step, context=context)
        except decimal.InvalidOperation:  # more digits than it may have
            raise misfit(value, name) from None

    return convert_decimal


SPECIAL = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "+INF": math.inf,
    "-Infinity": -math.inf,
    "-INF": -math.inf,
}


def as_float(value: Any, problems: list[str]) -> Any:
    if type(value) is float or type(value) is FloatText:
        return float(value)
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, value)
    if type(value) is str and value in SPECIAL:
        return SPECIAL[value]
    raise misfit(value, "a number")


def as_boolean(value: Any, problems: list[str]) -> Any:
    if type(value) is not bool:
        raise misfit(value, "true or false")
    return value


def as_string(value: Any, problems: list[str]) -> Any:
    """Texts as they are, everything else as JSON, with fractions as Java writes them."""
    return as_utf8(value) if type(value) is str else json_text(value, java_float)


def as_utf8(text: str) -> str:
    """Half a pair of surrogates, which JSON can name and UTF-8 has not, is a question mark, as in Java."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


SPACES = dict.fromkeys(range(33))


def as_binary(value: Any, problems: list[str]) -> Any:
    if type(value) is not str:
        raise misfit(value, "base64")
    try:
        return base64.b64decode(value.translate(SPACES), validate=True)
    except (binascii.Error, ValueError):
        raise misfit(value, "base64") from None


def as_variant(value: Any, problems: list[str]) -> Any:
    from pyspark.sql.types import VariantVal

    try:
        found = VariantVal.parseJson(json_text(value))
    except Exception:  # whatever Spark's builder raises for what a variant cannot hold
        raise misfit(value, "what a variant can hold") from None
    return {"value": bytes(found.value), "metadata": bytes(found.metadata)}


def as_nothing(value: Any, problems: list[str]) -> Any:
    raise misfit(value, "null")


# -- times

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
LOCAL_EPOCH = EPOCH.replace(tzinfo=None)
MICROS_MAX = (1 << 63) - 1
INTEGER = re.compile(r"[+-]?\d{1,30}", re.ASCII)
DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?([^\d.].*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
OFFSET_S_MAX = 18 * 3600
OFFSET_MAX, NO_TIME = datetime.timedelta(seconds=OFFSET_S_MAX), datetime.timedelta()


def as_timestamp(value: Any, problems: list[str]) -> Any:
    """Microseconds, or a datetime; a number is in seconds."""
    if type(value) is str:
        found = common_time(value)
        if found is not None and (found.tzinfo is None or is_near(found.tzinfo)):
            return found if found.tzinfo is not None else found.replace(tzinfo=datetime.UTC)
        micros = micros_of(value, zoned=True)
    elif type(value) is int:
        micros = value * 1_000_000
    else:
        raise misfit(value, "a timestamp")
    if not -MICROS_MAX <= micros <= MICROS_MAX:
        raise misfit(value, "a timestamp")
    return micros


def as_local_timestamp(value: Any, problems: list[str]) -> Any:
    if type(value) is not str:
        raise misfit(value, "a timestamp without a zone")
    found = common_time(value)
    return found if found is not None and found.tzinfo is None else micros_of(value, zoned=False)


def common_time(text: str) -> datetime.datetime | None:
    """Of a text in the common form, ten times as fast as the others."""
    if len(text) < 19 or not text[4] == "-" == text[7] or not text[13] == ":" == text[16]:
        return None
    if "," in text or text[11:13] == "24":  # which Spark does not take
        return None
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def is_near(zone: datetime.tzinfo) -> bool:
    return zone is datetime.UTC or abs(zone.utcoffset(None) or NO_TIME) <= OFFSET_MAX


def micros_of(text: str, zoned: bool) -> int:
    """Since 1970, of a text as `cast(... as timestamp)` takes it."""
    match = TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise misfit(text, "a timestamp")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    hours, minutes, seconds = int(hour or 0), int(minute or 0), int(second or 0)
    if hours > 23 or minutes > 59 or seconds > 59 or (zone and not zoned):
        raise misfit(text, "a timestamp")
    days = days_of(text, year, month, day)
    local = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    offset = offset_of(zone.strip(), local) if zone else 0
    if offset is None:
        raise misfit(text, "a timestamp")
    return (local - offset) * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))


def as_date(value: Any, problems: list[str]) -> Any:
    """Days, or a date."""
    if type(value) is str and len(value) == 10 and value[4] == "-" == value[7]:
        try:
            return datetime.date.fromisoformat(value)
        except ValueError:
            pass
    match = DATE.fullmatch(value.strip()) if type(value) is str else None
    if match is None:
        raise misfit(value, "a date")
    return days_of(value, *match.groups())


def as_json_date(value: Any, problems: list[str]) -> Any:
    """As Spark 1.5 wrote it, too: a number of days, as text."""
    try:
        return as_date(value, problems)
    except Misfit:
        if type(value) is str and INTEGER.fullmatch(value) and -(1 << 31) <= int(value) < 1 << 31:
            return int(value)
        raise


def days_of(text: str, year: str, month: str | None, day: str | None) -> int:
    """Days since 1970 in the Gregorian calendar, which has no bounds here."""
    y, m, d = int(year), int(month or 1), int(day or 1)
    if not 1 <= m <= 12 or not 1 <= d <= days_in(y, m):
        raise misfit(text, "a day of the calendar")
    y -= m <= 2  # a year that begins in March has its odd day at the end
    era, of_era = divmod(y, 400)
    of_year = (153 * (m + (-3 if m > 2 else 9)) + 2) // 5 + d - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def days_in(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def offset_of(zone: str, local_s: int) -> int | None:
    """Seconds that a zone is before UTC at some local time."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = OFFSET.fullmatch(zone)
    if match is not None:
        sign, hours, minutes, seconds = match.groups()
        offset = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
        if offset > OFFSET_S_MAX or int(minutes or 0) > 59 or int(seconds or 0) > 59:
            return None
        return -offset if sign == "-" else offset
    region = region_of(zone)
    try:
        moment = LOCAL_EPOCH + datetime.timedelta(seconds=local_s)
    except OverflowError:
        return None
    found = None if region is None else moment.replace(tzinfo=region).utcoffset()
    return None if found is None else int(found.total_seconds())


@lru_cache(100)
def region_of(name: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError):  # no zone, or no name of a file
        return None
    except Exception:  # ZoneInfoNotFoundError, a KeyError
        return None


SIMPLE: tuple[tuple[Callable[[pa.DataType], Any], Convert], ...] = (
    (pa.types.is_boolean, as_boolean),
    (pa.types.is_floating, as_float),
    (pa.types.is_string, as_string),
    (pa.types.is_large_string, as_string),
    (pa.types.is_binary, as_binary),
    (pa.types.is_large_binary, as_binary),
    (pa.types.is_date, as_json_date),
    (pa.types.is_null, as_nothing),
)


# -- JSON as text


def json_text(value: Any, float_text: Callable[[float | FloatText], str] = str) -> str:
    """A value of JSON as text, without spaces."""
    if isinstance(value, float | FloatText):
        return float_text(value)
    if isinstance(value, str):
        return encode_basestring(as_utf8(value))
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        fields = (
            f"{encode_basestring(as_utf8(name))}:{json_text(item, float_text)}"
            for name, item in value.items()
        )
        return "{" + ",".join(fields) + "}"
    if isinstance(value, list):
        return "[" + ",".join(json_text(item, float_text) for item in value) + "]"
    return str(value)


def java_float(value: float | FloatText) -> str:
    """1.0E8 for 1e8, and so on; what is no number stands in quotes."""
    number = float(value)
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    figures = "".join(map(str, digits))
    power = exponent + len(figures) - 1
    return f"{'-' if sign else ''}{figures[0]}.{figures[1:] or '0'}E{power}"


# -- CSV

CSV_SPECIAL = {
    "NaN": math.nan,
    **dict.fromkeys(("Inf", "Infinity", "+Infinity"), math.inf),
    **dict.fromkeys(("-Inf", "-Infinity"), -math.inf),
}
DOUBLE = re.compile(rf"{NUMBER.pattern}[dDfF]?", re.ASCII)


def text_converter(kind: pa.DataType) -> Convert | None:
    """For fields of CSV; None: there is no way to read such a type."""
    if pa.types.is_boolean(kind):
        return text_as_boolean
    if pa.types.is_integer(kind):
        convert = integer_converter(kind)
        return lambda text, problems: convert(int(text) if INTEGER.fullmatch(text) else text, problems)
    if pa.types.is_floating(kind):
        return text_as_float
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda text, problems: text.encode("utf-8", "replace")
    if is_variant(kind) or pa.types.is_nested(kind):
        return None
    return as_date if pa.types.is_date(kind) else converter(kind)


def text_as_boolean(text: Any, problems: list[str]) -> Any:
    if text.lower() not in ("true", "false"):
        raise misfit(text, "true or false")
    return text.lower() == "true"


def text_as_float(text: Any, problems: list[str]) -> Any:
    if text in CSV_SPECIAL:
        return CSV_SPECIAL[text]
    stripped = text.strip()
    if not DOUBLE.fullmatch(stripped):
        raise misfit(text, "a number")
    return float(stripped.rstrip("dDfF"))
