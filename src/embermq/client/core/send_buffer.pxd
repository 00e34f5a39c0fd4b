cimport cython

from embermq.wire.kernel cimport Output

cdef Py_ssize_t ROUTES_MAX

cdef class SendBuffer:
    cdef object _on_output
    cdef dict _routes
    cdef public bint awake
    cdef public Py_ssize_t frame_max
    cdef public bint full
    cdef public object lock
    cdef public Output out

    cpdef int wake(self) except -1
    @cython.locals(key=tuple, payload=bytes)
    cpdef bytes route(self, str exchange, str routing_key, bint mandatory)
