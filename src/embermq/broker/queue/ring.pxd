cimport cython

cdef Py_ssize_t SLOTS_KEPT_MAX

cdef class Ring:
    cdef list slots
    cdef Py_ssize_t head
    cdef readonly Py_ssize_t count
    cdef int grow(self) except -1
    cpdef int push_back(self, object item) except -1
    cpdef int push_front(self, object item) except -1
    cpdef object front(self)
    cpdef object at(self, Py_ssize_t index)
    cpdef object pop_front(self)
    @cython.locals(slots=list, head=Py_ssize_t, mask=Py_ssize_t, last=Py_ssize_t, i=Py_ssize_t)
    cpdef object take_at(self, Py_ssize_t index)
