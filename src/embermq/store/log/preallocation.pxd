import cython

from embermq.store.disk.disk cimport Disk
from embermq.store.disk.filesystem cimport File
from embermq.store.log.segment cimport Segment

@cython.locals(end=Py_ssize_t, reach=Py_ssize_t)
cpdef void make_room(Disk disk, File file, Segment segment, Py_ssize_t segment_bytes) except *
