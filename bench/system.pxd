# cython: language_level=3
"""The few calls of Linux that the load generator makes, and numbers in AMQP's byte order."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

cdef extern from "sys/socket.h" nogil:
    ssize_t c_send "send"(int fd, const void* data, size_t size, int flags)
    ssize_t c_recv "recv"(int fd, void* data, size_t size, int flags)
    int MSG_NOSIGNAL
    int MSG_DONTWAIT

cdef extern from "sys/epoll.h" nogil:
    int EPOLL_CTL_ADD
    int EPOLL_CTL_MOD
    uint32_t EPOLLIN
    uint32_t EPOLLOUT
    ctypedef union epoll_data_t:
        uint32_t u32
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epfd, int op, int fd, epoll_event* event)
    int epoll_wait(int epfd, epoll_event* events, int maxevents, int timeout)

cdef extern from "sys/timerfd.h" nogil:
    struct itimerspec:
        timespec it_interval
        timespec it_value
    int TFD_TIMER_ABSTIME
    int timerfd_create(int clockid, int flags)
    int timerfd_settime(int fd, int flags, itimerspec* new_value, itimerspec* old_value)

cdef extern from * nogil:
    """
    static inline uint32_t be32(const uint8_t *p) { uint32_t v; __builtin_memcpy(&v, p, 4); return __builtin_bswap32(v); }
    static inline uint64_t be64(const uint8_t *p) { uint64_t v; __builtin_memcpy(&v, p, 8); return __builtin_bswap64(v); }
    static inline void put64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); __builtin_memcpy(p, &v, 8); }
    """
    uint32_t be32(const uint8_t* p)
    uint64_t be64(const uint8_t* p)
    void put64(uint8_t* p, uint64_t v)

cdef inline uint64_t now_ns() noexcept nogil:
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC, &t)
    return <uint64_t>t.tv_sec * 1_000_000_000 + <uint64_t>t.tv_nsec
