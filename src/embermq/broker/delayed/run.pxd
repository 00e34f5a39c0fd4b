from embermq.broker.delayed.record cimport Delayed
from embermq.broker.interfaces cimport Logged

cdef class Part(Logged):
    cdef object turn
    cpdef int mark(self) except -1
    cpdef int append(self, Delayed delayed) except -1
    cpdef int ack(self, unsigned long long sequence) except -1

cdef class Run(Part):
    cdef readonly object window
    cdef readonly Py_ssize_t unread_count
    cdef readonly unsigned long long unread_from
    cdef readonly unsigned long long last_due_ms
    cdef public tuple front
    cpdef int add(self, Delayed delayed, Py_ssize_t window_max) except -1
    cpdef Delayed take(self, Py_ssize_t read_bytes)
