cdef class Promise:
    cdef public int socket
    cdef public bytes words
    cdef public Py_ssize_t sent
    cdef public double seconds

    cpdef void prepare(self, int socket, bytes words) except *
