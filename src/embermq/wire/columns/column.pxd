cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE


@cython.final
cdef class ByteColumn:
    cdef bytearray data
    cdef bytearray places
    cdef list spares
    cdef Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef bytearray blank(self, Py_ssize_t size)
    cdef int grow_places(self) except -1
    cdef int grow(self, Py_ssize_t wanted) except -1
    cpdef int append(self, bytearray buf, Py_ssize_t start, Py_ssize_t stop) except -1
    cpdef int end(self) except -1
    cpdef int forget_after(self, Py_ssize_t count) except -1
    cpdef tuple take(self, Py_ssize_t count)


cdef inline unsigned char* room(ByteColumn column, Py_ssize_t size) except NULL:
    """Where to write the next `size` bytes of the value that is being put together; they count as written."""
    cdef Py_ssize_t at = column.size
    if at + size > PyByteArray_GET_SIZE(column.data):
        column.grow(at + size)
    column.size = at + size
    return <unsigned char*>PyByteArray_AS_STRING(column.data) + at


cdef inline int end(ByteColumn column) except -1:
    """That value is whole."""
    column.count += 1
    if 4 * (column.count + 1) > PyByteArray_GET_SIZE(column.places):
        column.grow_places()
    (<int*>PyByteArray_AS_STRING(column.places))[column.count] = <int>column.size
    return 0


@cython.final
cdef class NumberColumn:
    cdef bytearray data
    cdef readonly Py_ssize_t count
    cpdef int append(self, long long value) except -1
    cpdef int forget_after(self, Py_ssize_t count) except -1
    cpdef bytearray take(self, Py_ssize_t count)


cpdef long long field_value(bytearray buf, Py_ssize_t start, Py_ssize_t stop, bytes field) except? -1


@cython.final
cdef class Delivery:
    cdef readonly unsigned long long tag
    cdef readonly bint redelivered
    cdef readonly Py_ssize_t names_at
    cdef readonly Py_ssize_t names_stop
    cdef readonly Py_ssize_t properties_at
    cdef readonly Py_ssize_t properties_stop
    cdef readonly Py_ssize_t body_at
    cdef readonly Py_ssize_t body_stop
    cpdef Py_ssize_t find(self, bytearray buf, Py_ssize_t pos, Py_ssize_t end, int channel, bytes consumer) except -1
