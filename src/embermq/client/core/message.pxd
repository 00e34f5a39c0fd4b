cimport cython

@cython.no_gc_clear
cdef class Message:
    cdef readonly object _channel
    cdef object _decoded
    cdef readonly long long _epoch
    cdef bytes _raw_properties
    cdef readonly bytes body
    cdef readonly str consumer_tag
    cdef readonly unsigned long long delivery_tag
    cdef readonly str exchange
    cdef public long long message_count
    cdef readonly bint redelivered
    cdef public str reply_text
    cdef readonly str routing_key
    cdef public bint settled
    cdef public bint told
