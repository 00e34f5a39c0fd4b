cdef class FieldScan:
    cdef readonly tuple names
    cdef tuple encoded
    cdef int count
    cdef readonly int found
    cdef unsigned long long firsts
    cdef const unsigned char* wanted[16]
    cdef Py_ssize_t places[16]

    cdef void note(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t size, Py_ssize_t* found) noexcept
    cdef void clear(self) noexcept
    cdef void find(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept
    cpdef Py_ssize_t read(self, buf, Py_ssize_t pos, Py_ssize_t end) except -1
    cpdef bint has(self, int number) except -1
    cpdef object value(self, buf, int number)
