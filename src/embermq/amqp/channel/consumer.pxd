cimport cython

from embermq.amqp.channel.channel cimport Channel
from embermq.amqp.connection.connection cimport Connection
from embermq.broker.message.message cimport Message
from embermq.broker.queue.level cimport Entry
from embermq.broker.queue.consumer cimport Consumer

cdef Py_ssize_t BLOCK

cdef class ChannelConsumer(Consumer):
    cdef public Channel channel
    cdef bytes prefix
    cdef public Py_ssize_t prefetch_count
    cdef public Py_ssize_t prefetch_size
    @cython.locals(channel=Channel)
    cpdef bint can_take(self, Py_ssize_t size) except -1
    @cython.locals(channel=Channel, connection=Connection, message=Message, delivery_tag=cython.ulonglong)
    cpdef int deliver(self, Entry entry) except -1
    @cython.locals(channel=Channel, connection=Connection, size=Py_ssize_t)
    cpdef int deliver_stored(self, Entry entry, bytes block, Py_ssize_t names_at, Py_ssize_t content_at,
                             Py_ssize_t stop, Py_ssize_t header_size, unsigned long long offset) except -1
    @cython.locals(channel=Channel, connection=Connection)
    cpdef int deliver_block(self, bytes block, Py_ssize_t start, Py_ssize_t stop, unsigned long long offset,
                            Py_ssize_t count) except -1
