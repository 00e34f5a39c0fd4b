from embermq.store.filesystem cimport File, FileSystem

cdef class Disk:
    cdef readonly FileSystem filesystem
    cdef readonly str trash
    cdef readonly Py_ssize_t files_open_max
    cdef public Py_ssize_t room_bytes
    cdef object _files
    cdef File _last
    cdef object _deletions
    cdef object _thread
    cdef list _buffers
    cdef Py_ssize_t _buffers_bytes
    cdef object _serial

    cpdef File open_file(self, str path, bint create=*)
    cpdef bytearray take_buffer(self)
    cpdef void give_back(self, bytearray buffer) except *
