"""Options of the data source: read once, checked on the driver, errors as sentences.

Spark hides the values of options that are called url or password in plans and in its UI; `Options` shows
neither in its own texts.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from pyspark_embermq.errors import AMQPSourceError

FORMATS = ("binary", "text", "json", "csv", "avro", "protobuf", "msgpack", "cloudevents")
AS_THEY_ARE = ("binary", "text")  # the formats in which a body is a column
CLOUD_EVENTS_MODES = ("binary", "structured")
MODES = ("browse", "drain", "lease")
DELIVERIES = ("at-least-once", "exactly-once")
ON_DECODE_ERROR = ("fail", "null", "dead-letter")
ON_RETURN = ("fail", "ignore")
SOURCES = ("queue", "queues", "subscribe_pattern", "super_stream")  # one of them says what is read
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DELAY = re.compile(
    r"(?P<number>\d+)\s*(?:(?P<ms>ms|milliseconds?)|(?P<s>s|seconds?)|(?P<m>m|min|minutes?)|(?P<h>h|hours?)"
    r"|(?P<d>d|days?))"
)
LEAST = {
    "min_partitions": 1,
    "prefetch": 0,
    "batch_rows": 1,
    "idle_timeout_ms": 1,
    "confirm_timeout_ms": 1,
    "lease_timeout_ms": 0,
    "max_records_per_trigger": 0,
    "max_bytes_per_trigger": 0,
    "max_records_per_second": 0,
    "schema_id": 0,
    "min_offsets_per_trigger": 0,
}


@dataclass(frozen=True)
class Options:
    """Everything that can be said with `.option(name, value)`, under Python's names."""

    url: str = "amqp://guest:guest@localhost:5672/%2f"
    # reading
    queue: str = ""
    queues: str = ""
    subscribe_pattern: str = ""
    super_stream: str = ""
    binding_keys: str = "#"
    queue_arguments: str = '{"x-queue-type": "stream"}'
    query_name: str = ""
    mode: str = "browse"
    delivery: str = "at-least-once"
    starting_offsets: str = "earliest"
    ending_offsets: str = "latest"
    max_records_per_trigger: int = 0
    max_bytes_per_trigger: int = 0
    max_records_per_second: int = 0
    min_offsets_per_trigger: int = 0
    max_trigger_delay: str = "15m"
    min_partitions: int = 1
    fail_on_data_loss: bool = True
    prefetch: int = 0  # by the kind of broker
    batch_rows: int = 10_000
    idle_timeout_ms: int = 10_000
    lease_timeout_ms: int = 0  # never
    lease_name: str = ""
    http_url: str = ""  # of before, when leases went over HTTP: accepted, not used
    push_filters: bool = False
    selector: str = ""
    stream_filter: str = ""
    stream_filter_unfiltered: bool = False
    stream_filter_headers: str = ""
    # bodies
    format: str = "binary"
    metadata_prefix: str = "_"
    on_decode_error: str = "fail"
    corrupt_column: str = "_corrupt_record"
    dead_letter_exchange: str = ""
    dead_letter_routing_key: str = ""
    avro_schema: str = ""
    schema_registry: str = ""
    schema_subject: str = ""
    schema_id: int = 0
    protobuf_descriptor: str = ""
    protobuf_message: str = ""
    cloud_events_mode: str = "binary"
    csv_separator: str = ","
    # writing
    exchange: str = ""
    routing_key: str = ""
    mandatory: bool = True
    on_return: str = "fail"
    persistent: bool = True
    content_type: str = ""
    deduplicate: bool = False
    writer_id: str = ""
    confirm_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        for name, allowed in (
            ("format", FORMATS),
            ("mode", MODES),
            ("delivery", DELIVERIES),
            ("on_decode_error", ON_DECODE_ERROR),
            ("on_return", ON_RETURN),
            ("cloud_events_mode", CLOUD_EVENTS_MODES),
        ):
            if getattr(self, name) not in allowed:
                raise AMQPSourceError(
                    f"option {spark_name(name)!r} is {getattr(self, name)!r}; "
                    f"expected one of {', '.join(allowed)}"
                )
        for name, least in LEAST.items():
            if getattr(self, name) < least:
                raise AMQPSourceError(
                    f"option {spark_name(name)!r} is {getattr(self, name)}; expected {least} or more"
                )
        if self.max_records_per_trigger and self.min_offsets_per_trigger > self.max_records_per_trigger:
            raise AMQPSourceError(
                f"option 'minOffsetsPerTrigger' is {self.min_offsets_per_trigger}, more than "
                f"'maxRecordsPerTrigger', {self.max_records_per_trigger}"
            )
        milliseconds(self.max_trigger_delay)
        if len(self.csv_separator) != 1:
            raise AMQPSourceError(f"option 'csvSeparator' is {self.csv_separator!r}; expected one character")
        sources = [name for name in SOURCES if getattr(self, name)]
        if len(sources) > 1:
            first, second = (spark_name(name) for name in sources[:2])
            raise AMQPSourceError(f"option {first!r} or option {second!r}, not both")
        if self.on_decode_error == "dead-letter" and not self.dead_letter_exchange:
            raise AMQPSourceError(
                "option 'onDecodeError' is 'dead-letter': say where to with option 'deadLetterExchange'"
            )
        if self.mode == "lease" and not self.lease_name:
            raise AMQPSourceError("option 'mode' is 'lease': give it a name with option 'leaseName'")
        if self.format == "protobuf" and not (self.protobuf_descriptor and self.protobuf_message):
            raise AMQPSourceError(
                "option 'format' is 'protobuf': give a descriptor set (protoc --include_imports "
                "--descriptor_set_out=FILE) in option 'protobufDescriptor' and the name of the message in "
                "'protobufMessage'"
            )

    @property
    def place(self) -> str:
        """The broker, fit to be shown: without user and password."""
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))

    @property
    def column_prefix(self) -> str:
        """What the names of metadata columns begin with: the others are fields of the body."""
        return "" if self.format in AS_THEY_ARE else self.metadata_prefix

    @property
    def queue_names(self) -> list[str]:
        """Those that are read, each once, in the order given."""
        return list(dict.fromkeys(names_from(self.queues or self.queue)))

    @property
    def has_stream_filter(self) -> bool:
        return bool(self.stream_filter or self.stream_filter_headers)

    @property
    def stream_filter_arguments(self) -> dict[str, object]:
        """What a consumer of a stream is given so that the broker sends only some messages."""
        found: dict[str, object] = {}
        if self.stream_filter:
            found["x-stream-filter"] = names_from(self.stream_filter)
            found["x-stream-match-unfiltered"] = self.stream_filter_unfiltered
        if self.stream_filter_headers:
            found["x-stream-filter-headers"] = json_object("streamFilterHeaders", self.stream_filter_headers)
        return found

    @property
    def vhost(self) -> str:
        return unquote(urlsplit(self.url).path[1:]) or "/"

    def __repr__(self) -> str:
        return f"<amqp options for {self.place}>"  # a URL may hold a password


