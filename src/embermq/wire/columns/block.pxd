cimport cython

from embermq.wire.columns.column cimport ByteColumn, NumberColumn


@cython.final
cdef class BlockRows:
    cdef ByteColumn bodies
    cdef ByteColumn exchanges
    cdef ByteColumn routing_keys
    cdef ByteColumn properties
    cdef NumberColumn offsets
    cdef NumberColumn redelivered
    cdef bint timed
    cdef readonly Py_ssize_t count
    cdef readonly unsigned long long next_offset
    cpdef int begin(self) except -1
    cpdef Py_ssize_t unpack(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    cdef int put_properties(self, const unsigned char* header, Py_ssize_t size, unsigned long long offset,
                            unsigned long long time_ms) except -1
