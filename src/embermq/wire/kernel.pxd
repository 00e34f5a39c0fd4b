cimport cython
from cpython.ref cimport PyObject


@cython.final
cdef class Output:
    cdef PyObject* store
    cdef unsigned char* data
    cdef Py_ssize_t capacity
    cdef Py_ssize_t lent
    cdef public Py_ssize_t size
    cdef readonly list pieces
    cdef readonly Py_ssize_t pieces_size
    cdef int reserve(self, Py_ssize_t extra) except -1
    cpdef int write(self, bytes data) except -1
    cpdef int put_delivery(self, bytes prefix, unsigned long long delivery_tag, bint redelivered, bytes names,
                           int channel, bytes content, Py_ssize_t header_size, Py_ssize_t frame_max) except -1
    cpdef int put_content(self, int channel, bytes content, Py_ssize_t header_size, Py_ssize_t frame_max) except -1
    cdef int put_deliver(self, bytes prefix, unsigned long long delivery_tag, bint redelivered,
                         const unsigned char* names, Py_ssize_t names_size, int channel) except -1
    cdef int put_body(self, int channel, const unsigned char* source, Py_ssize_t body_size,
                      Py_ssize_t frame_max) except -1
    cdef int put_pieces(self, int channel, bytes block, Py_ssize_t start, Py_ssize_t stop,
                        Py_ssize_t frame_max) except -1
    cpdef int put_stored_delivery(self, bytes prefix, unsigned long long delivery_tag, int channel, bytes block,
                                  Py_ssize_t names_at, Py_ssize_t content_at, Py_ssize_t stop,
                                  Py_ssize_t header_size, bytes field, unsigned long long number,
                                  Py_ssize_t frame_max) except -1
    cpdef int put_block(self, bytes prefix, unsigned long long delivery_tag, bytes names, int channel, bytes fields,
                        bytes block, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t frame_max) except -1
    cpdef int put_publish(self, int channel, bytes method, bytes properties, bytes body, Py_ssize_t frame_max) except -1
    cpdef int put_ack(self, int channel, unsigned long long delivery_tag, bint multiple) except -1
    cpdef bytes take(self)
    cpdef object lend(self)
    cdef int take_back(self) except -1

cdef Py_ssize_t headers_start(const unsigned char* header, Py_ssize_t size) noexcept
cdef Py_ssize_t headers_end(const unsigned char* header, Py_ssize_t size, Py_ssize_t at) except -1
cpdef long load_u16(bytearray buf, Py_ssize_t pos) except -1
cpdef long long load_u32(bytearray buf, Py_ssize_t pos) except -1
cpdef unsigned long long load_u64(bytearray buf, Py_ssize_t pos) except? 0
cpdef bytes cut(bytearray buf, Py_ssize_t start, Py_ssize_t stop)
cpdef bytes join(bytearray buf, Py_ssize_t start_1, Py_ssize_t stop_1, Py_ssize_t start_2, Py_ssize_t stop_2)
cpdef bint same(bytearray buf, Py_ssize_t pos, bytes expected)
cpdef Py_ssize_t body_end(bytearray buf, Py_ssize_t at, Py_ssize_t end, bytes head, Py_ssize_t size_at,
                          Py_ssize_t size_max) except -1
