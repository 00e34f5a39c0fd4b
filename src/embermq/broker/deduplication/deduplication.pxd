import cython

from embermq.broker.deduplication.journal cimport IdJournal
from embermq.broker.deduplication.series cimport SeriesTable, split
from embermq.broker.deduplication.table cimport IdTable
from embermq.broker.message.message cimport Message
from embermq.broker.queue.level cimport Level
from embermq.broker.turn cimport Turn

cdef unsigned char LONG_STRING
cdef Py_ssize_t HEADERS_AT_MIN
cdef long long NO_SERIES
cdef Py_ssize_t GROWTH_MAX

@cython.locals(
    content=bytes, header_size=Py_ssize_t, at=Py_ssize_t, needle=bytes, text=bytes, found=tuple, hash=bytes
)
cpdef tuple identity_in(Message message, object window, bytes scope)

cdef class Deduplication:
    cdef object queue
    cdef Turn turn
    cdef readonly object own
    cdef readonly dict exchanges
    cdef readonly long long window_ms
    cdef readonly long long count_max
    cdef IdTable table
    cdef SeriesTable series
    cdef readonly long long duplicate_count
    cdef long long looked_ms
    cdef readonly IdJournal journal
    @cython.locals(
        identities=list, identity=tuple, now_ms=cython.longlong, came_ms=cython.longlong, level=Level,
        sequence=cython.ulonglong, answer=int
    )
    cpdef int append(self, object rules, Message message) except -1
    cpdef long long came_ms(self, tuple identity) except? -1
    cpdef void remember(self, tuple identity, long long time_ms) except *
    @cython.locals(growth=int)
    cdef bint is_too_large(self, tuple identity) except -1
    @cython.locals(found=list, identity=tuple)
    cpdef list identities_of(self, Message message)
    @cython.locals(table=IdTable, series=SeriesTable, since_ms=cython.longlong)
    cdef bint has_room(self, long long now_ms) except -1
