cimport cython

from embermq.client.core.publication cimport Publication, Receipt

cdef class Unconfirmed:
    cdef public unsigned long long last_tag
    cdef public unsigned long long lowest
    cdef public long long mandatory_count
    cdef public dict publications
    cdef public object rows

    cpdef int add(self, Publication publication) except -1
    @cython.locals(lowest=cython.ulonglong)
    cpdef int confirm(self, unsigned long long tag, bint multiple, bint acked) except -1
    cdef int _settle(self, Publication publication, bint acked) except -1
