cimport cython

from embermq.broker.queue.consumer cimport Consumer
from embermq.broker.queue.level cimport Entry, Level
from embermq.broker.message.message cimport Message
from embermq.broker.queue.queue cimport Queue
from embermq.broker.turn cimport Turn

cdef int HIGH_PRIORITY_MIN
cdef Py_ssize_t DRAIN_BUDGET
cdef Py_ssize_t PRESSED_COUNT
cdef Py_ssize_t PRESSED_BYTES

cdef class ClassicQueue(Queue):
    cdef public Py_ssize_t next_consumer
    cdef public bint selective
    cdef readonly Level low
    cdef readonly Level high
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
