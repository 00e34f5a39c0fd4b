import cython

@cython.locals(at=Py_ssize_t, before=Py_ssize_t)
cpdef tuple split(bytes text)

# Blocks and bits stay integers of Python: a block has more bits than a C integer.
@cython.final
cdef class Part:
    cdef readonly long long next
    cdef readonly dict ahead
    cpdef bint has(self, long long number) except -1
    cpdef void add(self, long long number) except *
    cpdef bint needs_block(self, long long number) except -1

@cython.final
cdef class Series:
    cdef public long long first_ms
    cdef public long long last_ms
    cdef readonly dict parts
    cdef public Py_ssize_t size
    cdef public Py_ssize_t count

cdef class SeriesTable:
    cdef readonly object series
    cdef bytes last_name
    cdef Series last
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef Series get(self, bytes name)
    @cython.locals(series=Series, known=Part)
    cpdef long long find(self, bytes name, long long part, long long number) except? -1
    @cython.locals(series=Series, known=Part)
    cpdef int growth(self, bytes name, long long part, long long number) except -1
    @cython.locals(series=Series)
    cpdef Py_ssize_t size_of(self, bytes name) except -1
    @cython.locals(series=Series)
    cpdef void touch(self, bytes name, long long time_ms) except *
    @cython.locals(series=Series, known=Part, before=Py_ssize_t)
    cpdef void add(self, bytes name, long long part, long long number, long long time_ms) except *
