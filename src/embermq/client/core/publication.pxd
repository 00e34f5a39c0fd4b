cdef class Outgoing:
    cdef public object body
    cdef public object exchange
    cdef public object mandatory
    cdef public object properties
    cdef public object routing_key

cdef class Receipt:
    cdef public object error
    cdef public long long nacked
    cdef public long long outstanding
    cdef public list returned
    cdef public object waiter
    cpdef int settle(self, bint acked, object returned) except -1

cdef class Publication:
    cdef public bytes method
    cdef public bytes properties
    cdef public bytes body
    cdef public bint mandatory
    cdef public Receipt receipt
    cdef public int refusals
    cdef public object returned

cpdef bytes as_bytes(object body)
cpdef bytes raw_properties(object properties)
