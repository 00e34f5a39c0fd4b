"""One broker's side of a comparison: run a program, write down everything that can be seen.

Brokers do some things when they like (deliveries, confirms, dead letters), so after each step we wait until
all is quiet: every open channel has answered a question, and the queues have told the same counts twice while
nothing else came. What a step caused is then written down with that step, by connection and channel.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.support.raw_frames import raw_frame
from tools.brokers import Broker
from tools.differ.codec import METHODS
from tools.differ.link import Gone, Link, Seen
from tools.differ.normal import Anonymous
from tools.differ.observer import Observer
from tools.differ.program import Program, Step
from tools.differ.web import Web

PROBE = "differ.probe"
SILENCE_SECONDS = 3.0
CONFIRM_SECONDS_MAX = 5.0
QUIET_ROUNDS = 2
EXPECTED_SECONDS_MAX = 20.0
AFTER_DROP_ROUNDS, AFTER_DROP_PAUSE_S = 5, 0.02
QUIET_PAUSE_S = 0.05
Address = tuple[int, int]
Told = dict[str, Any]
CLOSES = ("channel.close", "connection.close")


class ChannelState:
    """What the program's own side must remember of a channel."""

    def __init__(self) -> None:
        self.outstanding: list[int] = []
        self.no_ack: dict[str, bool] = {}
        self.asked_no_ack = False
        self.confirming = False
        self.published = 0
        self.confirmed = 0


class Side:
    """A broker to run programs against."""

    def __init__(self, broker: Broker, vhost: str = "/", restart: Callable[[], object] | None = None) -> None:
        """`restart` takes the place of the broker's own when several sides share a broker."""
        self.broker, self.vhost = broker, vhost
        self.restart_broker = restart or broker.restart
        self.observer = Observer(broker.port, vhost)
        self.observed = broker.pid
        self.web = Web(broker.http_port)
        if broker.http_port and vhost == "/":
            self.web.prepare()

    def run(self, program: Program, expected: list[Told] | None = None) -> list[Told]:
        """What was seen, step by step; the last entry is what is left in the end.

        With `expected` a step is waited for until what it says has been seen, however slow the machine.
        """
        if self.observed != self.broker.pid:  # another side has had the broker restarted
            self.observe_again()
        run = Run(self)
        transcript: list[Told] = []
        try:
            for number, step in enumerate(program):
                transcript.append(run.do(step, None if expected is None else expected[number]))
            transcript.append(run.end(None if expected is None else expected[-1]))
        finally:
            run.drop_all()
            self.observer.clean(run.names)
            self.web.clean()
        return transcript

    def restart(self) -> None:
        self.restart_broker()
        self.observe_again()

    def observe_again(self) -> None:
        self.observer.reconnect()
        self.observed = self.broker.pid

    def close(self) -> None:
        self.observer.close()


