from embermq.broker.message.message cimport Message

cdef class Delayed:
    cdef public unsigned long long due_ms
    cdef public unsigned long long number
    cdef public str destination
    cdef public Message message
    cdef public tuple keys
    cdef public long returns
    cdef public unsigned long long since_ms
    cdef public bint keeps
    cdef public object part
    cdef public unsigned long long sequence
    cdef public tuple payload
    cpdef tuple record(self)

cpdef tuple number_and_destination(bytes payload)
cpdef bytes packed(str text)
