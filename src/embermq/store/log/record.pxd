cdef class Record:
    cdef public unsigned long long sequence
    cdef public unsigned long long timestamp_ms
    cdef public int flags
    cdef public bytes payload
