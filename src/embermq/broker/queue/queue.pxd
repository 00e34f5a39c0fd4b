from embermq.broker.message.message cimport Message
from embermq.broker.queue.level cimport Entry
from embermq.broker.turn cimport Turn

cdef class Queue:
    cdef public str name
    cdef public object vhost
    cdef public bint durable
    cdef public bint auto_delete
    cdef public object owner
    cdef public dict arguments
    cdef public dict effective
    cdef public bint dirty
    cdef public bint deleted
    cdef public list consumers
    cdef readonly Turn turn
    cdef public list levels
    cdef public object rules
    cdef public object selection
    cdef readonly str id
    cdef readonly int keeps
    cdef readonly bint messages_leave
    cdef readonly Py_ssize_t ready_count
    cdef public Py_ssize_t ready_bytes
    cdef readonly Py_ssize_t unacked_count
    cdef readonly Py_ssize_t unacked_bytes
    cdef readonly unsigned long long published_count
    cdef readonly unsigned long long delivered_count
    cdef readonly unsigned long long no_ack_count
    cdef readonly unsigned long long get_count
    cdef readonly unsigned long long get_no_ack_count
    cdef readonly unsigned long long get_empty_count
    cdef readonly unsigned long long acked_count
    cdef readonly unsigned long long redelivered_count
    cpdef int append(self, Message message) except -1
    cpdef bint append_spans(
        self, bytes prefix, bytearray buf, Py_ssize_t header_at, Py_ssize_t header_stop,
        Py_ssize_t body_at, Py_ssize_t body_stop
    ) except -1
    cpdef int mark(self) except -1
    cpdef bint drain(self) except -1
    cpdef Entry take_head(self)
    cpdef int expects_expiry(self, unsigned long long expires_ms) except -1
    cpdef Entry get(self, bint no_ack=*)
    cpdef int settle(self, Entry entry) except -1
    cpdef bint is_pressed(self, bint half=*) except -1
