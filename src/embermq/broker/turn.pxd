cdef class Turn:
    cdef object schedule
    cdef bint scheduled
    cdef list queues
    cdef list sinks
    cpdef int add_queue(self, object queue) except -1
    cpdef int add_sink(self, object sink) except -1
    cdef int wake(self) except -1
