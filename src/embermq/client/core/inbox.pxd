from embermq.client.core.columns cimport Columns

cdef class Inbox:
    cdef public long long buffered_bytes
    cdef public long long bytes_max
    cdef public Columns columns
    cdef public object consume
    cdef public object error
    cdef public bint has_credit
    cdef public list messages
    cdef public bint no_ack
    cdef public str tag
    cdef public bint touched
