import cython

from embermq.amqp.confirming cimport Confirming
from embermq.amqp.link cimport Link
from embermq.broker.gathering cimport Gathering

cdef class Sending(Link):
    cdef public object shell
    cdef public int state
    cdef public dict capabilities
    cdef public dict channels
    cdef object parting_s
    cdef readonly unsigned long long sent_bytes

    @cython.locals(channel=Confirming, channels=Gathering)
    cpdef bytes answer_ahead(self)
    @cython.locals(channel=Confirming, size=Py_ssize_t)
    cpdef int answered(self, bytes answer, Py_ssize_t told) except -1
    @cython.locals(channel=Confirming, only=Confirming)
    cpdef int end_turn(self) except -1
