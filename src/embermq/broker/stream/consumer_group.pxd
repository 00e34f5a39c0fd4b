cimport cython
from embermq.broker.queue.level cimport Entry
from embermq.broker.stream.cursor cimport Cursor



cdef class Groups:
    cdef object stream
    cdef readonly dict by_name
    cdef readonly dict cursors
    @cython.locals(cursor=Cursor)
    cpdef int settled(self, Entry entry, bint unread=*) except -1
