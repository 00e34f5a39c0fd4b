from embermq.broker.queue.level cimport Entry

cdef class Consumer:
    cdef public object queue
    cdef public str tag
    cdef public bint no_ack
    cdef public bint exclusive
    cdef public long long no_local_of
    cdef public long long connection_number
    cdef public object selector
    cdef public dict arguments
    cdef public object priority
    cdef public Py_ssize_t unacked
    cdef public Py_ssize_t unacked_bytes
    cpdef bint can_take(self, Py_ssize_t size) except -1
    cdef public bint counts_bytes
    cdef public Py_ssize_t block_bytes_max
    cdef public bytes field
    cpdef int deliver(self, Entry entry) except -1
    cpdef int deliver_stored(self, Entry entry, bytes block, Py_ssize_t names_at, Py_ssize_t content_at,
                             Py_ssize_t stop, Py_ssize_t header_size, unsigned long long offset) except -1
    cpdef int deliver_block(self, bytes block, Py_ssize_t start, Py_ssize_t stop, unsigned long long offset,
                            Py_ssize_t count) except -1
