cdef class Gathering:
    cdef object _first
    cdef list _others
    cdef readonly Py_ssize_t count

    cpdef int add(self, object item) except -1
    cpdef object first(self)
    cpdef list take(self)
    cpdef int forget(self) except -1
    cpdef int drop_first(self) except -1
