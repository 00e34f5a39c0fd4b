import cython

from embermq.store.disk.filesystem cimport File, write_part
from embermq.store.sync.committer cimport Dirty
from embermq.store.disk.disk cimport Disk
from embermq.store.log.record cimport put_spans
from embermq.store.log.segment cimport Segment

cdef unsigned long long EVERYTHING
cdef unsigned long long SPAN_MAX
cdef unsigned long long DRAINED_SPAN

cdef class Log:
    cdef public str directory
    cdef public Disk disk
    cdef public bint has_directory
    cdef public bint has_label
    cdef public object owner
    cdef public frozenset dirty_files
    cdef public frozenset dirty_directories
    cdef public frozenset dirty_acks
    cdef public object recovery
    cdef public Py_ssize_t segment_bytes
    cdef public list segments
    cdef public unsigned long long next_sequence
    cdef public Py_ssize_t count
    cdef public Py_ssize_t bytes_on_disk
    cdef public Segment active
    cdef public Segment ack_segment
    cdef public list unwritten
    cdef public list ack_dirty
    cdef public list finished
    cdef public object reader
    cdef public bint in_order
    cdef public bint was_deep
    cdef public bint spared
    cdef public bint wrote
    cdef public unsigned long long spared_in
    cdef public unsigned long long wrote_in
    cdef public unsigned long long removable_below

    @cython.locals(segment=Segment, size=Py_ssize_t)
    cpdef void append(
        self, unsigned long long sequence, unsigned long long timestamp_ms, int flags, tuple parts
    ) except *
    cdef void _queue(self, Segment segment) except *
    cpdef void roll(self) except *
    @cython.locals(segment=Segment)
    cdef Segment _begin_segment(self, unsigned long long sequence, unsigned long long timestamp_ms)
    cpdef bint may_bury(self) except -1
    @cython.locals(segment=Segment)
    cpdef bint ack(self, unsigned long long sequence) except -1
    @cython.locals(active=Segment, segment=Segment)
    cpdef void write(self) except *
    @cython.locals(segment=Segment, file=File, done=Py_ssize_t)
    cpdef bint write_synced(self) except -1
    cdef void _write_segment(self, Segment segment) except *
    @cython.locals(segments=list, segment=Segment, low=Py_ssize_t, high=Py_ssize_t, middle=Py_ssize_t)
    cpdef Segment segment_from(self, unsigned long long sequence)
    @cython.locals(segment=Segment, fill=Py_ssize_t, end=Py_ssize_t)
    cpdef bint append_spans(
        self, unsigned long long sequence, unsigned long long timestamp_ms, int flags, bytes prefix,
        bytearray source, Py_ssize_t start_1, Py_ssize_t stop_1, Py_ssize_t start_2, Py_ssize_t stop_2
    ) except -1
    cdef File file(self, str name, bint exists)
    @cython.locals(file=File, acks=bytearray, done=Py_ssize_t)
    cdef void write_acks(self, Segment segment) except *
    cpdef Dirty take_dirty(self)
