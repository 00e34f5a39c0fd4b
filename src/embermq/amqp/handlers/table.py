"""The tables of handlers, by method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from embermq.amqp.connection.state import OPEN, OPENING, SECURE, START, TUNE
from embermq.amqp.handlers import basic as on_basic
from embermq.amqp.handlers import channel as on_channel
from embermq.amqp.handlers import confirm as on_confirm
from embermq.amqp.handlers import connection as on_connection
from embermq.amqp.handlers import exchange as on_exchange
from embermq.amqp.handlers import queue as on_queue
from embermq.amqp.handlers import tx as on_tx
from embermq.wire import methods

Handler = Callable[[Any, Any], None]

# By state of the connection and method; None is any state.
CONNECTION_HANDLERS: dict[tuple[int | None, int], Handler] = {
    (START, methods.ConnectionStartOk.ID): on_connection.on_connection_start_ok,
    (SECURE, methods.ConnectionSecureOk.ID): on_connection.on_connection_secure_ok,
    (TUNE, methods.ConnectionTuneOk.ID): on_connection.on_connection_tune_ok,
    (OPENING, methods.ConnectionOpen.ID): on_connection.on_connection_open,
    (OPEN, methods.ConnectionUpdateSecret.ID): on_connection.on_connection_update_secret,
    (None, methods.ConnectionClose.ID): on_connection.on_connection_close,
}

CHANNEL_HANDLERS: dict[int, Handler] = {
    methods.ChannelOpen.ID: on_channel.on_channel_open,
    methods.ChannelFlow.ID: on_channel.on_channel_flow,
    methods.ChannelClose.ID: on_channel.on_channel_close,
    methods.AccessRequest.ID: on_channel.on_access_request,
    methods.ExchangeDeclare.ID: on_exchange.on_exchange_declare,
    methods.ExchangeDelete.ID: on_exchange.on_exchange_delete,
    methods.ExchangeBind.ID: on_exchange.on_exchange_bind,
    methods.ExchangeUnbind.ID: on_exchange.on_exchange_unbind,
    methods.QueueDeclare.ID: on_queue.on_queue_declare,
    methods.QueueBind.ID: on_queue.on_queue_bind,
    methods.QueueUnbind.ID: on_queue.on_queue_unbind,
    methods.QueuePurge.ID: on_queue.on_queue_purge,
    methods.QueueDelete.ID: on_queue.on_queue_delete,
    methods.BasicQos.ID: on_basic.on_basic_qos,
    methods.BasicConsume.ID: on_basic.on_basic_consume,
    methods.BasicCancel.ID: on_basic.on_basic_cancel,
    methods.BasicGet.ID: on_basic.on_basic_get,
    methods.BasicAck.ID: on_basic.on_basic_ack,
    methods.BasicNack.ID: on_basic.on_basic_nack,
    methods.BasicReject.ID: on_basic.on_basic_reject,
    methods.BasicRecover.ID: on_basic.on_basic_recover,
    methods.BasicRecoverAsync.ID: on_basic.on_basic_recover_async,
    methods.TxSelect.ID: on_tx.on_tx_select,
    methods.TxCommit.ID: on_tx.on_tx_commit,
    methods.TxRollback.ID: on_tx.on_tx_rollback,
    methods.ConfirmSelect.ID: on_confirm.on_confirm_select,
}
