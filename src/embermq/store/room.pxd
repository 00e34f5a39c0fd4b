import cython

from embermq.store.disk cimport Disk
from embermq.store.filesystem cimport File
from embermq.store.segment cimport Segment

@cython.locals(end=Py_ssize_t, reach=Py_ssize_t)
cpdef void make_room(Disk disk, File file, Segment segment, Py_ssize_t segment_bytes) except *
