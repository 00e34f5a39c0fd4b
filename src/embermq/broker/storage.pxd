import cython

from embermq.broker.queue.level cimport Level
from embermq.broker.interfaces cimport Logged, LogWriter
from embermq.store.sync.committer cimport Committer
from embermq.store.log.log cimport Log

cdef void note_turn(Log written, unsigned long long turn) noexcept

cdef class Storage(LogWriter):
    cdef readonly object data
    cdef Committer committer
    cdef object definitions
    cdef object next_try
    cdef object on_failure
    cdef readonly list unwritten
    cdef Py_ssize_t written_count
    cdef Py_ssize_t postponed_count
    cdef double wrote_at_s
    cdef object waiting
    cdef set written
    cdef set quiet
    cdef list untidy
    cdef public object on_full

    @cython.locals(began_s=double, step_s=double, at=Py_ssize_t, waited=bint, over=bint, level=Logged)
    cpdef list write(self, list levels, unsigned long long turn)
    @cython.locals(written=Log)
    cdef void write_log(self, Logged level) except *
    @cython.locals(level=Level, known=Log, spared=bint)
    cpdef bint spares(self, tuple queues, unsigned long long turn) except -1
    @cython.locals(written=Log, began_s=double)
    cpdef bint write_synced(self, Logged level, unsigned long long turn) except -1
    cpdef void when_safe(self, object callback, bint with_acks=*) except *
    cdef void sync(self, object callback, bint with_acks) except *
