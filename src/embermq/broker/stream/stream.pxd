cimport cython

from embermq.broker.queue.level cimport Entry, Level
from embermq.broker.message.message cimport Message
from embermq.broker.queue.queue cimport Queue
from embermq.broker.stream.cursor cimport Cursor
from embermq.broker.stream.consumer_group cimport Groups
from embermq.store.log.log cimport Log

cdef Py_ssize_t CURSOR_BUDGET
cdef Py_ssize_t STREAM_BUDGET
cdef int KEPT_ALWAYS

cdef class Stream(Queue):
    cdef readonly object storage
    cdef readonly Level low
    cdef readonly Log log
    cdef public list cursors
    cdef Py_ssize_t first_cursor
    cdef public object block
    cdef readonly unsigned long long safe_end
    cdef bint unwritten
    cdef bint syncing
    cdef readonly Groups groups
    cdef readonly object filters
    cdef object noted_segment
    cdef readonly object retention
    cpdef int append(self, Message message) except -1
    @cython.locals(level=Level)
    cpdef bint append_spans(
        self, bytes prefix, bytearray buf, Py_ssize_t header_at, Py_ssize_t header_stop,
        Py_ssize_t body_at, Py_ssize_t body_stop
    ) except -1
    cpdef int mark(self) except -1
    @cython.locals(cursor=Cursor, budget=Py_ssize_t, share=Py_ssize_t, count=Py_ssize_t, used=Py_ssize_t)
    cpdef bint drain(self) except -1
    cpdef int settle(self, Entry entry) except -1
