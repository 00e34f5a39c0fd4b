from embermq.store.log.log cimport Log

cdef class Logged:
    cdef public bint dirty
    cdef public str log_id
    cdef public Log log

cdef class Sink:
    cdef public bint dirty
    cpdef int end_turn(self) except -1
    cpdef bint has_little(self) except -1

cdef class LogWriter:
    cpdef list write(self, list levels, unsigned long long turn)
    cpdef bint write_synced(self, Logged level, unsigned long long turn) except -1
    cpdef void when_safe(self, object callback, bint with_acks=*) except *
