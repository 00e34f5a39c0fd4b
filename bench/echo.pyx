# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The least a broker can do: every published message goes straight to one consumer.

No routing, no queue, no checks. It bounds what the load generator can measure on this machine: a result
near this number would say more about the generator than about the broker.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

cdef extern from "sys/socket.h" nogil:
    ssize_t c_send "send"(int fd, const void* data, size_t size, int flags)
    ssize_t c_recv "recv"(int fd, void* data, size_t size, int flags)
    int MSG_NOSIGNAL

cdef extern from * nogil:
    """
    static inline uint32_t echo_be32(const uint8_t *p) { uint32_t v; __builtin_memcpy(&v, p, 4); return __builtin_bswap32(v); }
    static inline void echo_put64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); __builtin_memcpy(p, &v, 8); }
    """
    uint32_t echo_be32(const uint8_t* p)
    void echo_put64(uint8_t* p, uint64_t v)

cdef enum:
    BUFFER = 256 * 1024


cdef int send_all(int fd, const uint8_t* data, size_t size) noexcept nogil:
    cdef ssize_t sent
    while size:
        sent = c_send(fd, data, size, MSG_NOSIGNAL)
        if sent <= 0:
            return -1
        data += sent
        size -= sent
    return 0


def swallow(int publisher_fd):
    """Read and forget until the publisher closes; the number of bytes."""
    cdef uint8_t* data = <uint8_t*>malloc(BUFFER)
    cdef uint64_t total = 0
    cdef ssize_t got
    with nogil:
        while True:
            got = c_recv(publisher_fd, data, BUFFER, 0)
            if got <= 0:
                break
            total += got
    free(data)
    return total


def echo(int publisher_fd, int consumer_fd, bytes deliver):
    """Until the publisher closes: basic.publish in, `deliver` (a basic.deliver frame) + the content out.

    `deliver` has its delivery tag at byte 18, which follows from a consumer tag of six digits.
    """
    cdef uint8_t* data = <uint8_t*>malloc(BUFFER)
    cdef uint8_t* out = <uint8_t*>malloc(BUFFER * 2)
    cdef const uint8_t* head = deliver
    cdef size_t head_len = len(deliver)
    cdef size_t have = 0, used, frame_len, out_len
    cdef uint64_t tag = 0
    cdef ssize_t got
    with nogil:
        while True:
            got = c_recv(publisher_fd, data + have, BUFFER - have, 0)
            if got <= 0:
                break
            have += got
            used = out_len = 0
            while have - used >= 8:
                frame_len = <size_t>echo_be32(data + used + 3) + 8
                if have - used < frame_len:
                    break
                if data[used] == 1:
                    tag += 1
                    memcpy(out + out_len, head, head_len)
                    echo_put64(out + out_len + 18, tag)
                    out_len += head_len
                else:
                    memcpy(out + out_len, data + used, frame_len)
                    out_len += frame_len
                used += frame_len
            if send_all(consumer_fd, out, out_len) < 0:
                break
            memmove(data, data + used, have - used)
            have -= used
    free(data)
    free(out)
    return tag
