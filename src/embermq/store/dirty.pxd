cdef class Dirty:
    cdef readonly frozenset files
    cdef readonly frozenset directories
    cdef readonly frozenset acks
