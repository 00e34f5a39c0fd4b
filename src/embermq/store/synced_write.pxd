import cython

from embermq.store.disk cimport Disk
from embermq.store.filesystem cimport File
from embermq.store.kernel cimport Blocks
from embermq.store.past_cache cimport PastCache
from embermq.store.promise cimport Promise
from embermq.store.segment cimport Segment

@cython.locals(past_cache=PastCache, blocks=Blocks, done=Py_ssize_t)
cpdef bint write_end(
    Disk disk, File file, Segment segment, Py_ssize_t segment_bytes, Promise promise
) except -1

cpdef Py_ssize_t write_past_cache(
    Disk disk, File file, PastCache past_cache, Segment segment, Promise promise
) except -1
