import cython

cdef unsigned long long STAYS_MS
cdef double PIECE_S
cdef Py_ssize_t READ_BYTES_MIN
cdef Py_ssize_t READ_BYTES_MAX
cdef Py_ssize_t READ_BYTES_STEP
cdef Py_ssize_t DELIVERY_BYTES
cdef Py_ssize_t DELIVERY_BYTES_IN_COMPANY

cdef class Company:
    cdef readonly unsigned long long heard_ms
    cdef public Py_ssize_t floods
    cdef readonly Py_ssize_t floods_before
    cdef readonly Py_ssize_t delivery_bytes

    cpdef bint is_there(self, unsigned long long now_ms) except -1
    cpdef int heard(self, unsigned long long now_ms) except -1
    cpdef int begin_turn(self, unsigned long long now_ms) except -1
    @cython.locals(fitting=double)
    cpdef Py_ssize_t read_bytes(self, unsigned long long now_ms, Py_ssize_t size, double took_s) except -1
