import cython

from embermq.amqp.connection cimport Connection
from embermq.clock cimport monotonic_s
from embermq.net.calls cimport receive, receive_soon, wait_for, watch
from embermq.net.traffic cimport Traffic

cdef double STAY_S_MIN
cdef double STAY_S_MAX
cdef int ROUNDS_AFTER_OTHERS
cdef Py_ssize_t READ_BYTES_MAX
cdef double AWAKE_S
cdef int NAPS_MAX
cdef int MINE
cdef int OTHERS

cdef class Attention:
    cdef readonly int descriptor
    cdef readonly int rounds_left
    cdef readonly int asleep
    cdef int naps
    cdef public double stay_s
    cdef public int wait_ms_max

    @cython.locals(connection=Connection, until_s=double, found=int, size=Py_ssize_t, alone=bint)
    cdef int stay(self, Traffic traffic) except -1
    @cython.locals(size=Py_ssize_t, found=int)
    cdef Py_ssize_t next_message(self, Traffic traffic) except? -2
    cdef int note_others(self) except -1
