from embermq.broker.interfaces cimport Sink
from embermq.broker.turn cimport Turn
from embermq.wire.kernel cimport Output

cdef Py_ssize_t OUTPUT_TURN_BYTES_MAX
cdef long long COPIES_PER_TURN_MAX
cdef Py_ssize_t LITTLE_BYTES_MAX

cdef class Link(Sink):
    cdef public Output out
    cdef public list confirming_channels
    cdef readonly Turn turn
    cdef public bint writable
    cdef public bint starved
    cdef public int holds
    cdef public object pressed_queue
    cdef public bint publishing
    cdef public bint stalled
    cdef public Py_ssize_t frame_max
    cdef public long long number
    cpdef int touch(self) except -1
    cpdef bint has_room(self) except -1
    cpdef int count_copies(self, Py_ssize_t count) except -1
