import cython

from embermq.broker.message.message cimport Message

cpdef tuple record_parts(Message message)
@cython.locals(size=Py_ssize_t)
cpdef Py_ssize_t header_size_at(bytes data, Py_ssize_t at) except -1
cpdef Py_ssize_t names_at(Py_ssize_t at) except -1
@cython.locals(key_at=Py_ssize_t)
cpdef Py_ssize_t content_at(bytes data, Py_ssize_t at) except -1
@cython.locals(header_size=Py_ssize_t, at=Py_ssize_t, content=bytes)
cpdef Message message_of(bytes payload, int flags, Py_ssize_t body_bytes_max=*)
