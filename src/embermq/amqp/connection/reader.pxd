import cython

from embermq.amqp.connection.connection cimport Connection
from embermq.broker.fairness cimport Fairness
from embermq.broker.turn cimport Turn

cdef long long BASIC_ACK
cdef Py_ssize_t SMALL_READ_BYTES_MAX
cdef Py_ssize_t READ_BYTES_PER_TURN_MAX
cdef unsigned long long WINDOW_MS
cdef Py_ssize_t WINDOW_BYTES_MAX
cdef unsigned long long BULK_MS

@cython.final
cdef class Reader:
    cdef Connection connection
    cdef bytearray buffer
    cdef object view
    cdef readonly Py_ssize_t share
    cdef public bytes unfinished
    cdef readonly bint unread
    cdef long long turn_count
    cdef Py_ssize_t read_this_turn
    cdef unsigned long long bulk_ms
    cdef unsigned long long window_ms
    cdef Py_ssize_t window_bytes

    cpdef object set_share(self, Py_ssize_t share)
    @cython.locals(used=Py_ssize_t)
    cpdef object get_buffer(self)
    @cython.locals(end=Py_ssize_t)
    cpdef object buffer_updated(self, Py_ssize_t read)
    @cython.locals(used=Py_ssize_t)
    cdef object feed(self, Py_ssize_t end)
    @cython.locals(end=Py_ssize_t)
    cpdef object feed_unread(self)
    @cython.locals(connection=Connection, turn=Turn, fairness=Fairness, began_s=double, share=Py_ssize_t)
    cdef object feed_bulk(self, Py_ssize_t end, Py_ssize_t read)
    @cython.locals(connection=Connection, turn=Turn)
    cdef object note_small(self, Py_ssize_t read)
