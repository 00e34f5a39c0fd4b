from embermq.store.kernel cimport Blocks

cdef class PastCache:
    cdef public object opened
    cdef public Blocks blocks
    cdef public long long synced_end
    cdef Py_ssize_t steady
    cdef readonly bint failed
    cpdef Py_ssize_t count(self, long long position) except -1
    cpdef void end(self) except *
    cpdef void give_up(self) except *
