import cython
from embermq.store.disk.filesystem cimport FileSystem

cdef class Dirty:
    cdef readonly frozenset files
    cdef readonly frozenset directories
    cdef readonly frozenset acks

cdef class Batch:
    cdef public set files
    cdef public set directories
    cdef public set acks
    cdef public bint everything
    cdef public bint with_acks
    cdef public list callbacks
    cpdef bint is_dirty(self) except -1
    cpdef bint is_small(self) except -1

@cython.final
cdef class SyncSpeed:
    cdef double quick_seconds
    cdef double slow_seconds
    cdef double average_seconds
    cdef double weight
    cdef Py_ssize_t syncs_until_quick
    cpdef void call_quick(self, double seconds) except *
    cpdef bint is_quick(self) except -1
    cpdef void note(self, double seconds) except *
    cpdef void pause(self, Py_ssize_t syncs) except *

cpdef void call_all(list callbacks, object failure) except *

cdef class Committer:
    cdef readonly FileSystem filesystem
    cdef object _directory
    cdef readonly object sync
    cdef public object failure
    cdef readonly object sync_times
    cdef object _call_soon_threadsafe
    cdef Batch _batch
    cdef object _lock
    cdef object _wake
    cdef bint _closing
    cdef double _ack_sync_seconds_max
    cdef double _acks_synced_at
    cdef bint _busy
    cdef bint _asleep
    cdef Py_ssize_t _handed_back
    cdef SyncSpeed _speed
    cdef object _turns
    cdef unsigned long long _next_turn
    cdef object _thread

    @cython.locals(batch=Batch, dirty=Dirty)
    cpdef void mark_dirty(self, object log) except *
    @cython.locals(batch=Batch)
    cpdef void request(self, object callback, bint with_acks=*) except *
    @cython.locals(batch=Batch)
    cpdef bint may_write_synced(self, unsigned long long turn) except -1
    cpdef void wrote_synced(self, unsigned long long turn, double seconds) except *
    cdef bint _is_alone(self, Batch batch) except -1
    cdef object _synced(self, Batch batch)
    cdef Batch _take_batch(self)
    cpdef void _sync(self, Batch batch) except *
