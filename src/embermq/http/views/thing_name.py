"""Names that come by HTTP, checked: valid Unicode, no longer than AMQP's short string."""

from __future__ import annotations

from embermq.http.server.request import bad_request

NAME_BYTES_MAX = 255


def clean(name: str) -> str:
    """A name as it is kept, without line breaks as RabbitMQ has it."""
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        raise bad_request("a name is not valid Unicode") from None
    if size > NAME_BYTES_MAX:
        raise bad_request(f"a name is longer than {NAME_BYTES_MAX} bytes")
    return name.replace("\r", "").replace("\n", "")
