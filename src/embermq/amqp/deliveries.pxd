cimport cython

from embermq.broker.level cimport Entry, Level
from embermq.broker.consumer cimport Consumer
from embermq.broker.queue cimport Queue

cdef Py_ssize_t SPARSE_COUNT

cdef class Deliveries:
    cdef public dict consumers
    cdef public unsigned long long delivery_tag
    cdef public unsigned long long no_ack_count
    cdef public unsigned long long acked_count
    cdef public Py_ssize_t prefetch_count
    cdef public Py_ssize_t prefetch_size
    cdef public Py_ssize_t shared_prefetch_count
    cdef public Py_ssize_t shared_prefetch_size
    cdef public Py_ssize_t shared_unacked
    cdef public Py_ssize_t shared_unacked_bytes
    cdef public dict unacked
    cdef public list older
    cdef public list older_ends
    cpdef int begin_block(self) except -1
    cpdef Entry take_older(self, unsigned long long delivery_tag)
    cpdef bint spans_blocks(self, unsigned long long delivery_tag) except -1
    @cython.locals(entry=Entry, unacked=dict)
    cpdef list take_unacked(self, unsigned long long delivery_tag, bint multiple)
    @cython.locals(consumer=Consumer, size=Py_ssize_t)
    cpdef int release(self, Entry entry) except -1
    @cython.locals(entry=Entry)
    cpdef int release_all(self, list entries) except -1
    @cython.locals(entry=Entry, queue=Queue)
    cpdef int settle(self, list entries) except -1
    @cython.locals(consumer=Consumer)
    cpdef int credit_returned(self) except -1
