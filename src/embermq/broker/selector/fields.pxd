cimport cython

from embermq.broker.message.message cimport Message
from embermq.wire.field_scan cimport FieldScan

cdef int COUNT
cdef int HEADERS
cdef int DELIVERY_MODE
cdef int PRIORITY
cdef int TIMESTAMP
cdef int ROUTING_KEY
cdef int EXCHANGE
cdef int SIZE
cdef int REDELIVERED
cdef int TIMESTAMP_MS
cdef int DELIVERY_MODE_NAME
cdef int FIRST_FLAG

cdef class Header:
    cdef Py_ssize_t place
    cdef public FieldScan scan
    cdef int number
    cdef tuple path

cdef class Fields:
    cdef readonly Py_ssize_t count
    cdef readonly list scans
    cdef list headers
    cdef list facts
    cdef bint reads_properties
    cdef Py_ssize_t headers_at
    cdef list at
    cpdef list of_message(self, Message message, bint redelivered)
    @cython.locals(scan=FieldScan, header=Header, which=int, place=Py_ssize_t, start=Py_ssize_t)
    cpdef list read(self, bytes names, Py_ssize_t names_at, bytes content, Py_ssize_t content_at,
                    Py_ssize_t header_size, Py_ssize_t body_size, bint redelivered)
    @cython.locals(flags=int, more=int, last=int, which=int)
    cdef find_properties(self, bytes content, Py_ssize_t pos)
    @cython.locals(at=Py_ssize_t, mode=int)
    cdef object property_value(self, bytes content, int which)

cdef str shortstr(bytes buf, Py_ssize_t at)
cdef object inner(object value, tuple path)
cdef object plain(object value)
