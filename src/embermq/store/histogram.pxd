import cython

cdef class Histogram:
    cdef readonly tuple bounds
    cdef readonly list counts
    cdef public double sum

    @cython.locals(at=Py_ssize_t, bound=double)
    cpdef void observe(self, double value) except *
