import cython

from embermq.store.disk.filesystem cimport File, FileSystem

cdef Py_ssize_t BUFFER_BYTES_MIN
cdef Py_ssize_t BUFFERS_KEPT_MAX
cdef Py_ssize_t BUFFERS_KEPT_BYTES_MAX

cdef class Disk:
    cdef readonly FileSystem filesystem
    cdef readonly str trash
    cdef readonly object cache
    cdef readonly object reserve
    cdef readonly Py_ssize_t files_open_max
    cdef public Py_ssize_t room_bytes
    cdef object _files
    cdef File _last
    cdef object _last_user
    cdef object _deletions
    cdef readonly set dropping
    cdef object _closing
    cdef bytearray _buffer
    cdef list _buffers
    cdef Py_ssize_t _buffers_bytes
    cdef object _serial

    cpdef File open_file(self, str path, bint create=*)
    cpdef void used_by(self, object user) except *
    cpdef File file_of(self, object user)
    cpdef bytearray take_buffer(self)
    @cython.locals(size=Py_ssize_t)
    cpdef void give_back(self, bytearray buffer) except *
