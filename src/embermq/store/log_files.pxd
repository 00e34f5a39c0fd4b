import cython

from embermq.store.dirty cimport Dirty
from embermq.store.disk cimport Disk
from embermq.store.filesystem cimport File, write_part
from embermq.store.segment cimport Segment

cdef class LogFiles:
    cdef public str directory
    cdef public Disk disk
    cdef public bint has_directory
    cdef public bint has_label
    cdef public object owner
    cdef public frozenset dirty_files
    cdef public frozenset dirty_directories
    cdef public frozenset dirty_acks

    cdef File file(self, str name, bint exists)
    @cython.locals(file=File, acks=bytearray, done=Py_ssize_t)
    cdef void write_acks(self, Segment segment) except *
    cpdef Dirty take_dirty(self)
