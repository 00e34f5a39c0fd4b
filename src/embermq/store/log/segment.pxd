import cython

from embermq.store.log.bitmap cimport Bitmap
from embermq.store.log.record cimport Header, Record, keep_alive, put_record

cdef class Segment:
    cdef public str name
    cdef public str ack_name
    cdef public unsigned long long first
    cdef public unsigned long long last
    cdef public unsigned long long identity
    cdef public unsigned int seed
    cdef public Py_ssize_t count
    cdef public Bitmap live
    cdef public Py_ssize_t written
    cdef public Py_ssize_t reach
    cdef public Py_ssize_t writes
    cdef public Py_ssize_t size
    cdef public bytearray buffer
    cdef public Py_ssize_t fill
    cdef public Py_ssize_t pending
    cdef public Py_ssize_t pending_at
    cdef public unsigned long long pending_first
    cdef public Py_ssize_t buried
    cdef public Py_ssize_t cuts
    cdef public bint created
    cdef public bint queued
    cdef public bint sealed
    cdef public bint indexed
    cdef public bint removed
    cdef public unsigned long long time_max
    cdef public Py_ssize_t index_at
    cdef public object index_sequences
    cdef public object index_positions
    cdef public object index_times
    cdef public unsigned long long ack_first
    cdef public Py_ssize_t ack_count
    cdef public bytearray ack_buffer
    cdef public Py_ssize_t ack_written
    cdef public bint ack_dirty

    @cython.locals(fill=Py_ssize_t)
    cpdef void append(
        self, unsigned long long sequence, unsigned long long timestamp_ms, int flags, tuple parts
    ) except *
    cdef void appended(
        self, unsigned long long sequence, unsigned long long timestamp_ms, Py_ssize_t fill
    ) except *
    cpdef void borrow_buffer(self, bytearray buffer) except *
    cpdef bytearray return_buffer(self)
    cpdef bint must_grow(self) except -1
    cpdef void forget_written(self, Py_ssize_t size) except *
    cdef bint is_pending(self, unsigned long long sequence) except -1
    cdef bint bury(self, unsigned long long sequence) except -1
    @cython.locals(size=Py_ssize_t, fill=Py_ssize_t)
    cpdef Py_ssize_t drop_buried(self) except -1
    @cython.locals(end=cython.ulonglong)
    cpdef bint ack(self, unsigned long long sequence) except -1
    cpdef void end_ack_run(self) except *
    cpdef void add_index(self, unsigned long long sequence, Py_ssize_t position) except *
    @cython.locals(live=Bitmap, sequence=cython.ulonglong)
    cdef bint _none_alive(self, unsigned long long begin, unsigned long long end) except -1

@cython.locals(header=Header, stop=Py_ssize_t)
cpdef Py_ssize_t find_record(
    bytes data, Py_ssize_t position, unsigned int seed, unsigned long long low, unsigned long long high
) except -2

@cython.locals(
    live=Bitmap, header=Header, seed=cython.uint, end=Py_ssize_t, taken=Py_ssize_t, payload=bytes,
    sequence=cython.ulonglong, low=cython.ulonglong, high=cython.ulonglong
)
cpdef Py_ssize_t parse_records(
    bytes data, Py_ssize_t position, Segment segment, unsigned long long sequence_min, Py_ssize_t bytes_max,
    list records
) except -1