def names_from(text: str) -> list[str]:
    """a, b -> a and b; of names with commas or spaces around them a JSON list: ["a, b", " c"]"""
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except ValueError:
            found = None  # the name of a queue may begin like that
        if isinstance(found, list) and all(isinstance(name, str) for name in found):
            return [name for name in found if name]
    return [name.strip() for name in text.split(",") if name.strip()]


def milliseconds(delay: str) -> int:
    """15m, 30 seconds, 500ms: as Kafka's users and Spark's write it."""
    found = DELAY.fullmatch(delay.strip().lower())
    if found is None:
        raise AMQPSourceError(
            f"option 'maxTriggerDelay' is {delay!r}; expected a number and ms, s, m, h or d: 15m, 30 seconds"
        )
    return int(found["number"]) * next(ms for unit, ms in UNITS.items() if found[unit])


def json_object(option: str, text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise AMQPSourceError(f"option {option!r} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise AMQPSourceError(f"option {option!r} is {text!r}; expected a JSON object")
    return found


def spark_name(name: str) -> str:
    """starting_offsets -> startingOffsets"""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


# Under the name in lower case: Spark's options know no other.
KINDS: dict[str, tuple[str, type]] = {
    spark_name(field.name).lower(): (field.name, type(field.default)) for field in fields(Options)
}
# As Kafka's users know it.
KINDS["maxoffsetspertrigger"] = KINDS["maxrecordspertrigger"]
# Further names: for the URL's parts, and the one that `load("name")` and `CREATE TABLE ... LOCATION` give.
USER, PASSWORD, PATH = "user", "password", "path"
# Spark adds options of its own to those of the user.
SPARKS_OWN = ("__", "spark.", "option.", "checkpointlocation")
# And what its catalog keeps of a table: `CREATE TABLE ... USING amqp` hands it on with the options.
OF_TABLES = {
    "provider",
    "owner",
    "comment",
    "location",
    "external",
    "is_managed_location",
    "table_type",
    "collation",
}


def options_from(given: Mapping[str, str]) -> Options:
    values: dict[str, object] = {}
    others: dict[str, str] = {}
    for name, text in given.items():
        lower = name.lower()
        if lower in KINDS:
            field_name, kind = KINDS[lower]
            values[field_name] = converted(spark_name(field_name), text, kind)
        elif lower in (USER, PASSWORD, PATH):
            others[lower] = text
        elif not lower.startswith(SPARKS_OWN) and lower not in OF_TABLES:
            raise unknown_option(name)
    if PATH in others and not any(name in values for name in SOURCES):
        values["queue"] = others[PATH]
    if USER in others or PASSWORD in others:
        url = str(values.get("url", Options.url))
        user = others.get(USER) or unquote(urlsplit(url).username or "guest")
        values["url"] = with_credentials(url, user, others.get(PASSWORD, ""))
    return Options(**values)  # type: ignore[arg-type]


def unknown_option(name: str) -> AMQPSourceError:
    known = {
        spark.lower(): spark
        for spark in (*(spark_name(field.name) for field in fields(Options)), USER, PASSWORD)
    }
    likely = difflib.get_close_matches(name.lower(), known, 1)
    hint = f" Did you mean {known[likely[0]]!r}?" if likely else ""
    return AMQPSourceError(
        f"there is no option {name!r}.{hint} The options are {', '.join(sorted(known.values()))}"
    )


def converted(name: str, text: str, kind: type) -> object:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise AMQPSourceError(f"option {name!r} is {text!r}; expected true or false")
        return text.lower() == "true"
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise AMQPSourceError(f"option {name!r} is {text!r}; expected a whole number") from None
    return text


def with_credentials(url: str, user: str, password: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{host}"
    return urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))
