cimport cython

from embermq.broker.interfaces cimport Logged
from embermq.broker.message.message cimport Message
from embermq.broker.queue.ring cimport Ring
from embermq.broker.turn cimport Turn
from embermq.store.log.log cimport Log

cdef Py_ssize_t WINDOW_COUNT
cdef Py_ssize_t WINDOW_BYTES
cdef Py_ssize_t TIGHT_COUNT
cdef Py_ssize_t TIGHT_BYTES
cdef Py_ssize_t REFILL_COUNT
cdef int PERSISTENT
cdef int TRANSIENT

cdef class Level

@cython.final
@cython.freelist(512)
@cython.no_gc
cdef class Entry:
    cdef public Message message
    cdef readonly Level level
    cdef public unsigned long long sequence
    cdef public unsigned long long delivery_tag
    cdef public bint redelivered
    cdef public bint stored
    cdef public unsigned long long expires_ms
    cdef public int returns
    cdef public object consumer

cdef class Level(Logged):
    cdef public object queue
    cdef public object storage
    cdef Turn turn
    cdef public bint durable
    cdef public bint keeps_place
    cdef public bint unread
    cdef public Ring ring
    cdef public Py_ssize_t ring_bytes
    cdef public set held
    cdef public object returned
    cdef public Py_ssize_t paged_count
    cdef public bint fetching
    cdef public unsigned long long paged_from
    cdef public unsigned long long next_sequence
    cdef public unsigned long long redelivered_below
    cdef public unsigned long long unweighed_below
    cdef public unsigned long long delivered_up_to
    cdef public dict returns
    cdef public long long ttl_ms
    cdef public list ttl_history
    cdef Py_ssize_t meta_header_size
    cdef int meta_priority
    cdef bytes meta
    @cython.locals(entry=Entry, sequence=cython.ulonglong, keep=cython.bint)
    cpdef int append(self, Message message, unsigned long long expires_ms) except -1
    @cython.locals(log=Log)
    cdef int store(self, unsigned long long sequence, Message message, int flags) except -1
    cpdef int mark(self) except -1
    cpdef Entry front(self)
    cpdef Entry front_at_hand(self)
    cpdef bint is_at_hand(self) except -1
    @cython.locals(entry=Entry)
    cpdef Entry take(self)
    cpdef long long ttl_of(self, unsigned long long sequence) except -2
    cpdef int forget(self, Entry entry) except -1
