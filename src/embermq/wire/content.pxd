from embermq.wire.field_scan cimport FieldScan
from embermq.wire.kernel cimport load_u16

cdef class Peek:
    cdef public int delivery_mode
    cdef public int priority
    cdef public Py_ssize_t headers_at
    cdef public Py_ssize_t expiration_at
    cdef public Py_ssize_t user_id_at
    cdef public Py_ssize_t reply_to_at
    cdef readonly FieldScan special
    cpdef int read(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1

cdef Py_ssize_t skip_shortstr(bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
