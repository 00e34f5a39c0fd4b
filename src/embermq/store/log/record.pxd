from embermq.store.log.bitmap cimport Bitmap

cpdef Py_ssize_t put_record(
    bytearray buffer, Py_ssize_t fill, unsigned int seed, unsigned long long sequence,
    unsigned long long timestamp_ms, unsigned char flags, tuple parts
) except -1

cpdef Py_ssize_t put_spans(
    bytearray buffer, Py_ssize_t fill, unsigned int seed, unsigned long long sequence,
    unsigned long long timestamp_ms, unsigned char flags, bytes prefix, bytearray source,
    Py_ssize_t start_1, Py_ssize_t stop_1, Py_ssize_t start_2, Py_ssize_t stop_2
) except -1

cpdef Py_ssize_t keep_alive(bytearray buffer, Py_ssize_t begin, Py_ssize_t fill, Bitmap live) except -1

cdef class Record:
    cdef public unsigned long long sequence
    cdef public unsigned long long timestamp_ms
    cdef public int flags
    cdef public bytes payload

cdef class Header:
    cdef public Py_ssize_t length
    cdef public unsigned long long sequence
    cdef public unsigned long long timestamp_ms
    cdef public int flags
    cpdef Py_ssize_t load(
        self, bytes data, Py_ssize_t position, unsigned int seed, unsigned long long low, unsigned long long high
    ) except -1
    cpdef Py_ssize_t peek(self, bytes data, Py_ssize_t position) except -1
