cimport cython

@cython.final
@cython.freelist(512)
@cython.no_gc
cdef class Message:
    cdef readonly bytes names
    cdef readonly bytes content
    cdef readonly Py_ssize_t header_size
    cdef readonly Py_ssize_t size
    cdef readonly bint persistent
    cdef readonly int priority
    cdef readonly long long publisher
    cdef public long long ttl_ms

@cython.locals(message=Message)
cpdef Message make_message(bytes names, bytes content, Py_ssize_t header_size, bint persistent, int priority,
                           long long publisher)

@cython.locals(flags=int, pos=Py_ssize_t)
cpdef Py_ssize_t headers_at(bytes content) except -1

cpdef long long expiry_of(Message message, long long queue_ttl_ms, long long since_ms) except -1
