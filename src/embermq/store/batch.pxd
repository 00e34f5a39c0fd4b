cdef class Batch:
    cdef public set files
    cdef public set directories
    cdef public set acks
    cdef public bint everything
    cdef public bint with_acks
    cdef public list callbacks
    cpdef bint is_dirty(self) except -1
    cpdef bint is_small(self) except -1
