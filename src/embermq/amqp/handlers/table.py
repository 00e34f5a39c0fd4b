"""The tables of handlers, by the names of the methods; those of one version are found by its numbers."""

from __future__ import annotations

from embermq.amqp.connection.dialect import Handler
from embermq.amqp.connection.state import OPEN, OPENING, SECURE, START, TUNE
from embermq.amqp.handlers import basic as on_basic
from embermq.amqp.handlers import channel as on_channel
from embermq.amqp.handlers import confirm as on_confirm
from embermq.amqp.handlers import connection as on_connection
from embermq.amqp.handlers import exchange as on_exchange
from embermq.amqp.handlers import queue as on_queue
from embermq.amqp.handlers import tx as on_tx
from embermq.wire import methods

# By state of the connection and method; None is any state.
CONNECTION_HANDLERS: dict[tuple[int | None, str], Handler] = {
    (START, methods.ConnectionStartOk.NAME): on_connection.on_connection_start_ok,
    (SECURE, methods.ConnectionSecureOk.NAME): on_connection.on_connection_secure_ok,
    (TUNE, methods.ConnectionTuneOk.NAME): on_connection.on_connection_tune_ok,
    (OPENING, methods.ConnectionOpen.NAME): on_connection.on_connection_open,
    (OPEN, methods.ConnectionUpdateSecret.NAME): on_connection.on_connection_update_secret,
    (None, methods.ConnectionClose.NAME): on_connection.on_connection_close,
}

CHANNEL_HANDLERS: dict[str, Handler] = {
    methods.ChannelOpen.NAME: on_channel.on_channel_open,
    methods.ChannelFlow.NAME: on_channel.on_channel_flow,
    methods.ChannelClose.NAME: on_channel.on_channel_close,
    methods.AccessRequest.NAME: on_channel.on_access_request,
    methods.ExchangeDeclare.NAME: on_exchange.on_exchange_declare,
    methods.ExchangeDelete.NAME: on_exchange.on_exchange_delete,
    methods.ExchangeBind.NAME: on_exchange.on_exchange_bind,
    methods.ExchangeUnbind.NAME: on_exchange.on_exchange_unbind,
    methods.QueueDeclare.NAME: on_queue.on_queue_declare,
    methods.QueueBind.NAME: on_queue.on_queue_bind,
    methods.QueueUnbind.NAME: on_queue.on_queue_unbind,
    methods.QueuePurge.NAME: on_queue.on_queue_purge,
    methods.QueueDelete.NAME: on_queue.on_queue_delete,
    methods.BasicQos.NAME: on_basic.on_basic_qos,
    methods.BasicConsume.NAME: on_basic.on_basic_consume,
    methods.BasicCancel.NAME: on_basic.on_basic_cancel,
    methods.BasicGet.NAME: on_basic.on_basic_get,
    methods.BasicAck.NAME: on_basic.on_basic_ack,
    methods.BasicNack.NAME: on_basic.on_basic_nack,
    methods.BasicReject.NAME: on_basic.on_basic_reject,
    methods.BasicRecover.NAME: on_basic.on_basic_recover,
    methods.BasicRecoverAsync.NAME: on_basic.on_basic_recover_async,
    methods.TxSelect.NAME: on_tx.on_tx_select,
    methods.TxCommit.NAME: on_tx.on_tx_commit,
    methods.TxRollback.NAME: on_tx.on_tx_rollback,
    methods.ConfirmSelect.NAME: on_confirm.on_confirm_select,
}
