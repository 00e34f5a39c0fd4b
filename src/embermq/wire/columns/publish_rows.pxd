cimport cython

from embermq.wire.kernel cimport Output


cdef class Cells:
    cdef Py_buffer places_buffer
    cdef Py_buffer data_buffer
    cdef const int* places
    cdef const unsigned char* data
    cdef readonly Py_ssize_t count
    cpdef bytes cell(self, Py_ssize_t row)


@cython.final
cdef class Source:
    cdef Cells cells
    cdef bytes same
    cdef int check(self, Py_ssize_t count, Py_ssize_t size_min, Py_ssize_t size_max, str what) except -1
    cdef bytes value(self, Py_ssize_t row)


@cython.final
cdef class Rows:
    cdef Cells bodies
    cdef Source exchange
    cdef Source routing_key
    cdef Source row_properties
    cdef bint mandatory
    cdef readonly Py_ssize_t count
    cpdef bytes method(self, Py_ssize_t row)
    cpdef bytes properties(self, Py_ssize_t row)
    cpdef bytes body(self, Py_ssize_t row)
    cpdef Py_ssize_t put(self, Output out, int channel, Py_ssize_t row, Py_ssize_t frame_max,
                         Py_ssize_t bytes_max) except -1
    cdef int put_heads(self, Output out, int channel, Py_ssize_t row, Py_ssize_t body_size) except -1
