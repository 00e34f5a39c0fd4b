"""AMQP 0-8 (py-amqplib, txAMQP): the methods that differ from 0-9-1.

connection.close and close-ok have the numbers 60 and 61, which are connection.blocked and unblocked in
RabbitMQ's 0-9-1; basic.consume has no arguments; channel.open-ok has nothing in it.
"""

from __future__ import annotations

from embermq.wire import methods
from embermq.wire.constants import FRAME_METHOD
from embermq.wire.frame import frame

EMPTY_TABLE = bytes(4)
ID_BYTES = 4
CLOSE_OF_0_8 = bytes((0, 10, 0, 60))
CLOSE_OK_OF_0_8 = bytes((0, 10, 0, 61))
CLOSE, CLOSE_OK, CONSUME = (
    method.ID.to_bytes(ID_BYTES, "big")
    for method in (methods.ConnectionClose, methods.ConnectionCloseOk, methods.BasicConsume)
)
NEWER = {CLOSE_OF_0_8: CLOSE, CLOSE_OK_OF_0_8: CLOSE_OK}


def newer(buf: bytearray, pos: int, stop: int) -> bytearray:
    """A method of 0-8 as 0-9-1 has it."""
    method_id, arguments = bytes(buf[pos : pos + ID_BYTES]), buf[pos + ID_BYTES : stop]
    if method_id == CONSUME:
        arguments += EMPTY_TABLE
    return bytearray(NEWER.get(method_id, method_id)) + arguments


def older_frame(number: int, method: methods.Method) -> bytes:
    """A method of 0-9-1 as 0-8 has it."""
    payload = method.encode()
    if method.ID == methods.ConnectionClose.ID:
        payload = CLOSE_OF_0_8 + payload[ID_BYTES:]
    elif method.ID == methods.ConnectionCloseOk.ID:
        payload = CLOSE_OK_OF_0_8
    elif method.ID == methods.ChannelOpenOk.ID:
        payload = payload[:ID_BYTES]
    return frame(FRAME_METHOD, number, payload)