class Run:
    """One run of one program."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.links: dict[int, Link] = {}
        self.channels: dict[Address, ChannelState] = {}
        self.seen: dict[str, list[Any]] = {}
        self.confirms: dict[str, dict[int, str]] = {}
        self.events = 0
        self.names: set[str] = set()
        self.streams: set[str] = set()
        self.anonymous = Anonymous(side.vhost)
        self.quiet_rounds, self.pause_s = QUIET_ROUNDS, 0.0

    # -- steps

    def do(self, step: Step, expected: Told | None = None) -> Told:
        self.seen, self.confirms = {}, {}
        told: Told = {}
        if expected is not None:
            self.quiet_rounds = 1
        elif "quiet_ms" in step:
            self.pause_s = QUIET_PAUSE_S
            self.quiet_rounds = round(step["quiet_ms"] / 1000 / QUIET_PAUSE_S)
        if step["do"] == "restart":
            self.drop_all()
            self.side.restart()
        elif step["do"] == "sleep":
            time.sleep(step["ms"] / 1000)
            self.read_what_is_there()
        elif step["do"] == "http":
            told["http"] = self.side.web.ask(step)
        elif step["do"] == "drop":
            self.drop(step["on"][0])
        else:
            connection, channel = step["on"]
            try:
                self.ask(step, connection, channel)
            except Gone:
                self.forget(connection)
                self.note(connection, 0, ["gone"])
        deadline = time.monotonic() + EXPECTED_SECONDS_MAX
        while True:
            counts = self.settle()
            confirms = {"confirms": self.confirms} if self.confirms else {}
            seen: Told = self.anonymous(told | self.seen | confirms | {"queues": counts})
            if expected is None or seen == expected or time.monotonic() > deadline:
                return seen
            self.pause_s = AFTER_DROP_PAUSE_S

    def ask(self, step: Step, connection: int, channel: int) -> None:
        link = self.link(connection)
        address = connection, channel
        raw = step.get("raw", channel == 0 or step["do"] == "channel.open")
        if not raw and address not in self.channels:
            link.send(channel, "channel.open")
            self.wait(connection, channel, ("channel.open-ok",))
            self.seen.pop(f"{connection}.{channel}", None)
        if step["do"] == "frames":
            data = b"".join(
                raw_frame(kind, channel, bytes.fromhex(payload)) for kind, payload in step["frames"]
            )
            link.send_bytes(data)
            return
        name, fields = step["do"], dict(step["with"])
        if name == "queue.declare" and fields.get("arguments", {}).get("x-queue-type") == "stream":
            self.streams.add(fields["queue"])
        state = self.channels.get(address)
        if isinstance(fields.get("delivery-tag"), str):
            tag = self.resolve(fields["delivery-tag"], state)
            if tag is None:
                self.note(connection, channel, ["nothing to settle"])
                return
            fields["delivery-tag"] = tag
        if state is not None:
            self.prepare(state, name, fields)
        link.send(channel, name, fields, step.get("properties"), step.get("body", "").encode())
        responses = METHODS[name].responses
        if responses and not fields.get("no-wait"):
            self.wait(connection, channel, responses)

    @staticmethod
    def resolve(which: str, state: ChannelState | None) -> int | None:
        tags = state.outstanding if state is not None else []
        if not tags:
            return None
        return {"oldest": tags[0], "newest": tags[-1], "middle": tags[len(tags) // 2]}[which]

    @staticmethod
    def prepare(state: ChannelState, name: str, fields: dict[str, Any]) -> None:
        """Keep account of what the step will do to the channel."""
        if name == "basic.publish":
            state.published += state.confirming
        elif name == "basic.consume":
            state.no_ack[fields.get("consumer-tag", "")] = bool(fields.get("no-ack"))
        elif name == "basic.get":
            state.asked_no_ack = bool(fields.get("no-ack"))
        elif name in ("basic.ack", "basic.nack", "basic.reject"):
            tag, multiple = fields.get("delivery-tag", 0), fields.get("multiple", False)
            state.outstanding = [
                each
                for each in state.outstanding
                if not (each == tag or multiple and (each < tag or tag == 0))
            ]
        elif name in ("basic.recover", "basic.recover-async"):
            state.outstanding.clear()
        elif name == "confirm.select" and fields.get("no-wait"):
            state.confirming = True

    # -- reading

    def link(self, connection: int) -> Link:
        if connection not in self.links:
            self.links[connection] = Link(self.side.broker.port, self.side.vhost)
        return self.links[connection]

    def wait(self, connection: int, channel: int, names: tuple[str, ...]) -> None:
        """Read until one of these methods came on this channel, or it is closed, or nothing comes."""
        while connection in self.links:
            seen = self.links[connection].read(SILENCE_SECONDS)
            if seen is None:
                self.note(connection, channel, ["silence"])
                return
            self.came(connection, seen)
            if seen.channel == channel and (seen.name in names or seen.name in CLOSES):
                return

    def came(self, connection: int, seen: Seen) -> None:
        address = connection, seen.channel
        state = self.channels.get(address)
        if seen.name in ("basic.ack", "basic.nack") and state is not None:
            self.confirm(address, state, seen)
            return
        counts_stream = seen.name == "queue.declare-ok" and seen.fields["queue"] in self.streams
        if counts_stream or seen.name == "queue.delete-ok" and self.streams:
            seen.fields["message-count"] = None
        if counts_stream:
            seen.fields["consumer-count"] = 0
        self.note(connection, seen.channel, seen.told())
        if seen.name == "channel.open-ok":
            self.channels[address] = ChannelState()
        elif seen.name == "channel.close-ok":
            self.channels.pop(address, None)
        elif seen.name == "channel.close":
            self.channels.pop(address, None)
            self.links[connection].send(seen.channel, "channel.close-ok")
        elif seen.name == "connection.close":
            self.links[connection].send(0, "connection.close-ok")
            self.forget(connection)
        elif seen.name == "connection.close-ok":
            self.forget(connection)
        elif state is not None:
            self.follow(state, seen)

    def follow(self, state: ChannelState, seen: Seen) -> None:
        fields = seen.fields
        if seen.name == "confirm.select-ok":
            state.confirming = True
        elif seen.name == "basic.consume-ok" and "" in state.no_ack:
            state.no_ack[fields["consumer-tag"]] = state.no_ack.pop("")
        elif (
            seen.name == "basic.deliver"
            and not state.no_ack.get(fields["consumer-tag"])
            or seen.name == "basic.get-ok"
            and not state.asked_no_ack
        ):
            state.outstanding.append(fields["delivery-tag"])
        elif seen.name == "queue.declare-ok":
            self.names.add(fields["queue"])

    def confirm(self, address: Address, state: ChannelState, seen: Seen) -> None:
        """How confirms are grouped is the broker's business."""
        known = self.confirms.setdefault("{}.{}".format(*address), {})
        tag = seen.fields["delivery-tag"]
        first = state.confirmed + 1 if seen.fields["multiple"] else tag
        for number in range(first, tag + 1):
            known[number] = seen.name
        state.confirmed = max(state.confirmed, tag)
        self.events += 1

    def note(self, connection: int, channel: int, told: list[Any]) -> None:
        self.seen.setdefault(f"{connection}.{channel}", []).append(told)
        self.events += 1

    # -- waiting until all is quiet

    def settle(self) -> Told:
        quiet, last = 0, None
        counts: Told = {}
        deadline = time.monotonic() + CONFIRM_SECONDS_MAX
        while quiet < self.quiet_rounds:
            before = self.events
            for connection in list(self.links):
                self.probe(connection)
            if self.pause_s:
                time.sleep(self.pause_s)
            counts = self.counts()
            quiet = quiet + 1 if counts == last and self.events == before else 0
            last = counts
            if self.waits_for_confirms() and time.monotonic() < deadline:
                quiet = 0
        self.quiet_rounds, self.pause_s = QUIET_ROUNDS, 0.0
        return counts

    def counts(self) -> Told:
        """How many messages and consumers a stream has, RabbitMQ 3.10 does not tell by AMQP: it says 0."""
        counts = self.side.observer.counts()
        return {
            name: [None, 0] if name in self.streams and isinstance(told, list) else told
            for name, told in counts.items()
        }

    def waits_for_confirms(self) -> bool:
        return any(state.confirmed < state.published for state in self.channels.values())

    def probe(self, connection: int) -> None:
        """Ask what changes nothing on every open channel, and read all that comes before the answers."""
        numbers = {channel for number, channel in self.channels if number == connection}
        if not numbers:
            return
        try:
            for channel in numbers:
                self.links[connection].send(channel, "basic.cancel", {"consumer-tag": PROBE})
            while numbers and connection in self.links:
                seen = self.links[connection].read(SILENCE_SECONDS)
                if seen is None:
                    self.note(connection, 0, ["no answer to the probe"])
                    self.forget(connection)
                    return
                if seen.name == "basic.cancel-ok" and seen.fields["consumer-tag"] == PROBE:
                    numbers.discard(seen.channel)
                    continue
                self.came(connection, seen)
                if seen.name == "channel.close":
                    numbers.discard(seen.channel)
        except Gone:
            self.forget(connection)
            self.note(connection, 0, ["gone"])

    def read_what_is_there(self) -> None:
        for connection in list(self.links):
            try:
                while connection in self.links and (seen := self.links[connection].read(0.001)) is not None:
                    self.came(connection, seen)
            except Gone:
                self.forget(connection)
                self.note(connection, 0, ["gone"])

    # -- the end

    def drop(self, connection: int) -> None:
        self.forget(connection)
        self.quiet_rounds, self.pause_s = AFTER_DROP_ROUNDS, AFTER_DROP_PAUSE_S

    def forget(self, connection: int) -> None:
        link = self.links.pop(connection, None)
        if link is not None:
            link.drop()
        self.channels = {
            address: state for address, state in self.channels.items() if address[0] != connection
        }

    def drop_all(self) -> None:
        for connection in list(self.links):
            self.forget(connection)

    def end(self, expected: Told | None = None) -> Told:
        """All connections closed as is proper; then what queues still hold, and which exchanges there are."""
        self.seen, self.confirms = {}, {}
        for connection in list(self.links):
            try:
                self.links[connection].send(0, "connection.close", {"reply-code": 200})
                self.wait(connection, 0, ("connection.close-ok",))
            except Gone:
                self.forget(connection)
        if expected is None:
            self.quiet_rounds, self.pause_s = AFTER_DROP_ROUNDS, AFTER_DROP_PAUSE_S
        counts = self.settle()
        deadline = time.monotonic() + EXPECTED_SECONDS_MAX
        while expected is not None and counts != expected["queues"] and time.monotonic() < deadline:
            counts = self.settle()
        left: Told = self.anonymous({"queues": counts} | self.side.observer.remains())
        return left
