cimport cython

from embermq.wire.field_scan cimport FieldScan

cdef class HeaderReader:
    cdef readonly tuple names
    cdef list scans

    @cython.locals(scan=FieldScan, names=tuple, number=int)
    cpdef dict read(self, bytes content, Py_ssize_t header_size)
