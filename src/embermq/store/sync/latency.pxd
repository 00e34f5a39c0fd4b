cimport cython

@cython.final
cdef class SyncSpeed:
    cdef double quick_seconds
    cdef double hiccup_seconds
    cdef double average_seconds
    cdef double weight
    cdef Py_ssize_t syncs_until_quick
    cpdef void call_quick(self, double seconds) except *
    cpdef bint is_quick(self) except -1
    cpdef void note(self, double seconds) except *
    cpdef void pause(self, Py_ssize_t syncs) except *
