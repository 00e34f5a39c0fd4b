cimport cython

from embermq.broker.message.message cimport Message
from embermq.broker.message.record cimport content_at, header_size_at, names_at
from embermq.broker.queue.consumer cimport Consumer
from embermq.broker.queue.level cimport Entry, Level
from embermq.broker.queue.ring cimport Ring
from embermq.broker.selector.fields cimport Fields
from embermq.broker.selector.selector_set cimport SelectorSet
from embermq.store.log.bitmap cimport Bitmap
from embermq.store.log.record cimport Header
from embermq.store.log.segment cimport Segment

cdef Py_ssize_t RECORD_HEADER_BYTES

cdef class Matches:
    cdef public unsigned long long cursor
    cdef readonly object found
    cdef readonly bint is_full
    cpdef add(self, unsigned long long sequence)

cdef class Group:
    cdef readonly long number
    cdef readonly object key
    cdef readonly object selector
    cdef readonly long long no_local_of
    cdef readonly list consumers
    cdef readonly dict matches
    @cython.locals(found=Matches)
    cpdef Matches in_level(self, Level level)
    cpdef bint fits_publisher(self, long long publisher) except -1
    @cython.locals(consumer=Consumer)
    cpdef Consumer able(self, Py_ssize_t size, Consumer single)

cdef class Selection:
    cdef readonly object queue
    cdef readonly dict groups
    cdef readonly dict idle
    cdef readonly SelectorSet selectors
    cdef readonly list unselecting
    cdef readonly Group everything
    cdef readonly long number
    cdef readonly dict served
    cdef readonly long turns
    cdef readonly dict logs
    cdef readonly dict unseen
    cdef readonly bint scanning
    @cython.locals(group=Group, matches=Matches)
    cpdef all_seen(self, Level level, unsigned long long reached)
    @cython.locals(entry=Entry, ring=Ring, index=Py_ssize_t, stop=Py_ssize_t, end=cython.ulonglong, last=Entry)
    cpdef unsigned long long look_in_memory(self, Level level, unsigned long long first) except? 0
    @cython.locals(message=Message, fitting=list)
    cpdef look_at(self, Level level, Entry entry)
    @cython.locals(group=Group, matches=Matches)
    cpdef note(self, Level level, unsigned long long sequence, list fitting, long long publisher)
    @cython.locals(
        header=Header, live=Bitmap, held=set, selectors=SelectorSet, fields=Fields, seed=cython.uint,
        low=cython.ulonglong, high=cython.ulonglong, asks_all=cython.bint, at=Py_ssize_t, reached=cython.ulonglong,
        stop=Py_ssize_t, sequence=cython.ulonglong, payload_at=Py_ssize_t, header_size=Py_ssize_t,
        header_at=Py_ssize_t, returns=int, values=list, fitting=list
    )
    cpdef tuple look_in_block(self, Level level, Segment segment, bytes data, unsigned long long first)
    @cython.locals(matches=Matches)
    cpdef object head(self, Group group, Level level)
