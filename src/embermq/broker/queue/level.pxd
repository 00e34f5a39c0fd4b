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
    cdef readonly object queue
    cdef readonly object storage
    cdef Turn turn
    cdef readonly bint durable
    cdef readonly bint keeps_place
    cdef readonly bint unread
    cdef readonly Ring ring
    cdef readonly Py_ssize_t ring_bytes
    cdef readonly set held
    cdef readonly set came_back
    cdef readonly object returned
    cdef readonly Py_ssize_t paged_count
    cdef readonly bint fetching
    cdef readonly unsigned long long paged_from
    cdef readonly unsigned long long next_sequence
    cdef readonly unsigned long long redelivered_below
    cdef readonly unsigned long long unmeasured_below
    cdef readonly unsigned long long delivered_up_to
    cdef readonly dict returns
    cdef readonly long long ttl_ms
    cdef readonly list ttl_history
    cdef Py_ssize_t meta_header_size
    cdef int meta_priority
    cdef bytes meta
    @cython.locals(entry=Entry, sequence=cython.ulonglong, keep=cython.bint)
    cpdef int append(self, Message message, unsigned long long expires_ms) except -1
    @cython.locals(log=Log)
    cdef int store(self, unsigned long long sequence, Message message, int flags) except -1
    cdef int append_record(self, Message message) except -1
    @cython.locals(log=Log)
    cdef bint append_spans(
        self, bytes prefix, bytearray buf, Py_ssize_t header_at, Py_ssize_t header_stop,
        Py_ssize_t body_at, Py_ssize_t body_stop
    ) except -1
    cpdef int mark(self) except -1
    cpdef Entry front(self)
    cpdef Entry front_at_hand(self)
    cpdef bint is_at_hand(self) except -1
    @cython.locals(entry=Entry)
    cpdef Entry take(self)
    @cython.locals(ring=Ring, entry=Entry, index=Py_ssize_t)
    cpdef Entry take_at(self, unsigned long long sequence)
    @cython.locals(ring=Ring, entry=Entry, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cpdef Py_ssize_t index_from(self, unsigned long long first) except -1
    cpdef long long ttl_of(self, unsigned long long sequence) except -2
    cpdef int forget(self, Entry entry) except -1
