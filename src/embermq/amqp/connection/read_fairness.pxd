cimport cython

from embermq.amqp.connection.connection cimport Connection
from embermq.broker.turn cimport Turn

cdef long long BASIC_ACK
cdef unsigned long long FLOOD_MS
cdef unsigned long long COUNTED_MS
cdef Py_ssize_t LITTLE_BYTES_MAX

@cython.final
cdef class Inflow:
    cdef Connection connection
    cdef readonly Py_ssize_t read_bytes
    cdef unsigned long long flooded_ms
    cdef long long flooded_turn
    cdef unsigned long long counted_ms
    cdef Py_ssize_t counted_bytes

    @cython.locals(turn=Turn, began_s=double, used=Py_ssize_t)
    cpdef Py_ssize_t feed_much(self, bytearray buf, Py_ssize_t end, Py_ssize_t read) except -1
    @cython.locals(turn=Turn)
    cpdef int said_little(self, Py_ssize_t read) except -1
    @cython.locals(turn=Turn)
    cpdef bint has_company(self) except -1
