import cython

from embermq.broker.delayed.record cimport Delayed
from embermq.broker.delayed.run cimport Part, Run

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
    cpdef int add(self, Delayed delayed) except -1
    @cython.locals(part=Part)
    cpdef int done(self, Delayed delayed) except -1
