cdef class Limits:
    cdef public long long count_max
    cdef public long long bytes_max
    cdef public bint counts_bytes
    cdef public bint drops_head
    cdef public bint behind
    cdef public bint dead_letters_refused
    cpdef bint exceeded(self, long long count, long long size) except -1
