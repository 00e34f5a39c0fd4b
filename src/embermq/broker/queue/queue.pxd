cimport cython

from embermq.broker.queue.consumer cimport Consumer
from embermq.broker.queue.level cimport Entry, Level
from embermq.broker.message.message cimport Message
from embermq.broker.turn cimport Turn

cdef int HIGH_PRIORITY_MIN
cdef Py_ssize_t DRAIN_BUDGET
cdef Py_ssize_t PRESSED_COUNT
cdef Py_ssize_t PRESSED_BYTES

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
    cdef public Py_ssize_t next_consumer
    cdef public bint selective
    cdef readonly Turn turn
    cdef readonly Level low
    cdef readonly Level high
    cdef public list levels
    cdef public object rules
    cdef readonly str id
    cdef readonly int keeps
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
    cpdef int mark(self) except -1
    cdef int append_by_rules(self, Message message) except -1
    cpdef int accept(self, Message message, unsigned long long expires_ms) except -1
    cpdef int accept_at(self, Level level, Message message, unsigned long long expires_ms) except -1
    @cython.locals(entry=Entry, level=Level)
    cpdef Entry take_head(self)
    @cython.locals(entry=Entry)
    cpdef Entry take_from(self, Level level)
    cpdef int expire(self, Entry entry) except -1
    cpdef int expects_expiry(self, unsigned long long expires_ms) except -1
    @cython.locals(consumer=Consumer, count=Py_ssize_t, index=Py_ssize_t)
    cdef Consumer pick(self, Py_ssize_t size)
    cpdef int hand_over(self, Entry entry, Consumer consumer) except -1
    cpdef bint drain(self) except -1
    @cython.locals(entry=Entry, consumer=Consumer, level=Level, budget=Py_ssize_t, size=Py_ssize_t, overhead=Py_ssize_t)
    cdef bint drain_plainly(self) except -1
    cpdef Entry get(self, bint no_ack=*)
    cpdef int settle(self, Entry entry) except -1
    cpdef bint is_pressed(self, bint half=*) except -1
