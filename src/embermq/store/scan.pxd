import cython

from embermq.store.bitmap cimport Bitmap
from embermq.store.record cimport Record
from embermq.store.segment cimport Segment

cdef class Walk:
    cdef public Segment segment
    cdef public bytes data
    cdef public unsigned long long low
    cdef public unsigned long long high
    cdef public Bitmap gone
    cdef public bint keep_transient
    cdef public Py_ssize_t forgotten
    cdef public Py_ssize_t live_bytes

    @cython.locals(
        segment=Segment, live=Bitmap, gone=Bitmap, seed=object, data=bytes, stop=Py_ssize_t, end=Py_ssize_t,
        low=cython.ulonglong, high=cython.ulonglong, sequence=cython.ulonglong, timestamp_ms=cython.ulonglong,
        length=Py_ssize_t, flags=int, count=Py_ssize_t, keep_transient=bint
    )
    cpdef Py_ssize_t walk(self, Py_ssize_t position) except -1

@cython.locals(stop=Py_ssize_t, end=Py_ssize_t, length=Py_ssize_t, sequence=cython.ulonglong)
cpdef Py_ssize_t find_record(
    bytes data, Py_ssize_t position, object seed, unsigned long long low, unsigned long long high
) except -2

@cython.locals(
    live=Bitmap, seed=object, stop=Py_ssize_t, end=Py_ssize_t, taken=Py_ssize_t, length=Py_ssize_t,
    sequence=cython.ulonglong, timestamp_ms=cython.ulonglong, flags=int
)
cpdef Py_ssize_t parse_records(
    bytes data, Py_ssize_t position, Segment segment, unsigned long long sequence_min, Py_ssize_t bytes_max,
    list records
) except -1
