import cython

from embermq.amqp.confirming cimport Confirming
from embermq.amqp.link cimport Link

cdef class Sending(Link):
    cdef public object shell
    cdef public int state
    cdef public dict capabilities
    cdef public dict channels
    cdef public list confirming_channels
    cdef object parting_s
    cdef readonly unsigned long long sent_bytes

    @cython.locals(channel=Confirming)
    cpdef bytes answer_ahead(self)
    cpdef int direct_line(self) except? -2
    @cython.locals(channel=Confirming, size=Py_ssize_t)
    cpdef void answered(self, bytes answer, Py_ssize_t told) except *
