"""Rules of exchanges, queues, messages and transactions without a test, each with the reason."""

from tests.conformance.rules import NotTested

_CLIENT = "A rule for applications; a server cannot break it."
_OPTIONAL = "Optional, and not observable from outside."

NOT_TESTED: list[NotTested] = [
    NotTested(
        "001",
        "1.8.3.2",
        "basic.qos-ok/active-own",
        "The new limits apply to all active consumers, those of each consumer (global=false) included",
        "RabbitMQ gives global=false the meaning of a limit for each consumer that starts later, and "
        "applications give the consumers of one channel different limits that way. Limits of the channel "
        "(global=true) do apply to running consumers: basic.qos-ok/active. Clients of py-amqp, which takes "
        "any broker but RabbitMQ at the specification's word, get the specification's meaning.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.6",
        "exchange/default-bind",
        "The default exchange may be named, empty, in Queue.Bind",
        "RabbitMQ answers bind and unbind on the default exchange with 403, and its users know the exchange "
        "as untouchable: every queue is bound by its name and by nothing else. Tested as default/no-bind.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.6",
        "exchange/extensions",
        "The server MAY implement other exchange types",
        "There are none yet; an unknown type is refused, which exchange.declare.type/support tests.",
    ),
    NotTested(
        "001",
        "1.6.2.3.2",
        "exchange.delete.exchange/exists",
        "The client must not delete an exchange that does not exist: 404",
        "RabbitMQ answers delete-ok since 3.2 and clients rely on it to clean up. Tested as "
        "exchange.delete/idempotent.",
        decided_against=True,
    ),
    NotTested(
        "000",
        "exchange.declare.durable",
        "exchange.declare.durable/sticky",
        "The durable and auto-delete fields are ignored if the exchange or queue already exists",
        "0-9-1 compares declarations instead; a difference is answered with 406, which "
        "exchange.declare/equivalence and queue.declare/equivalence test.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.7.2.5",
        "queue.unbind/failure",
        "If an unbind fails, the server MUST raise a connection exception",
        "Unbinding what is not bound succeeds, as RabbitMQ's clients expect, so nothing is left that could "
        "fail but a refusal, which is a channel exception. Tested as queue.unbind/idempotent.",
        decided_against=True,
    ),
    NotTested(
        "000",
        "queue.unbind",
        "queue.unbind/not-found",
        "Unbinding a missing queue or exchange: 404",
        "RabbitMQ answers unbind-ok and clients rely on it. Tested as queue.unbind/idempotent.",
        decided_against=True,
    ),
    NotTested(
        "000",
        "queue.bind",
        "queue.bind/transient-refused",
        "A durable queue must not bind to a transient exchange",
        "Turned around by 0-9-1, whose rule queue.bind/transient-exchange is tested.",
        decided_against=True,
    ),
    NotTested(
        "000",
        "queue.bind",
        "queue.bind/internal-exchange",
        "Binding a queue to an internal exchange: connection exception 530",
        "Internal exchanges of RabbitMQ are fed by other exchanges and feed queues; a binding is their use.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.7.2.7",
        "queue.purge/log",
        "The server MAY keep purged messages in a log of its own, apart from the live messages",
        "Optional; purged messages are gone.",
    ),
    NotTested(
        "001",
        "1.7.2.9",
        "queue.delete.queue/exists",
        "Deleting a missing queue: 404",
        "RabbitMQ answers delete-ok with 0 messages since 3.2 and clients rely on it to clean up. Tested as "
        "queue.delete/idempotent.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.8",
        "basic/flow-publishers",
        "The server MAY use channel.flow to slow a publisher down",
        "No client of today honours it. EmberMQ stops reading from the socket and, for clients that "
        "understand it, says connection.blocked.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.8",
        "basic/overflow-transient",
        "Transient messages MAY overflow to persistent storage",
        _OPTIONAL,
    ),
    NotTested(
        "001",
        "1.8",
        "basic/discard-transient",
        "The server MAY discard transient messages by priority when a queue grows too large",
        "A queue without limits loses nothing; limits are set by arguments of the queue.",
        decided_against=True,
    ),
    NotTested(
        "002",
        "3.1.1",
        "message/discard-order",
        "If messages must be discarded, those of low priority go first",
        "EmberMQ discards only by the limits a queue was declared with, oldest first as in RabbitMQ.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.8.3.14",
        "basic.reject/cancel-content",
        "To cancel a partly sent content the server sends a body frame without data",
        "No client knows such a frame. Reject is taken while content is sent, which "
        "basic.reject/while-sending tests; the content is finished first.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.8.3.14",
        "basic.reject/unable",
        "The server SHOULD read a reject as: the client cannot process the message at this time",
        "A reading, not a behaviour; what follows from it is tested under basic.reject.requeue.",
    ),
    NotTested(
        "001",
        "1.8.3.14",
        "basic.reject/selecting",
        "A client must not use reject as a means of selecting messages",
        _CLIENT,
    ),
    NotTested(
        "000",
        "basic.reject.requeue",
        "basic.reject.requeue/other-client",
        "A rejected message must not come back to the same client on the same channel",
        "Dropped by 0-9-1. With a single consumer it would make requeue useless.",
        decided_against=True,
    ),
    NotTested(
        "000",
        "basic.recover",
        "basic.recover/transacted",
        "Recover on a transacted channel is a channel exception",
        "Turned around by 0-9-1, which names recover as the way to redeliver after a rollback; tested as "
        "tx.rollback/no-redelivery.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.8.3.1.3",
        "basic.qos.global/connection",
        "With global set, the limits apply to the entire connection",
        "RabbitMQ redefined global as shared by the consumers of the channel, and all clients of today mean "
        "that. Tested as basic.qos.global.",
        decided_against=True,
    ),
    NotTested(
        "001",
        "1.9",
        "tx/atomicity-applications",
        "Applications must not rely on atomicity over many queues",
        _CLIENT,
    ),
    NotTested(
        "001",
        "1.9",
        "tx/immediate-applications",
        "Applications must not rely on transactions with immediate or mandatory messages",
        _CLIENT,
    ),
    NotTested(
        "000",
        "tx",
        "tx/duplicates",
        "A client using transactions should detect and reject duplicates of messages",
        _CLIENT,
    ),
    NotTested(
        "002",
        "3.1.3.5",
        "exchange/system",
        "A system exchange passes messages to system services named by the key",
        "Optional; there are no system services.",
    ),
    NotTested(
        "002",
        "3.1.3.6",
        "exchange/x-types",
        'Exchange types outside the standard are named with "x-"',
        "EmberMQ has no such type yet.",
    ),
    NotTested(
        "002",
        "3.1.2",
        "vhost/namespaces",
        "A virtual host has exchanges and queues of its own",
        "AMQP cannot make a virtual host, and this suite speaks nothing but AMQP.",
    ),
    NotTested(
        "000",
        "queue",
        "queue/any-content",
        "A queue takes contents of any class in any mix",
        "0-9-1 has one content class.",
    ),
    NotTested(
        "000",
        "access tickets",
        "ticket/validity",
        "Methods need an access ticket with the right to the realm",
        "Tickets are gone in 0-9-1: the field is reserved, and tests show that it is ignored.",
        decided_against=True,
    ),
    NotTested(
        "000",
        "queue.purge.queue",
        "queue/empty-name-530",
        "An empty queue name without a declared queue is a connection exception 530",
        "RabbitMQ answers with 404 on the channel, and so do we. Tested as queue/no-last-declared.",
        decided_against=True,
    ),
]
