cimport cython

from embermq.broker.queue.expiry cimport Expiry
from embermq.broker.queue.level cimport Level
from embermq.broker.queue.length_limit cimport Limits
from embermq.broker.message.message cimport Message, expiry_of
from embermq.broker.queue.classic cimport ClassicQueue
from embermq.broker.turn cimport Turn

cdef int HIGH_PRIORITY_MIN

cdef class QueueRules:
    cdef public ClassicQueue queue
    cdef public Turn turn
    cdef public object active
    cdef public object priorities
    cdef public list fleeting
    cdef public long long dropped_maxlen
    cdef public long long dropped_expired
    cdef public object deduplication
    cdef public Expiry expiry
    cdef public Limits limits
    cdef public object dead_letter_exchange
    cdef public object dead_letter_routing_key
    cdef public bint holds_letters
    cdef public bint single_active
    cdef public object delivery_limit
    cdef public object retry
    cdef public bint counts_returns
    cpdef int append(self, Message message) except -1
    @cython.locals(queue=ClassicQueue, limits=Limits, now_ms=cython.longlong, expires_ms=cython.longlong)
    cpdef int take(self, Message message) except -1
    cdef int take_fleeting(self, Message message) except -1
    @cython.locals(limits=Limits)
    cpdef int drained(self, bint left) except -1
    cpdef int accept(self, Message message, long long expires_ms) except -1
    cpdef Level level_for(self, Message message)
    cpdef int schedule_next_check(self) except -1
    cpdef int schedule_check(self, long long due_ms) except -1
