# cython: language_level=3
"""The compiled twin of calls.py: the same results, without objects for sockets."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from embermq.clock cimport monotonic_s

cdef extern from "<sys/socket.h>" nogil:
    Py_ssize_t recv(int descriptor, void* buffer, size_t size, int flags)
    Py_ssize_t send(int descriptor, const void* buffer, size_t size, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef extern from *:
    """
    /* About a microsecond in which a processor that shares its core with another leaves it that. */
    static void embermq_pause(void) {
        for (int i = 0; i < 50; i++) {
    #if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
    #elif defined(__aarch64__)
            __asm__ volatile("yield");
    #endif
        }
    }
    """
    void embermq_pause() nogil

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* descriptors, unsigned long count, int milliseconds)
    short POLLIN

cdef extern from "<sys/epoll.h>" nogil:
    ctypedef union epoll_data_t:
        int fd
        unsigned long long u64
    struct epoll_event:
        unsigned int events
        epoll_data_t data
    int epoll_wait(int epoll_descriptor, epoll_event* events, int count, int milliseconds)
    int epoll_ctl(int epoll_descriptor, int operation, int descriptor, epoll_event* event)
    int EPOLL_CTL_MOD
    unsigned int EPOLLIN

MINE = 1
OTHERS = 2


cpdef int wait_for(int descriptor, int loop_descriptor, int milliseconds) except -1:
    cdef pollfd[2] both
    cdef int found
    both[0].fd = descriptor
    both[1].fd = loop_descriptor
    both[0].events = both[1].events = POLLIN
    both[0].revents = both[1].revents = 0
    if milliseconds:
        with nogil:
            found = poll(both, 2, milliseconds)
    else:
        found = poll(both, 2, 0)
    if found <= 0:
        return 0
    return (1 if both[0].revents else 0) | (2 if both[1].revents else 0)


cpdef bint watch(int loop_descriptor, int descriptor, bint watched) except? -1:
    cdef epoll_event event
    event.events = EPOLLIN if watched else 0
    event.data.u64 = descriptor
    return epoll_ctl(loop_descriptor, EPOLL_CTL_MOD, descriptor, &event) == 0


cpdef Py_ssize_t receive(int descriptor, bytearray buffer, Py_ssize_t size_max) except? -2:
    if size_max > PyByteArray_GET_SIZE(buffer):
        raise IndexError("more than the buffer holds")
    return recv(descriptor, PyByteArray_AS_STRING(buffer), size_max, MSG_DONTWAIT)


cpdef Py_ssize_t receive_soon(int descriptor, bytearray buffer, Py_ssize_t size_max, double seconds) except? -2:
    cdef char* start = PyByteArray_AS_STRING(buffer)
    cdef Py_ssize_t size = -1
    cdef int offers = 0
    cdef double until_s
    if size_max > PyByteArray_GET_SIZE(buffer):
        raise IndexError("more than the buffer holds")
    # The interpreter is kept: giving it away and having it back takes longer than one look.
    until_s = monotonic_s() + seconds
    while size < 0 and offers < 3:
        sched_yield()
        offers += 1
        size = recv(descriptor, start, size_max, MSG_DONTWAIT)
    while size < 0 and monotonic_s() < until_s:
        embermq_pause()
        size = recv(descriptor, start, size_max, MSG_DONTWAIT)
    return size


cpdef Py_ssize_t send_now(int descriptor, bytes data) except -1:
    cdef Py_ssize_t sent = send(
        descriptor, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), MSG_DONTWAIT | MSG_NOSIGNAL
    )
    return sent if sent > 0 else 0


cpdef bint others_wait(int loop_descriptor, int descriptor) except? -1:
    cdef epoll_event[2] events
    cdef int found = epoll_wait(loop_descriptor, events, 2, 0)
    return found < 0 or (found > 0 and events[0].data.fd != descriptor) or (
        found > 1 and events[1].data.fd != descriptor
    )
