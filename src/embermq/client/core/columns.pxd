cimport cython

from embermq.wire.columns.column cimport ByteColumn, NumberColumn, field_value

cdef bytes OFFSET_FIELD
cdef bytes OFFSET_NAME

cdef class Columns:
    cdef ByteColumn bodies
    cdef ByteColumn exchanges
    cdef ByteColumn properties
    cdef ByteColumn routing_keys
    cdef NumberColumn offsets
    cdef NumberColumn redelivered
    cdef readonly Py_ssize_t count
    cdef unsigned long long tag
    cdef readonly unsigned long long last_tag

    @cython.locals(key_at=Py_ssize_t)
    cpdef int on_deliver(self, bytearray buf, unsigned long long tag, bint redelivered, Py_ssize_t pos,
                         Py_ssize_t stop) except -1
    @cython.locals(offset=cython.longlong)
    cpdef int on_header(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    cpdef int on_body(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    cpdef int whole(self) except -1
