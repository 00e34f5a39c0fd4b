cimport cython

from embermq.store.kernel cimport put_spans
from embermq.store.log cimport Log
from embermq.store.segment cimport Segment

cdef unsigned long long SPAN_MAX

@cython.locals(segment=Segment, fill=Py_ssize_t, end=Py_ssize_t)
cpdef bint append_spans(
    Log log, unsigned long long sequence, unsigned long long timestamp_ms, int flags, bytes prefix,
    bytearray source, Py_ssize_t start_1, Py_ssize_t stop_1, Py_ssize_t start_2, Py_ssize_t stop_2
) except -1
