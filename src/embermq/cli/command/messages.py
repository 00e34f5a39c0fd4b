"""`embermq publish` and `embermq consume`: messages from and to the terminal, over AMQP."""

from __future__ import annotations

import argparse
import base64
import fcntl
import json
import os
import re
import select
import stat
import sys
import termios
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

from embermq.cli.api import Api
from embermq.cli.commands import VHOST, Commands, add_command, argument, named_values
from embermq.cli.errors import DENIED, NOT_FOUND, REFUSED, UNREACHABLE, USAGE_ERROR, CommandFailed
from embermq.cli.output import Output, counted
from embermq.cli.parser import COUNT, number

PRIORITY_MAX = 255
PREFETCH_MAX = 65535
PREFETCH_MAX = 65535
READ_POLL_S = 0.0002
AMQP_PORT = 5672  # where the management does not say another
OFFSET = re.compile(r"first|last|next|\d+|\d+[YMDhms]")
AMQP_URL = argument(
    "--amqp-url", metavar="URL", help="where AMQP is (EMBERMQ_AMQP_URL; else the management tells, or 5672)"
)


def add_publish(commands: Commands) -> None:
    add_command(
        commands,
        "publish",
        publish,
        "publish messages and wait until the broker has taken them",
        argument(
            "body", metavar="BODY", nargs="?", help="the body; without it each line of standard input is one"
        ),
        argument("--exchange", "-e", metavar="X", default="", help="exchange (the default one)"),
        argument(
            "--routing-key", "-k", metavar="KEY", default="", help="routing key, or the name of a queue"
        ),
        VHOST,
        argument(
            "--header", metavar="NAME=VALUE", action="append", default=[], help="a header; may be repeated"
        ),
        argument("--content-type", metavar="T", help="for example application/json"),
        argument("--transient", action="store_true", help="need not survive a restart of the broker"),
        argument("--expiration", metavar="MS", help="time to live in milliseconds"),
        argument("--priority", metavar="N", type=number(0, PRIORITY_MAX), help="0 to 255"),
        argument("--mandatory", action="store_true", help="fail when a message reaches no queue"),
        AMQP_URL,
    )


def add_consume(commands: Commands) -> None:
    add_command(
        commands,
        "consume",
        consume,
        "print messages as they come, a line each; Ctrl-C ends it",
        argument("queue", metavar="QUEUE"),
        VHOST,
        argument("--count", "-n", metavar="N", type=COUNT, help="end after so many"),
        argument("--timeout", metavar="S", type=number(0, kind=float), help="end when nothing came so long"),
        argument("--offset", metavar="O", help="of a stream: first, last, next, a number, or 1h (next)"),
        argument("--where", metavar="CONDITION", help="only messages for which this selector is true"),
        argument("--requeue", action="store_true", help="give them back instead of taking them"),
        argument(
            "--prefetch",
            metavar="N",
            type=number(0, PREFETCH_MAX),
            default=1000,
            help="so many on the way at once (1000)",
        ),
        AMQP_URL,
    )


def amqp_url(api: Api, options: argparse.Namespace) -> str:
    """Where AMQP is: as said, or beside the management's address."""
    vhost = quote(options.vhost, safe="")
    url = options.amqp_url or os.environ.get("EMBERMQ_AMQP_URL")
    if url:
        parts = urlsplit(url)
        return with_login(url if parts.path not in ("", "/") else f"{url.rstrip('/')}/{vhost}", api)
    port = AMQP_PORT
    for listener in listeners(api):
        if listener["protocol"] == "amqp":
            port = listener["port"]
    host = f"[{api.host}]" if ":" in api.host else api.host
    return with_login(f"amqp://{host}:{port}/{vhost}", api)


def listeners(api: Api) -> list[Any]:
    """As far as this user may know: applications need not be let into the management."""
    try:
        found: list[Any] = api.get("/api/overview").get("listeners", [])
    except CommandFailed as failed:
        if failed.code == DENIED and "may not" in str(failed):
            return []
        raise
    return found


def with_login(url: str, api: Api) -> str:
    """An address of AMQP with the user and password that hold for this command, if it has none of its own."""
    scheme, _, rest = url.partition("://")
    if "@" in urlsplit(url).netloc:
        return url
    return f"{scheme}://{quote(api.user, safe='')}:{quote(api.password, safe='')}@{rest}"


def tell_of_waiting(reason: str) -> None:
    text = f"the broker takes no messages now ({reason}); waiting until it does, Ctrl-C ends this"
    print(f"embermq: {text}", file=sys.stderr, flush=True)


def connected(api: Api, options: argparse.Namespace) -> Any:
    from embermq.client import AuthenticationFailed, ClientError, connect

    try:
        connection = connect(amqp_url(api, options), name="embermq command line", reconnect=False)
        connection.on_blocked = tell_of_waiting
        return connection
    except AuthenticationFailed as error:
        raise CommandFailed(str(error), DENIED) from None
    except ClientError as error:
        raise CommandFailed(f"{error}; --amqp-url says where AMQP is", UNREACHABLE) from None


def failure(error: Exception) -> CommandFailed:
    from embermq.client import NotFound

    text = getattr(error, "reply_text", "") or str(error)
    return CommandFailed(text, NOT_FOUND if isinstance(error, NotFound) else REFUSED)


