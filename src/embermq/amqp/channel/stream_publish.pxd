cimport cython

from embermq.broker.exchange.exchange cimport Route
from embermq.broker.queue.queue cimport Queue
from embermq.wire.kernel cimport body_end, cut

cdef Py_ssize_t BODY_SIZE_AT
cdef Py_ssize_t PREFIX_BYTES

cdef class StreamPublish:
    cdef public Py_ssize_t count
    @cython.locals(
        stream=Queue, prefix=bytes, head=bytes, body_at=Py_ssize_t, at=Py_ssize_t, count=Py_ssize_t,
        header_size=Py_ssize_t, body_in_head=Py_ssize_t, header_in_head=Py_ssize_t, size_at=Py_ssize_t
    )
    cpdef Py_ssize_t take(
        self, Route route, int number, int bits, int priority, Py_ssize_t size_max, bytearray buf,
        Py_ssize_t header_at, Py_ssize_t header_stop, Py_ssize_t body_stop, Py_ssize_t end
    ) except -1
