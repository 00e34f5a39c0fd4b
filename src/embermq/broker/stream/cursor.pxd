cimport cython

from embermq.broker.queue.consumer cimport Consumer
from embermq.broker.queue.level cimport Entry, Level
from embermq.broker.message.message cimport Message
from embermq.broker.message.record cimport content_at, header_size_at, names_at
from embermq.store.log.record cimport Header
from embermq.store.log.segment cimport Segment

cdef Message NOTHING

cdef class Cursor:
    cdef public object stream
    cdef public Consumer consumer
    cdef public unsigned long long offset
    cdef public unsigned long long end
    cdef readonly Py_ssize_t delivered
    cdef public object group
    cdef public bint waits
    cdef public bint fetching
    cdef public bint timed
    cdef public bint blocks
    cdef public long long shift
    cdef public object choice
    cdef Level level
    cdef public object reader
    cdef object block
    cdef Segment segment
    cdef bytes data
    cdef Py_ssize_t at
    cdef Header header
    cdef Py_ssize_t read_bytes
    cpdef bint is_at_hand(self, Py_ssize_t room) except -1
    cpdef Py_ssize_t wanted_bytes(self, Py_ssize_t room) except -1
    @cython.locals(header=Header, used=Py_ssize_t, limit=cython.ulonglong, stop=Py_ssize_t, at=Py_ssize_t, segment=Segment)
    cpdef Py_ssize_t deliver(self, Py_ssize_t budget, unsigned long long safe_end) except -1
    @cython.locals(used=Py_ssize_t, limit=cython.ulonglong)
    cdef Py_ssize_t deliver_blocks(self, Py_ssize_t budget, unsigned long long safe_end) except -1
    @cython.locals(header=Header, segment=Segment, data=bytes, at=Py_ssize_t, start=Py_ssize_t,
                   begin=Py_ssize_t, stop=Py_ssize_t, first=cython.ulonglong, count=Py_ssize_t)
    cdef Py_ssize_t hand_over_block(self, unsigned long long limit) except -1
    @cython.locals(data=bytes, header_size=Py_ssize_t, header_at=Py_ssize_t, entry=Entry)
    cdef int hand_over(self, unsigned long long offset, Py_ssize_t at, Py_ssize_t stop) except -1
