from embermq.store.log cimport Log

cdef class Logged:
    cdef public bint dirty
    cdef public str log_id
    cdef public Log log

cdef class Sink:
    cdef public bint dirty
    cdef public int direct
    cpdef int end_turn(self) except -1
    cpdef bint has_little(self) except -1
    cpdef bytes answer_ahead(self)
    cpdef int answered(self, bytes answer, Py_ssize_t told) except -1

cdef class LogWriter:
    cpdef list write(self, list levels, unsigned long long turn)
    cpdef bint write_synced(self, Logged level, unsigned long long turn, Sink waiting) except -1
