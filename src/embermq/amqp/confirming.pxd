from embermq.amqp.deliveries cimport Deliveries
from embermq.amqp.link cimport Link

cdef class Confirming(Deliveries):
    cdef public Link link
    cdef public int number
    cdef public object connection
    cdef public bint closing
    cdef public bint confirming
    cdef bint confirm_pending
    cdef public unsigned long long published
    cdef readonly unsigned long long confirmed
    cdef unsigned long long safe
    cdef public bint unsafe
    cdef tuple kept_in
    cdef int syncs_under_way
    cdef object nacks
    cdef public bint turned_away

    cdef int count_published(self, Py_ssize_t count) except -1
    cpdef int keep(self, tuple queues) except -1
    cpdef int put_confirms(self) except -1
    cdef int refused(self) except -1
    cdef int put_ack(self) except -1
