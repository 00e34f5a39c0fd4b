import cython

cdef unsigned long long INTERACTIVE_MS
cdef double SHARE_S
cdef Py_ssize_t READ_BYTES_MIN
cdef Py_ssize_t READ_BYTES_MAX
cdef Py_ssize_t READ_BYTES_STEP
cdef Py_ssize_t DELIVERY_BYTES
cdef Py_ssize_t DELIVERY_BYTES_INTERACTIVE

cdef class Fairness:
    cdef readonly unsigned long long interactive_ms
    cdef public Py_ssize_t bulk_count
    cdef readonly Py_ssize_t bulk_before_count
    cdef readonly Py_ssize_t delivery_bytes

    cpdef bint has_interactive(self, unsigned long long now_ms) noexcept
    cpdef void note_interactive(self, unsigned long long now_ms) noexcept
    cpdef void begin_turn(self, unsigned long long now_ms) noexcept
    @cython.locals(share_s=double, fitting=double)
    cpdef Py_ssize_t read_bytes(self, unsigned long long now_ms, Py_ssize_t size, double took_s) except -1
