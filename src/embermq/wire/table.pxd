# C types for table.py; the same source runs interpreted. Bounds checks stay on: these bytes come from clients.
cimport cython

# Each function on a buffer_t exists twice, indexing either type like C does.
ctypedef fused buffer_t:
    bytes
    bytearray

cdef int _NOT_FIXED
cdef bytes _FIXED_BYTES
cdef dict _STRUCT_BY_CODE

@cython.locals(array=bytearray, data=bytes, stop=Py_ssize_t)
cpdef tuple decode_table(object buf, Py_ssize_t pos, Py_ssize_t end)
@cython.locals(array=bytearray, data=bytes, stop=Py_ssize_t)
cpdef tuple decode_value(object buf, Py_ssize_t pos, Py_ssize_t end)
@cython.locals(array=bytearray, data=bytes, stop=Py_ssize_t)
cpdef tuple decode_typed(object buf, Py_ssize_t pos, Py_ssize_t end)

@cython.locals(a=cython.longlong, b=cython.longlong, c=cython.longlong, d=cython.longlong)
cdef Py_ssize_t _uint32(buffer_t data, Py_ssize_t pos) except -1
cdef Py_ssize_t _container_end(buffer_t data, Py_ssize_t pos, Py_ssize_t end, int depth) except -1
cdef Py_ssize_t _long_end(buffer_t data, Py_ssize_t pos, Py_ssize_t end) except -1
cdef Py_ssize_t _name_end(buffer_t data, Py_ssize_t pos, Py_ssize_t end) except -1
@cython.locals(size=int)
cdef Py_ssize_t _fixed_end(int code, Py_ssize_t pos, Py_ssize_t end) except -1

@cython.locals(stop=Py_ssize_t)
cdef dict _decode_fields(buffer_t data, Py_ssize_t pos, Py_ssize_t end, int depth)
@cython.locals(stop=Py_ssize_t, code=int)
cdef tuple _decode_value(buffer_t data, Py_ssize_t pos, Py_ssize_t end, int depth)
cdef list _decode_array(buffer_t data, Py_ssize_t pos, Py_ssize_t end, int depth)
@cython.locals(stop=Py_ssize_t, numbers=tuple)
cdef tuple _decode_scalar(buffer_t data, int code, Py_ssize_t pos, Py_ssize_t end)
@cython.locals(stop=Py_ssize_t, names=set)
cdef list _decode_typed_fields(buffer_t data, Py_ssize_t pos, Py_ssize_t end, int depth)
@cython.locals(stop=Py_ssize_t, code=int)
cdef tuple _decode_typed_value(buffer_t data, Py_ssize_t pos, Py_ssize_t end, int depth)
cdef list _decode_typed_array(buffer_t data, Py_ssize_t pos, Py_ssize_t end, int depth)
