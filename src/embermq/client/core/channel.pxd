cimport cython

from embermq.client.core.columns cimport Columns
from embermq.client.core.commands cimport Commands
from embermq.client.core.inbox cimport Inbox
from embermq.client.core.message cimport Message
from embermq.client.core.publication cimport Outgoing, Publication, Receipt, as_bytes, raw_properties
from embermq.client.core.send_buffer cimport SendBuffer
from embermq.client.core.unconfirmed cimport Unconfirmed
from embermq.wire.columns.column cimport Delivery
from embermq.wire.columns.publish_rows cimport Rows
from embermq.wire.kernel cimport cut, load_u16, load_u64, same

cdef int CLASS_BASIC
cdef int ROW_BYTES
cdef int CONTENT_HEADER_BYTES

cdef class ChannelCore:
    cdef public object engine
    cdef readonly SendBuffer buffer
    cdef readonly Commands commands
    cdef list touched
    cdef public int number
    cdef public long long epoch
    cdef public bint ready
    cdef public bint closing
    cdef public bint flow_active
    cdef public object error
    cdef public dict consumers
    cdef public list qos
    cdef public unsigned long long acked_through
    cdef readonly bint strict_acks

    cdef public bint confirming
    cdef readonly Unconfirmed unconfirmed
    cdef public long long held
    cdef public list unsent
    cdef public bint transactional
    cdef public bint transaction_open
    cdef public bint transaction_lost

    cdef public object requests
    cdef public list waiting
    cdef public object last_queue

    cdef Delivery delivery
    cdef Inbox last_consumer
    cdef public bytes last_consumer_bytes
    cdef str last_exchange
    cdef str last_routing_key
    cdef bytes last_names_bytes
    cdef bytes last_properties
    cdef object incoming_method
    cdef Inbox incoming_consumer
    cdef unsigned long long incoming_tag
    cdef bint incoming_redelivered
    cdef bytes incoming_properties
    cdef long long incoming_body
    cdef long long incoming_missing
    cdef list incoming_parts

    @cython.locals(known=bytes, after=Py_ssize_t, inbox=Inbox)
    cpdef int on_deliver(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(inbox=Inbox, columns=Columns, delivery=Delivery, after=Py_ssize_t, again=cython.bint)
    cpdef Py_ssize_t on_deliveries(self, bytearray buf, Py_ssize_t pos, Py_ssize_t end) except -1
    @cython.locals(size=Py_ssize_t, names=bytes, exchange_end=Py_ssize_t)
    cdef int read_names(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(known=bytes, inbox=Inbox)
    cpdef int on_header(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(size=Py_ssize_t, inbox=Inbox)
    cpdef int on_body(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(inbox=Inbox, message=Message)
    cdef int arrived(self, bytes body) except -1
    cdef int arrived_in_columns(self, Inbox inbox) except -1
    cdef int came(self, Inbox inbox, long long size) except -1

    cpdef int settle_delivery(self, Message message, int kind, bint multiple, bint requeue) except -1
    cpdef int settle_delivery_now(self, Message message, int kind, bint multiple, bint requeue) except -1
    @cython.locals(message=Message, low=cython.ulonglong, high=cython.ulonglong, count=cython.ulonglong, current=list)
    cpdef int ack_batch_now(self, list batch) except -1
    @cython.locals(buffer=SendBuffer)
    cpdef int ack(self, unsigned long long delivery_tag, bint multiple, long long epoch) except -1

    @cython.locals(buffer=SendBuffer)
    cpdef int publish(self, bytes method, bytes properties, bytes body, bint mandatory, Receipt receipt) except -1
    @cython.locals(buffer=SendBuffer, size=Py_ssize_t, route=bytes, body=bytes)
    cpdef bint publish_some(self, object messages, str exchange, str routing_key, bytes properties, bint mandatory,
                            Receipt receipt, Py_ssize_t bytes_max) except -1
    @cython.locals(body=bytes, route=bytes)
    cdef Py_ssize_t _publish_outgoing(self, Outgoing item, str exchange, str routing_key, bytes properties,
                                      bint mandatory, Receipt receipt) except -1
    @cython.locals(kept=Publication, one=Py_ssize_t, stop=Py_ssize_t)
    cpdef Py_ssize_t publish_rows(self, Rows rows, Py_ssize_t row, bint mandatory, Receipt receipt,
                                  Py_ssize_t bytes_max) except -1
