import cython

from embermq.broker.interfaces cimport Logged
from embermq.broker.queue.level cimport Level
from embermq.broker.turn cimport Turn
from embermq.store.log.log cimport Log

cdef class IdJournal(Logged):
    cdef object queue
    cdef Turn turn
    cdef object storage
    cdef bint dropped
    cdef bint declaring
    cdef object declared_in
    cdef object looked_in
    cdef dict level_numbers
    cpdef Log opened(self)
    @cython.locals(log=Log, payload=bytes)
    cpdef void note(
        self, bytes hash, unsigned long long time_ms, Level level, unsigned long long sequence,
        long long part=*, long long number=*
    ) except *
