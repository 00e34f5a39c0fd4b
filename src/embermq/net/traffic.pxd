import cython

from embermq.amqp.connection.connection cimport Connection
from embermq.amqp.connection.read_fairness cimport Inflow

cdef Py_ssize_t READ_BYTES_PER_TURN_MAX
cdef Py_ssize_t STRANGER_READ_BYTES_MAX

cdef class Traffic:
    cdef public object transport
    cdef public Connection connection
    cdef public Inflow inflow
    cdef bytearray read_buffer
    cdef object view
    cdef readonly Py_ssize_t share
    cdef public bytes unfinished
    cdef public Py_ssize_t read_this_turn
    cdef public bint held
    cdef public bint heard
    cdef public bint spoke
    cdef public bint closing

    @cython.locals(used=Py_ssize_t)
    cpdef object get_buffer(self, Py_ssize_t sizehint)
    @cython.locals(connection=Connection, buffer=bytearray, used=Py_ssize_t, end=Py_ssize_t)
    cpdef object buffer_updated(self, Py_ssize_t nbytes)
    cpdef object set_share(self, Py_ssize_t share)
    cpdef object send(self, bytes data)
