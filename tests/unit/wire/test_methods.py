"""Methods: what goes out comes in again, and what is broken is refused with the right reply code."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embermq.errors import AMQPError, NotImplementedYet, SyntaxFault
from embermq.wire import methods as generated
from embermq.wire.methods import (
    METHODS,
    BasicAck,
    BasicCancel,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    ConfirmSelect,
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    TxSelect,
    decode_method,
)
from tests.support.wire_strategies import DEFINITIONS, methods, methods_of

METHOD_IDS = sorted(DEFINITIONS)


def names(method_id: int) -> str:
    return DEFINITIONS[method_id].full_name


@pytest.mark.parametrize("method_id", METHOD_IDS, ids=names)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_method_comes_back_as_it_was(method_id: int, data: st.DataObject) -> None:
    method = data.draw(methods_of(method_id))
    payload = method.encode()
    decoded = decode_method(payload, 0, len(payload))
    assert type(decoded) is METHODS[method_id]
    assert decoded == method
    assert decoded.encode() == payload


@settings(max_examples=60, deadline=None)
@given(methods, st.binary(max_size=9), st.binary(max_size=9))
def test_a_method_is_found_inside_a_larger_buffer(method: Method, before: bytes, after: bytes) -> None:
    payload = method.encode()
    buffer = bytearray(before + payload + after)
    assert decode_method(buffer, len(before), len(before) + len(payload)) == method


@settings(max_examples=100, deadline=None)
@given(methods)
def test_every_truncation_is_a_syntax_fault(method: Method) -> None:
    payload = method.encode()
    for cut in range(len(payload)):
        with pytest.raises(SyntaxFault):
            decode_method(payload[:cut], 0, cut)
        with pytest.raises(SyntaxFault):  # the missing bytes are there, but behind the end
            decode_method(payload, 0, cut)


@settings(max_examples=60, deadline=None)
@given(methods, st.binary(min_size=1, max_size=9))
def test_bytes_after_the_arguments_are_a_syntax_fault(method: Method, excess: bytes) -> None:
    payload = method.encode() + excess
    with pytest.raises(SyntaxFault):
        decode_method(payload, 0, len(payload))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(METHOD_IDS), st.binary(max_size=60))
def test_random_arguments_raise_nothing_but_amqp_errors(method_id: int, arguments: bytes) -> None:
    payload = method_id.to_bytes(4, "big") + arguments
    try:
        method = decode_method(payload, 0, len(payload))
    except AMQPError:
        return
    assert decode_method(method.encode(), 0, len(method.encode())) == method


@settings(max_examples=300, deadline=None)
@given(methods, st.data())
def test_a_flipped_byte_raises_nothing_but_amqp_errors(method: Method, data: st.DataObject) -> None:
    payload = bytearray(method.encode())
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_method(payload, 0, len(payload))
    except AMQPError:
        pass


@given(st.integers(0, 2**32 - 1).filter(lambda method_id: method_id not in METHODS))
def test_an_unknown_method_is_not_implemented(method_id: int) -> None:
    with pytest.raises(NotImplementedYet) as caught:
        decode_method(method_id.to_bytes(4, "big"), 0, 4)
    assert caught.value.reply_code == 540
    assert f"{{{method_id >> 16},{method_id & 0xFFFF}}}" in caught.value.detail


@pytest.mark.parametrize("method_id", METHOD_IDS, ids=names)
def test_classes_describe_themselves_as_the_definition_says(method_id: int) -> None:
    definition = DEFINITIONS[method_id]
    method_class = METHODS[method_id]
    assert method_class is getattr(generated, definition.python_name)
    assert method_class.ID == method_class.CLASS_ID << 16 | method_class.METHOD_ID == method_id
    assert definition.full_name == method_class.NAME
    assert definition.synchronous == method_class.SYNCHRONOUS
    assert definition.content == method_class.HAS_CONTENT
    assert ("client" in definition.senders) == method_class.FROM_CLIENT
    assert ("server" in definition.senders) == method_class.FROM_SERVER
    assert tuple(METHODS[response].NAME for response in method_class.RESPONSES) == definition.responses
    assert not hasattr(method_class(), "__dict__")
    assert method_class() == method_class()


def test_all_methods_are_there() -> None:
    assert len(METHODS) == 66
    assert {method.NAME for method in METHODS.values() if method.HAS_CONTENT} == {
        "basic.publish", "basic.return", "basic.deliver", "basic.get-ok",
    }  # fmt: skip
    both = {method.NAME for method in METHODS.values() if method.FROM_CLIENT and method.FROM_SERVER}
    assert both == {
        "connection.close", "connection.close-ok", "channel.flow", "channel.flow-ok", "channel.close",
        "channel.close-ok", "basic.cancel", "basic.cancel-ok", "basic.ack", "basic.nack",
    }  # fmt: skip
    assert all(method.FROM_CLIENT or method.FROM_SERVER for method in METHODS.values())


# Written out by hand from the specification, so that generator and definition cannot agree on a mistake.
GOLDEN = [
    (ConnectionTuneOk(2047, 131072, 60), "000a001f 07ff 00020000 003c"),
    (ConnectionOpen("/"), "000a0028 01 2f 00 00"),
    (QueueDeclare("q", durable=True, no_wait=True), "0032000a 0000 01 71 12 00000000"),
    (QueueDeclare("q", arguments={"x-max-length": 5}),
     "0032000a 0000 01 71 00 00000012 0c 782d6d61782d6c656e677468 49 00000005"),
    (ExchangeDeclare("e", "topic", auto_delete=True, internal=True),
     "0028000a 0000 01 65 05 746f706963 0c 00000000"),
    (BasicPublish("", "q", mandatory=True), "003c0028 0000 00 01 71 01"),
    (BasicQos(0, 10, True), "003c000a 00000000 000a 01"),
    (BasicAck(2**63, True), "003c0050 8000000000000000 01"),
    (BasicNack(1, False, True), "003c0078 0000000000000001 02"),
    (BasicGet("q", no_ack=True), "003c0046 0000 01 71 01"),
    (ConfirmSelect(), "0055000a 00"),
    (TxSelect(), "005a000a"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "wire"), GOLDEN, ids=lambda value: getattr(value, "NAME", None))
def test_bytes_are_those_of_the_specification(method: Method, wire: str) -> None:
    payload = bytes.fromhex(wire)
    assert method.encode() == payload
    assert decode_method(payload, 0, len(payload)) == method


def test_reserved_fields_may_hold_anything_and_are_forgotten() -> None:
    ticket = bytes.fromhex("003c0046 1234 01 71 01")
    assert decode_method(ticket, 0, len(ticket)) == BasicGet("q", no_ack=True)
    capabilities_and_insist = bytes.fromhex("000a0028 01 2f 03 616263 01")
    assert decode_method(capabilities_and_insist, 0, 11) == ConnectionOpen("/")


def test_unused_bits_of_an_octet_are_ignored() -> None:
    payload = bytes.fromhex("003c0078 0000000000000001 fc")
    assert decode_method(payload, 0, len(payload)) == BasicNack(1, multiple=False, requeue=False)


@pytest.mark.parametrize(
    "method",
    [
        ConnectionStartOk(response=b"\0guest\0hunter2"),
        ConnectionSecureOk(b"hunter2"),
        ConnectionUpdateSecret(b"hunter2", "rotation"),
    ],
    ids=lambda method: method.NAME,
)
def test_secrets_do_not_show(method: Method) -> None:
    assert "hunter2" not in repr(method)
    assert "<secret>" in repr(method)


def test_repr_names_the_fields() -> None:
    assert repr(BasicCancel("ctag", True)) == "BasicCancel(consumer_tag='ctag', no_wait=True)"


def test_methods_differ_by_class_and_by_field() -> None:
    assert BasicAck(1) != BasicAck(2)
    assert BasicAck(1) != BasicNack(1)
    assert TxSelect() != ConfirmSelect()


def test_each_method_has_a_table_of_its_own() -> None:
    QueueDeclare("a").arguments["x"] = 1
    assert QueueDeclare("b").arguments == {}


def test_a_short_string_of_256_bytes_is_our_mistake() -> None:
    assert len(BasicGet("q" * 255).encode()) == 4 + 2 + 256 + 1
    with pytest.raises(ValueError, match="256 bytes"):
        BasicGet("q" * 256).encode()
    with pytest.raises(ValueError, match="256 bytes"):
        BasicGet("ü" * 128).encode()
