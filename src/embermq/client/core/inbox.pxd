from embermq.client.core.columns cimport Columns

cdef class Inbox:
    cdef public long long buffered_bytes
    cdef public long long bytes_max
    cdef public bint cancelled
    cdef public Columns columns
    cdef public object consume
    cdef public bint ended_well
    cdef public object error
    cdef public bint has_credit
    cdef public list messages
    cdef public bint no_ack
    cdef public object progress
    cdef public str tag
    cdef public bint touched
