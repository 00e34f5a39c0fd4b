cimport cython

from embermq.client.core.incoming cimport Incoming
from embermq.client.core.outlet cimport Outlet
from embermq.client.core.publication cimport Outgoing, Publication, Receipt, as_bytes, raw_properties
from embermq.wire.columns.publish_rows cimport Rows

cdef class Publishing(Incoming):
    cdef public bint confirming
    cdef public long long held
    cdef public unsigned long long lowest_unconfirmed
    cdef public long long mandatory_count
    cdef public unsigned long long publish_tag
    cdef public bint ready
    cdef public object runs
    cdef public bint transaction_lost
    cdef public bint transaction_open
    cdef public bint transactional
    cdef public dict unconfirmed
    cdef public list unsent

    @cython.locals(publication=Publication)
    cpdef int publish(self, bytes method, bytes properties, bytes body, bint mandatory, Receipt receipt) except -1
    @cython.locals(engine=Outlet, size=Py_ssize_t, route=bytes, body=bytes)
    cpdef bint publish_some(self, object messages, str exchange, str routing_key, bytes properties, bint mandatory,
                            Receipt receipt, Py_ssize_t bytes_max) except -1
    @cython.locals(body=bytes)
    cdef Py_ssize_t publish_outgoing(self, Outgoing item, str exchange, str routing_key, bytes properties,
                                     bint mandatory, Receipt receipt) except -1
    @cython.locals(lowest=cython.ulonglong)
    cpdef int on_confirm(self, unsigned long long tag, bint multiple, bint acked) except -1
    cdef int settle(self, Publication publication, bint acked) except -1
    @cython.locals(kept=Publication, one=Py_ssize_t, stop=Py_ssize_t)
    cpdef Py_ssize_t publish_rows(self, Rows rows, Py_ssize_t row, bint mandatory, Receipt receipt,
                                  Py_ssize_t bytes_max) except -1
