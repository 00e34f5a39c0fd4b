import cython

cdef Py_ssize_t PLACES_MIN

cdef class IdTable:
    cdef public Py_ssize_t count
    cdef Py_ssize_t start
    cdef Py_ssize_t places
    cdef unsigned long long[:] first
    cdef unsigned long long[:] second
    cdef unsigned long long[:] times
    cdef unsigned int[:] index

    cdef int allocate(self, Py_ssize_t places) except -1
    @cython.locals(place=cython.uint)
    cpdef long long find(self, unsigned long long first, unsigned long long second) except? -2
    @cython.locals(place=Py_ssize_t)
    cpdef int add(self, unsigned long long first, unsigned long long second, unsigned long long time_ms) except -1
    cpdef long long oldest_ms(self) except? -2
    @cython.locals(place=Py_ssize_t, slot=Py_ssize_t)
    cpdef int drop_oldest(self) except -1
    @cython.locals(mask=Py_ssize_t, slot=Py_ssize_t, place=cython.uint)
    cdef Py_ssize_t slot_of(self, unsigned long long first, unsigned long long second) except -1
    @cython.locals(mask=Py_ssize_t, hole=Py_ssize_t, wanted=Py_ssize_t, place=cython.uint)
    cdef int free(self, Py_ssize_t slot) except -1
    @cython.locals(number=Py_ssize_t, place=Py_ssize_t, places=Py_ssize_t, start=Py_ssize_t,
                   first="unsigned long long[:]", second="unsigned long long[:]", times="unsigned long long[:]")
    cdef int grow(self) except -1
