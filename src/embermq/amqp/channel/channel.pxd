cimport cython

cdef class Channel

from embermq.broker.queue.level cimport Entry, Level
from embermq.broker.queue.consumer cimport Consumer
from embermq.broker.queue.queue cimport Queue
from embermq.amqp.connection.connection cimport Connection

from embermq.amqp.channel.stream_publish cimport StreamPublish
from embermq.broker.turn cimport Turn
from embermq.broker.exchange.exchange cimport Exchange, Route
from embermq.broker.message.message cimport Message, make_message
from embermq.wire.content cimport Peek
from embermq.wire.kernel cimport Output, cut, join, load_u16, load_u32, load_u64, same

# Constants of the module, as C numbers.
cdef int METHOD
cdef int HEADER
cdef int BODY
cdef int MANDATORY
cdef int IMMEDIATE
cdef int CLASS_BASIC
cdef int CONTENT_HEADER_BYTES_MIN
cdef int MODE_TRANSIENT
cdef int MODE_PERSISTENT
cdef int NOT_THERE
cdef int KEPT_ALWAYS

cdef Py_ssize_t SPARSE_COUNT

cdef class Channel:
    cdef public dict consumers
    cdef public unsigned long long delivery_tag
    cdef public unsigned long long no_ack_count
    cdef public unsigned long long acked_count
    cdef public Py_ssize_t prefetch_count
    cdef public Py_ssize_t prefetch_size
    cdef public Py_ssize_t shared_prefetch_count
    cdef public Py_ssize_t shared_prefetch_size
    cdef public Py_ssize_t shared_unacked
    cdef public Py_ssize_t shared_unacked_bytes
    cdef public dict unacked
    cdef public list older
    cdef public list older_ends
    cdef public int number
    cdef public Connection connection
    cdef public bint closing
    cdef public bint confirming
    cdef bint confirm_pending
    cdef public unsigned long long published
    cdef readonly unsigned long long confirmed
    cdef unsigned long long safe
    cdef public bint unsafe
    cdef tuple kept_in
    cdef int syncs_under_way
    cdef object nacks
    cdef public bint turned_away
    cdef public object vhost
    cdef public object user
    cdef public bint flow_active
    cdef public bint flow_wanted
    cdef public int pauses
    cdef public object redelivery
    cdef public str last_queue
    cdef public dict aliases
    # content
    cdef public int expects
    cdef Route route
    cdef dict routes
    cdef public int publish_bits
    cdef Peek peek
    cdef bytes header
    cdef object special_headers
    cdef public object reply_queue
    cdef bytearray gathered
    cdef readonly unsigned long long received_count
    cdef readonly unsigned long long returned_count
    cdef Py_ssize_t body_size
    cdef Py_ssize_t body_received
    cdef public Py_ssize_t body_max
    cdef StreamPublish stream_publish
    cdef public object transaction

    cdef object on_publish(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop)
    @cython.locals(next_at=Py_ssize_t, header_size=Py_ssize_t, body_stop=Py_ssize_t, following_at=Py_ssize_t,
                   size=cython.ulonglong, route=Route)
    cdef Py_ssize_t on_header(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t end) except -1
    @cython.locals(peek=Peek)
    cdef object check_properties(self, bytearray buf)
    cdef object on_body(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop)
    @cython.locals(message=Message, route=Route, queues=tuple)
    cdef object on_content(self, bytes content, Py_ssize_t header_size)
    @cython.locals(straight=StreamPublish, following_at=Py_ssize_t)
    cdef Py_ssize_t take_straight(
        self, Route route, bytearray buf, Py_ssize_t pos, Py_ssize_t stop, Py_ssize_t body_stop, Py_ssize_t end
    ) except -1
    @cython.locals(queue=Queue)
    cpdef object publish(self, Message message, tuple queues, int bits)
    @cython.locals(entry=Entry)
    cpdef object on_ack(self, unsigned long long delivery_tag, bint multiple)
    cdef object count_published(self, Py_ssize_t count)
    cpdef object keep(self, tuple queues)
    cpdef object put_confirms(self)
    cdef object refused(self)
    cdef object put_ack(self)
    cpdef object begin_block(self)
    cpdef Entry take_older(self, unsigned long long delivery_tag)
    cpdef bint spans_blocks(self, unsigned long long delivery_tag) except -1
    @cython.locals(entry=Entry, unacked=dict)
    cpdef list take_unacked(self, unsigned long long delivery_tag, bint multiple)
    @cython.locals(consumer=Consumer, size=Py_ssize_t)
    cpdef object release(self, Entry entry)
    @cython.locals(entry=Entry)
    cpdef object release_all(self, list entries)
    @cython.locals(entry=Entry, queue=Queue)
    cpdef object settle(self, list entries)
    @cython.locals(consumer=Consumer)
    cpdef object credit_returned(self)
