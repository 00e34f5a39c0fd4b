# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""One who waits: a publisher that sends a message when the one before is confirmed, and the same without a
broker, a program that appends to a file and syncs it. Each for a while, over and over, so that both meet the
same minutes of a disk that others use as well.
"""

from libc.errno cimport errno
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memset, strerror
from posix.unistd cimport close, write

from bench.system cimport (
    EPOLL_CTL_ADD, EPOLLIN, MSG_NOSIGNAL, be64, c_recv, c_send, epoll_create1, epoll_ctl, epoll_event, epoll_wait,
    now_ns, put64,
)

cdef extern from "<unistd.h>" nogil:
    int fdatasync(int fd)

cdef enum:
    ACK_BYTES = 21
    PATIENCE_MS = 30000
    APPENDED_BYTES_MAX = 4096

cdef const uint8_t* ACK_HEAD = b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50"


class WaitingError(Exception):
    """Something else than the one confirm that is due."""


def append_and_sync(int file_fd, size_t size, double seconds):
    """Append `size` bytes and sync them, again and again: (how often, in how many seconds)."""
    cdef uint8_t data[APPENDED_BYTES_MAX]
    cdef uint64_t count = 0, began = now_ns(), now = began, end = began + <uint64_t>(seconds * 1e9)
    if size > APPENDED_BYTES_MAX:
        raise ValueError(f"at most {APPENDED_BYTES_MAX} bytes")
    memset(data, 0, size)
    with nogil:
        while now < end:
            if write(file_fd, data, size) != <ssize_t>size or fdatasync(file_fd) != 0:
                break
            count += 1
            now = now_ns()
    if now < end:
        raise OSError(errno, strerror(errno).decode())
    return count, (now - began) / 1e9


def publish_and_wait(int fd, bytearray block, size_t body_at, uint64_t number, double seconds):
    """Publish `block` (a message whose body begins at `body_at`; its first eight bytes are its number), wait
    asleep for its confirm, and so on: (the next number, in how many seconds).

    The connection has published `number` messages before, and all of them are confirmed.
    """
    cdef uint8_t* message = <uint8_t*><char*>block
    cdef size_t size = len(block), have
    cdef uint8_t answer[64]
    cdef epoll_event event
    cdef uint64_t began = now_ns(), now = began, end = began + <uint64_t>(seconds * 1e9)
    cdef ssize_t got = 1
    cdef int ready, poll_fd = epoll_create1(0)
    cdef bint right = True
    event.events = EPOLLIN
    event.data.u32 = 0
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event)
    with nogil:
        while now < end and right:
            put64(message + body_at, number)
            if c_send(fd, message, size, MSG_NOSIGNAL) != <ssize_t>size:
                right = False
                break
            number += 1
            have = 0
            while have < ACK_BYTES and right:
                ready = epoll_wait(poll_fd, &event, 1, PATIENCE_MS)
                got = c_recv(fd, answer + have, 64 - have, 0) if ready == 1 else -1
                right = got > 0
                have += got if right else 0
            right = right and have == ACK_BYTES and memcmp(answer, ACK_HEAD, 11) == 0
            right = right and be64(answer + 11) == number
            now = now_ns()
    close(poll_fd)
    if not right:
        raise WaitingError(f"no confirm for message {number}")
    return number, (now - began) / 1e9
