cimport cython

from embermq.client.core.columns cimport Columns
from embermq.wire.columns.block cimport BlockRows
from embermq.wire.columns.column cimport field_value

cdef bytes BLOCK_FIELD

cdef class BlockColumns(Columns):
    cdef BlockRows rows
    cdef long long promised
    cdef bytearray rest

    cpdef int on_deliver(self, bytearray buf, unsigned long long tag, bint redelivered, Py_ssize_t pos,
                         Py_ssize_t stop) except -1
    cpdef int on_header(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(done=Py_ssize_t)
    cpdef int on_body(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    cpdef int whole(self) except -1
