import cython

from embermq.broker.fairness cimport Fairness
from embermq.broker.interfaces cimport Logged, LogWriter, Sink
from embermq.clock cimport monotonic_s, wall_ms

cdef unsigned long long TIMED_MASK
cdef Py_ssize_t LIGHT_SINKS_MAX

cdef class Turn:
    cdef object schedule
    cdef readonly bint scheduled
    cdef list queues
    cdef Py_ssize_t left
    cdef list sinks
    cdef public bint alarmed
    cdef public bint tight
    cdef list logs
    cdef list actions
    cdef list unsafe
    cdef bint unsafe_acks
    cdef list last
    cdef bint working
    cdef public LogWriter storage
    cdef public long confirms
    cdef readonly bint synced
    cdef public object timers
    cdef readonly Fairness fairness
    cdef readonly object incremental_work
    cdef readonly object unreadable
    cdef object clock
    cdef object uptime
    cdef public long long copies
    cdef readonly unsigned long long count
    cdef readonly unsigned long long active_count
    cdef readonly object times
    cdef readonly unsigned long long now_ms
    cpdef object refresh(self)
    cpdef long long uptime_ms(self) except? -1
    cpdef object add_log(self, Logged level)
    cpdef object add_queue(self, object queue)
    cpdef object add_sink(self, Sink sink)
    cdef object wake(self)
    @cython.locals(drained=bint)
    cdef object work(self)
    cdef object await_safe(self)
    cdef bint has_work(self) except -1
    @cython.locals(unreadable=set)
    cdef object drain(self)
    @cython.locals(logs=list)
    cdef object write(self, bint nothing_drained)
    @cython.locals(sink=Sink, sinks=list)
    cdef object send(self)
    cdef object end(self)
