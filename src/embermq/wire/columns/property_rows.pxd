cimport cython

from embermq.wire.columns.publish_rows cimport Cells


@cython.final
cdef class Mask:
    cdef Py_buffer buffer
    cdef const unsigned char* marks


@cython.final
cdef class Bytes:
    cdef unsigned char* data
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity
    cdef unsigned char* room(self, Py_ssize_t size) except NULL
    cdef int put(self, const unsigned char* data, Py_ssize_t size) except -1
    cdef int put_short(self, const unsigned char* data, Py_ssize_t size) except -1


@cython.final
cdef class RowHeaders:
    cdef Py_buffer places_buffer
    cdef const int* places
    cdef Py_ssize_t rows
    cdef Cells keys
    cdef Cells items
    cdef Mask items_here
    cdef Mask map_here
    cdef bytes name
    cdef bytes prefix
    cdef unsigned long long row
    cdef Cells ids
    cdef Mask id_here
    cdef int check(self, Py_ssize_t count) except -1
    cdef int put(self, Bytes out, Py_ssize_t row) except -1
    cdef bint put_id(self, Bytes out, Py_ssize_t row) except -1


@cython.final
cdef class Part:
    cdef unsigned int flag
    cdef bytes same
    cdef Cells cells
    cdef RowHeaders headers
    cdef Py_buffer numbers_buffer
    cdef const long long* numbers
    cdef Mask present
    cdef int size
    cdef bint put(self, Bytes out, Py_ssize_t row) except -1


@cython.final
cdef class PropertyRows:
    cdef readonly Py_ssize_t count
    cdef list parts
