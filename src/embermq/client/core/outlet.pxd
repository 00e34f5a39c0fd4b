cimport cython

from embermq.wire.kernel cimport Output

cdef Py_ssize_t ROUTES_MAX

cdef class Outlet:
    cdef public bint awake
    cdef public object commands
    cdef public int resting
    cdef public object ring
    cdef public Py_ssize_t frame_max
    cdef public bint full
    cdef public object lock
    cdef public Output out
    cdef public dict routes
    cdef public list touched

    @cython.locals(key=tuple, payload=bytes)
    cpdef bytes route(self, str exchange, str routing_key, bint mandatory)
