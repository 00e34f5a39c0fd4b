from embermq.broker.turn cimport Turn

cdef class Expiry:
    cdef public object queue
    cdef public Turn turn
    cdef public long long ttl_ms
    cdef public object unused_ms_max
    cdef public long long used_at_ms
    cdef public long long asked_ms
    cpdef int schedule_check(self, long long due_ms) except -1
    cpdef int schedule_next_check(self) except -1
