import cython

cdef class Bitmap:
    cdef public unsigned long long base
    cdef public bytearray bits
    cdef public Py_ssize_t size
    cdef public Py_ssize_t count
    cdef public bint whole

    @cython.locals(offset=Py_ssize_t, at=Py_ssize_t)
    cpdef void add(self, unsigned long long sequence) except *
    @cython.locals(offset=Py_ssize_t, at=Py_ssize_t)
    cpdef bint has(self, unsigned long long sequence) except -1
    @cython.locals(offset=Py_ssize_t, at=Py_ssize_t, mask=int)
    cpdef bint remove(self, unsigned long long sequence) except -1
    @cython.locals(sequence=cython.ulonglong, end=cython.ulonglong)
    cpdef void add_range(self, unsigned long long first, Py_ssize_t count) except *
