cimport cython

from embermq.broker.stream.stream cimport Stream
from embermq.store.log.log cimport Log

cdef class StreamRetention:
    cdef Stream stream
    cdef readonly object limits
    cdef object limits_of
    cdef unsigned long long looks_at_ms
    @cython.locals(stream=Stream, log=Log)
    cpdef void retain(self) except *
