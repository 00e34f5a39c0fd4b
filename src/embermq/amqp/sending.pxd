import cython

from embermq.amqp.confirming cimport Confirming
from embermq.amqp.link cimport Link

cdef class Sending(Link):
    cdef public object shell
    cdef public int state
    cdef public dict capabilities
    cdef public dict channels
    cdef object parting_s
    cdef readonly unsigned long long sent_bytes

    @cython.locals(channel=Confirming, channels=list)
    cpdef int end_turn(self) except -1
