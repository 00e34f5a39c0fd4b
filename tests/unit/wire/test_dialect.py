"""The versions of the protocol: every method of each comes back as it was, and broken ones are refused."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from embermq.errors import AMQPError, NotImplementedYet, SyntaxFault
from embermq.wire import methods, methods_0_8, methods_0_9
from embermq.wire.dialect import DIALECT_0_8, DIALECT_0_9, DIALECT_0_9_1, Dialect
from embermq.wire.primitive import Content
from tests.support.wire_strategies import DEFINITION, instances
from tools.wiregen.definition import Method as Definition
from tools.wiregen.definition import read_methods

DIALECTS = (DIALECT_0_8, DIALECT_0_9, DIALECT_0_9_1)
CASES = [
    pytest.param(dialect, method, id=f"{dialect.name} {method.full_name}")
    for dialect in DIALECTS
    for method in read_methods(DEFINITION, dialect.name)
]
# Of the two layouts of dtx.start, the beginning of one may be the other.
CUT = [case for case in CASES if case.values[0] is not DIALECT_0_9_1 and "dtx.start" not in str(case.id)]


@pytest.mark.parametrize(("dialect", "definition"), CASES)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_every_method_comes_back_as_it_was(
    dialect: Dialect, definition: Definition, data: st.DataObject
) -> None:
    method = data.draw(instances(dialect.named[definition.full_name], definition))
    payload = method.encode()
    assume(not definition.instead_of or 0 not in payload[4:])  # that is how the two are told apart
    assert payload[:4] == (definition.class_id << 16 | definition.id).to_bytes(4, "big")
    decoded = dialect.decode(payload, 0, len(payload))
    assert (type(decoded), decoded) == (type(method), method)
    assert decoded.encode() == payload


@pytest.mark.parametrize(("dialect", "definition"), CUT)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_every_truncation_is_a_syntax_fault(
    dialect: Dialect, definition: Definition, data: st.DataObject
) -> None:
    method = data.draw(instances(dialect.named[definition.full_name], definition))
    payload = method.encode()
    whole = {len(payload)}
    if getattr(method, "mandatory", False) and definition.full_name == "message.transfer":
        whole.add(len(payload) - 1)  # the optional bit
    for cut in set(range(len(payload))) - whole:
        with pytest.raises(SyntaxFault):
            dialect.decode(payload[:cut], 0, cut)


@pytest.mark.parametrize("dialect", DIALECTS, ids=repr)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_random_arguments_raise_nothing_but_amqp_errors(dialect: Dialect, data: st.DataObject) -> None:
    method_id = data.draw(st.sampled_from(sorted(dialect.methods)))
    payload = method_id.to_bytes(4, "big") + data.draw(st.binary(max_size=60))
    try:
        method = dialect.decode(payload, 0, len(payload))
    except AMQPError:
        return
    assert dialect.decode(method.encode(), 0, len(method.encode())) == method


def test_a_method_of_0_9_1_is_sent_as_each_version_has_it() -> None:
    assert DIALECT_0_8.frame(0, methods.ConnectionCloseOk())[7:-1] == b"\0\x0a\0\x3d"
    assert DIALECT_0_8.frame(1, methods.ChannelOpenOk())[7:-1] == b"\0\x14\0\x0b"
    assert DIALECT_0_9.frame(1, methods.ChannelOpenOk())[7:-1] == b"\0\x14\0\x0b" + bytes(4)
    assert DIALECT_0_9.frame(1, methods_0_9.ChannelOpenOk(b"id"))[7:-1] == b"\0\x14\0\x0b\0\0\0\x02id"
    closing = DIALECT_0_8.method(methods.ConnectionClose(320, "bye", 60, 40))
    assert closing == methods_0_8.ConnectionClose(320, "bye", 60, 40)
    for dialect in DIALECTS:
        assert dialect.frame(1, methods.BasicQosOk()) == DIALECT_0_9_1.frame(1, methods.BasicQosOk())


def test_what_a_version_does_not_have_is_unknown_to_it() -> None:
    file_open = methods_0_9.FileOpen("name", 1).encode()
    assert DIALECT_0_9.decode(file_open, 0, len(file_open)) == methods_0_9.FileOpen("name", 1)
    with pytest.raises(NotImplementedYet):
        DIALECT_0_9_1.decode(file_open, 0, len(file_open))
    assert DIALECT_0_9_1.name_of(methods_0_9.FileOpen.ID) == ""
    assert DIALECT_0_8.name_of(0x000A003C) == "connection.close"
    assert DIALECT_0_9_1.name_of(0x000A003C) == "connection.blocked"


def test_a_consumer_of_0_8_has_no_arguments_and_the_handler_finds_none() -> None:
    payload = methods_0_8.BasicConsume("queue", "tag").encode()
    assert payload.endswith(b"\x03tag\0")
    decoded = DIALECT_0_8.decode(payload, 0, len(payload))
    assert isinstance(decoded, methods.BasicConsume)
    assert decoded.arguments == {}


def test_a_distributed_transaction_starts_by_either_layout() -> None:
    original = b"\0\x64\0\x14\x06branch"
    assert DIALECT_0_9.decode(original, 0, len(original)) == methods_0_9.DtxStartByIdentifier("branch")
    later = methods_0_9.DtxStart(1, b"branch", join=True).encode()
    assert DIALECT_0_9.decode(later, 0, len(later)) == methods_0_9.DtxStart(1, b"branch", join=True)


def test_a_content_is_inline_or_a_reference() -> None:
    transfer = methods_0_9.MessageTransfer(body=Content(b"name", by_reference=True))
    assert transfer.encode().endswith(b"\x01\0\0\0\x04name")
    with_bit = transfer.encode() + b"\x01"
    decoded = DIALECT_0_9.decode(with_bit, 0, len(with_bit))
    assert isinstance(decoded, methods_0_9.MessageTransfer)
    assert decoded.mandatory
    neither = transfer.encode().replace(b"\x01\0\0\0\x04name", b"\x02\0\0\0\x04name")
    with pytest.raises(SyntaxFault, match="neither inline"):
        DIALECT_0_9.decode(neither, 0, len(neither))