def bodies(options: argparse.Namespace) -> Iterator[str]:
    if options.body is not None:
        yield options.body
        return
    for line in sys.stdin:
        yield line.rstrip("\n")


def publish(api: Api, output: Output, options: argparse.Namespace) -> None:
    from embermq.client import ClientError, Properties, PublishFailed

    headers = named_values("header", options.header)
    properties = Properties(
        content_type=options.content_type,
        headers=headers or None,
        delivery_mode=1 if options.transient else 2,
        priority=options.priority,
        expiration=options.expiration,
    )
    count = lost = 0

    def noted() -> Iterator[str]:
        nonlocal count
        for body in bodies(options):
            count += 1
            yield body

    with connected(api, options) as connection:
        try:
            with connection.channel() as channel:
                channel.publish_batch(
                    noted(),
                    options.routing_key,
                    options.exchange,
                    properties=properties,
                    mandatory=True,  # or we would not be told
                )
        except PublishFailed as error:
            lost = len(error.returned)
            if options.mandatory or error.nacked:
                raise failure(error) from None
        except ClientError as error:
            raise failure(error) from None
    if lost:
        where = f"exchange '{options.exchange}'" if options.exchange else "the default exchange"
        nowhere = f"; {lost:,} reached no queue: nothing is bound to {where} with key '{options.routing_key}'"
        output.said(f"{counted(count, 'message')} published{nowhere}", published=count, unroutable=lost)
    else:
        output.said(f"{counted(count, 'message')} published and confirmed", published=count, unroutable=0)


def stream_offset(text: str) -> int | str:
    if not OFFSET.fullmatch(text):
        expected = "first, last, next, a number, or how long ago: 30m, 1h, 7D"
        raise CommandFailed(f"--offset is {text!r}; expected {expected}", USAGE_ERROR)
    return int(text) if text.isdecimal() else text


def consume(api: Api, output: Output, options: argparse.Namespace) -> None:
    from embermq.client import ClientError

    arguments: dict[str, object] = {}
    if options.offset is not None:
        arguments["x-stream-offset"] = stream_offset(options.offset)
    prefetch = prefetch_for(options.count, options.prefetch, options.requeue)
    shown = 0
    with connected(api, options) as connection:
        try:
            channel = connection.channel(prefetch=prefetch, confirms=False)
            messages = channel.consume(
                options.queue, selector=options.where, arguments=arguments, timeout_s=options.timeout
            )
            if options.count is not None and options.count <= 0:
                return
            shown = show(messages, output, options, prefetch)
            channel.close()  # with --requeue all come back together, each to its place
        except ClientError as error:
            raise failure(error) from None
    if not shown or (options.count is not None and shown < options.count):
        some = f"only {shown:,} of {options.count:,} messages" if shown else "no message"
        raise CommandFailed(f"{some} came from '{options.queue}' within {options.timeout:g} s")


def await_reader() -> None:
    """Wait until what was printed into a pipe has been read out of it.

    `embermq consume -n 100 | head -3` must not take a hundred messages: `head` gets one line at a time, and
    the line behind the last that it wanted meets a closed pipe before its message is acked.
    """
    try:
        descriptor = sys.stdout.fileno()
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return
    except OSError:  # io.UnsupportedOperation is one: it is no file at all
        return
    unread = bytearray(4)
    poller = select.poll()
    poller.register(descriptor, 0)  # POLLERR is told in any case: the reader has gone
    while True:
        fcntl.ioctl(descriptor, termios.FIONREAD, unread)
        if not any(unread):
            return
        if poller.poll(0):
            raise BrokenPipeError
        time.sleep(READ_POLL_S)


def prefetch_for(count: int | None, prefetch: int, requeue: bool) -> int:
    """So many messages on the way at once; never more than are wanted: others may want the rest."""
    if count is None or count <= 0:
        return prefetch
    if requeue and count > PREFETCH_MAX:
        return 0  # no limit: none is acknowledged before the last one has come
    return min(count, PREFETCH_MAX if requeue or not prefetch else prefetch)


def show(messages: Any, output: Output, options: argparse.Namespace, prefetch: int) -> int:
    """Print messages until it is enough; how many.

    Acks of the last ones wait for the end: for each of them the broker would send another message.
    """
    shown, unacked = 0, None
    try:
        for message in messages:
            print(line_of(message, output), flush=True)
            await_reader()
            shown += 1
            if not options.requeue:
                if options.count is None or shown + prefetch <= options.count:
                    message.ack()
                else:
                    unacked = message
            if shown == options.count:
                break
    finally:
        messages.cancel()
        if unacked is not None:
            unacked.ack(multiple=True)
    return shown


def line_of(message: Any, output: Output) -> str:
    """One message in one line: the body, or with --json everything."""
    try:
        body, encoding = message.body.decode(), "string"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(message.body).decode(), "base64"
    if not output.as_json:
        return body if encoding == "string" else f"base64:{body}"
    properties = message.properties
    named = {name: getattr(properties, name) for name in type(properties).__slots__}
    shown = {
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "redelivered": message.redelivered,
        "properties": {name: value for name, value in named.items() if value is not None},
        "body": body,
        "encoding": encoding,
    }
    return json.dumps(shown, ensure_ascii=False, default=str)
