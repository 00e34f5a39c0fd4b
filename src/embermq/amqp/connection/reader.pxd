import cython

from embermq.amqp.connection.connection cimport Connection
from embermq.broker.fairness cimport Fairness
from embermq.broker.turn cimport Turn

cdef long long BASIC_ACK
cdef Py_ssize_t SMALL_READ_BYTES_MAX
cdef unsigned long long WINDOW_MS
cdef Py_ssize_t INTERACTIVE_BYTES_MAX

@cython.final
cdef class Reader:
    cdef Connection connection
    cdef bytearray buffer
    cdef object view
    cdef readonly Py_ssize_t share
    cdef public bytes unfinished
    cdef readonly bint unread
    cdef long long turn_count
    cdef unsigned long long window_ms
    cdef Py_ssize_t window_bytes
    cdef Py_ssize_t window_before_bytes

    cpdef object set_share(self, Py_ssize_t share)
    @cython.locals(used=Py_ssize_t)
    cpdef object get_buffer(self)
    @cython.locals(end=Py_ssize_t, turn=Turn)
    cpdef object buffer_updated(self, Py_ssize_t read)
    @cython.locals(used=Py_ssize_t)
    cdef object feed(self, Py_ssize_t end)
    @cython.locals(end=Py_ssize_t)
    cpdef object feed_unread(self)
    @cython.locals(turn=Turn, fairness=Fairness, began_s=double, share=Py_ssize_t)
    cdef object feed_bulk(self, Py_ssize_t end, Py_ssize_t read)
    @cython.locals(now_ms=cython.ulonglong)
    cdef bint is_interactive(self, Py_ssize_t read) except -1
