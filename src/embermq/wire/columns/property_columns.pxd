cimport cython

from embermq.wire.columns.column cimport ByteColumn


@cython.final
cdef class Texts:
    cdef ByteColumn values
    cdef bytearray bits
    cdef Py_ssize_t present
    cdef int begin(self, Py_ssize_t rows) except -1
    cdef int put(self, Py_ssize_t row, const unsigned char* data, Py_ssize_t size) except -1
    cdef tuple taken(self, Py_ssize_t rows)


@cython.final
cdef class Numbers:
    cdef bytearray values
    cdef bytearray bits
    cdef Py_ssize_t present
    cdef int begin(self, Py_ssize_t rows) except -1
    cdef int put(self, Py_ssize_t row, long long value) except -1
    cdef tuple taken(self, Py_ssize_t rows)


cdef struct Field:
    const unsigned char* name
    Py_ssize_t name_size
    unsigned char letter
    const unsigned char* value
    Py_ssize_t value_size


@cython.final
cdef class PropertyColumns:
    cdef list columns
    cdef Numbers taken_ms
    cdef ByteColumn keys
    cdef Texts items
    cdef bytearray map_places
    cdef Py_ssize_t map_size
    cdef ByteColumn json
    cdef object text_of
    cdef object json_of
    cdef Field* fields
    cdef Py_ssize_t fields_max
    cdef bint with_headers
    cdef int put_row(self, Py_ssize_t row, const unsigned char* p, const unsigned char* end) except -1
    cdef Py_ssize_t parse(self, const unsigned char* p, const unsigned char* end) except -1
    cdef int put_headers(self, Py_ssize_t row, Py_ssize_t count) except -1
    cdef int put_map(self, Py_ssize_t row, Py_ssize_t count) except -1
    cdef int put_json(self, Py_ssize_t count) except -1
    cdef int put_json_value(self, Field* field) except -1
    cdef int put_item(self, Field* field) except -1
    cdef int put_rows(self, const int* places, Py_ssize_t rows, const unsigned char* data, Py_ssize_t size) except -1
    cdef int begin(self, Py_ssize_t rows) except -1
    cdef int forget(self) except -1
    cdef dict taken(self, Py_ssize_t rows)
