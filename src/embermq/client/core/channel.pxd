cimport cython

from embermq.client.core.message cimport Message
from embermq.client.core.outlet cimport Outlet
from embermq.client.core.publishing cimport Publishing

cdef class ChannelCore(Publishing):
    cdef public unsigned long long acked_through
    cdef public bint closing
    cdef public object error
    cdef public bint flow_active
    cdef public object last_queue
    cdef public list qos
    cdef public object requests
    cdef public list waiting

    @cython.locals(engine=Outlet)
    cpdef int settle_delivery(self, Message message, int kind, bint multiple, bint requeue) except -1
    cpdef int settle_delivery_now(self, Message message, int kind, bint multiple, bint requeue) except -1
    @cython.locals(engine=Outlet)
    cpdef int ack(self, unsigned long long delivery_tag, bint multiple, long long epoch) except -1
