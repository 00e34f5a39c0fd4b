cimport cython

from embermq.client.core.columns cimport Columns
from embermq.client.core.inbox cimport Inbox
from embermq.client.core.message cimport Message
from embermq.client.core.outlet cimport Outlet
from embermq.wire.columns.column cimport Delivery
from embermq.wire.kernel cimport cut, load_u16, load_u64, same

cdef int CLASS_BASIC
cdef int ROW_BYTES
cdef int CONTENT_HEADER_BYTES

cdef class Incoming:
    cdef public Outlet engine
    cdef public int number
    cdef public long long epoch
    cdef public dict consumers
    cdef Delivery delivery
    cdef Inbox last_consumer
    cdef public bytes last_consumer_bytes
    cdef str last_exchange
    cdef str last_routing_key
    cdef bytes last_names_bytes
    cdef bytes last_properties
    cdef object incoming_method
    cdef Inbox incoming_consumer
    cdef unsigned long long incoming_tag
    cdef bint incoming_redelivered
    cdef bytes incoming_properties
    cdef long long incoming_body
    cdef long long incoming_missing
    cdef list incoming_parts

    @cython.locals(known=bytes, after=Py_ssize_t, inbox=Inbox)
    cpdef int on_deliver(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(inbox=Inbox, columns=Columns, delivery=Delivery, after=Py_ssize_t, again=cython.bint)
    cpdef Py_ssize_t on_deliveries(self, bytearray buf, Py_ssize_t pos, Py_ssize_t end) except -1
    @cython.locals(size=Py_ssize_t, names=bytes, exchange_end=Py_ssize_t)
    cdef int read_names(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(known=bytes, inbox=Inbox)
    cpdef int on_header(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(size=Py_ssize_t, inbox=Inbox)
    cpdef int on_body(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1
    @cython.locals(inbox=Inbox, message=Message)
    cdef int arrived(self, bytes body) except -1
    cdef int arrived_in_columns(self, Inbox inbox) except -1
    cdef int came(self, Inbox inbox, long long size) except -1
