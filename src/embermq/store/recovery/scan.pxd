import cython

from embermq.store.log.bitmap cimport Bitmap
from embermq.store.log.record cimport Header
from embermq.store.log.segment cimport Segment

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
        segment=Segment, live=Bitmap, gone=Bitmap, header=Header, seed=cython.uint, data=bytes, end=Py_ssize_t,
        low=cython.ulonglong, high=cython.ulonglong, sequence=cython.ulonglong, count=Py_ssize_t,
        keep_transient=bint
    )
    cpdef Py_ssize_t walk(self, Py_ssize_t position) except -1
