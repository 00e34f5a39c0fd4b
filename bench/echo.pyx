# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The least a broker can do: every published message goes straight to one consumer.

No routing, no queue, no checks. It bounds what the load generator can measure on this machine: a result
near this number would say more about the generator than about the broker.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

cdef extern from "<unistd.h>" nogil:
    ssize_t pwrite(int fd, const void* data, size_t size, long position)
    int ftruncate(int fd, long size)

from bench.system cimport MSG_NOSIGNAL, be32, c_recv, c_send, put64

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


def confirm_synced(int publisher_fd, int file_fd, size_t room, bytes ack):
    """Until the publisher closes: what it sends is written, synced (`file_fd` is opened with O_DSYNC) and
    answered with `ack` (a basic.ack frame with its delivery tag at byte 11); one message at a time.

    The file is kept `room` bytes ahead of what it holds, as ours are.
    """
    cdef uint8_t* data = <uint8_t*>malloc(BUFFER)
    cdef uint8_t out[64]
    cdef size_t ack_len = len(ack), position = 0, reach = 0
    cdef uint64_t tag = 0
    cdef ssize_t got
    memcpy(out, <const uint8_t*>ack, ack_len)
    with nogil:
        while True:
            got = c_recv(publisher_fd, data, BUFFER, 0)
            if got <= 0:
                break
            if position + got > reach:
                reach = position + got + room
                if ftruncate(file_fd, reach) != 0:
                    break
            if pwrite(file_fd, data, got, position) != got:
                break
            position += got
            tag += 1
            put64(out + 11, tag)
            if send_all(publisher_fd, out, ack_len) < 0:
                break
    free(data)
    return tag


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
                frame_len = <size_t>be32(data + used + 3) + 8
                if have - used < frame_len:
                    break
                if data[used] == 1:
                    tag += 1
                    memcpy(out + out_len, head, head_len)
                    put64(out + out_len + 18, tag)
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
