cimport cython

from embermq.client.core.message cimport Message

cdef class Commands:
    cdef public object queue
    cdef public int resting
    cdef public object wake_up

    cpdef int post_ack(self, Message message) except -1

@cython.locals(acked=list)
cpdef run_all(object queue)
