import cython

cdef Py_ssize_t KEPT_MAX

cdef class Gathering:
    cdef list _items
    cdef readonly Py_ssize_t count

    cpdef int add(self, object item) except -1
    cpdef object first(self)
    cpdef list take(self)
    @cython.locals(at=Py_ssize_t)
    cpdef int forget(self) except -1
