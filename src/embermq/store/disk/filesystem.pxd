import cython

cdef class File:
    cdef object __weakref__
    cdef readonly int descriptor
    cdef readonly str path
    cdef object _close

cdef class FileSystem:
    cpdef Py_ssize_t write_at(self, File file, object data, long long position) except -1
    cpdef Py_ssize_t write_synced(
        self, File file, bytearray data, Py_ssize_t size, long long position
    ) except -1
    cpdef bytes read_at(self, File file, Py_ssize_t size, long long position)
    cpdef object truncate(self, File file, long long size)
    cpdef object sync(self, File file)

@cython.locals(done=Py_ssize_t)
cpdef Py_ssize_t write_part(
    FileSystem filesystem, File file, bytearray data, Py_ssize_t size, long long position
) except -1
