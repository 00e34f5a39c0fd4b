import cython

cdef unsigned long long MASK
cdef unsigned long long FACTOR_1
cdef unsigned long long FACTOR_2

cdef class Rendezvous:
    cdef Py_ssize_t count
    cdef bint even
    cdef unsigned long long[:] numbers
    cdef double[:] weights

    @cython.locals(place=Py_ssize_t, best=Py_ssize_t, best_lot=double, best_draw=cython.ulonglong,
                   numbers="unsigned long long[:]", lot=double, mixed=cython.ulonglong)
    cpdef Py_ssize_t choose(self, unsigned long long key) except -1
