cimport cython

from embermq.amqp.channel.channel cimport Channel

cdef class Channel09(Channel):
    cdef public bytes channel_id
    cdef public object incoming
    cdef public object outgoing
    cdef public object pending
    cdef public object awaiting
    cdef public dict rejections
    cdef public dict references
    cdef public object tickets
    cdef int transferring

    cdef object on_publish(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop)
    cdef object refused(self)
    cdef object put_ack(self)
    @cython.locals(buf=bytearray, end=Py_ssize_t, header_stop=Py_ssize_t, pos=Py_ssize_t)
    cpdef object take(self, bytes names, int bits, bytes header, bytes body)
