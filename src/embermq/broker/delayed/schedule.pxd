import cython

from embermq.broker.delayed.record cimport Delayed
from embermq.broker.interfaces cimport Logged

cdef class Part(Logged):
    cdef object turn
    cpdef void mark(self) except *
    cpdef void append(self, Delayed delayed) except *
    cpdef void ack(self, unsigned long long sequence) except *

cdef class Run(Part):
    cdef readonly object window
    cdef readonly Py_ssize_t unread_count
    cdef readonly unsigned long long unread_from
    cdef readonly unsigned long long last_due_ms
    cdef public tuple front
    cpdef void add(self, Delayed delayed, Py_ssize_t window_max) except *
    cpdef Delayed take(self, Py_ssize_t read_bytes)

cdef class Schedule:
    cdef object turn
    cdef object storage
    cdef readonly str id
    cdef public unsigned long long next_number
    cdef readonly list heads
    cdef readonly list heap
    cdef Py_ssize_t heap_bytes
    cdef readonly list runs
    cdef list last_dues
    cdef list fronts
    @cython.locals(run=Run)
    cpdef void add(self, Delayed delayed) except *
    @cython.locals(part=Part)
    cpdef void done(self, Delayed delayed) except *
