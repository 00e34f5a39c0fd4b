# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The least a broker can do: every published message goes straight to one consumer.

No routing, no queue, no checks. It bounds what the load generator can measure on this machine: a result
near this number would say more about the generator than about the broker.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove
from posix.unistd cimport close

cdef extern from "<unistd.h>" nogil:
    ssize_t pwrite(int fd, const void* data, size_t size, long position)
    int ftruncate(int fd, long size)

from bench.system cimport (
    EPOLL_CTL_ADD, EPOLLIN, MSG_DONTWAIT, MSG_NOSIGNAL, be32, c_recv, c_send, epoll_create1, epoll_ctl, epoll_event,
    epoll_wait, put64,
)

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


cdef struct Stage:
    # What has been read and not been sent on, and what is sent for it.
    uint8_t* data
    uint8_t* out
    size_t have
    size_t out_len
    uint64_t tag


cdef void pass_on(Stage* stage, const uint8_t* head, size_t head_len) noexcept nogil:
    """Put `head` (a basic.deliver frame) with the next delivery tag in the place of every basic.publish."""
    cdef size_t used = 0, frame_len
    cdef uint8_t* data = stage.data
    stage.out_len = 0
    while stage.have - used >= 8:
        frame_len = <size_t>be32(data + used + 3) + 8
        if stage.have - used < frame_len:
            break
        if data[used] == 1:
            stage.tag += 1
            memcpy(stage.out + stage.out_len, head, head_len)
            put64(stage.out + stage.out_len + 18, stage.tag)
            stage.out_len += head_len
        else:
            memcpy(stage.out + stage.out_len, data + used, frame_len)
            stage.out_len += frame_len
        used += frame_len
    stage.have -= used
    memmove(data, data + used, stage.have)


def echo(int publisher_fd, int consumer_fd, bytes deliver):
    """Until the publisher closes: basic.publish in, `deliver` (a basic.deliver frame) + the content out.

    `deliver` has its delivery tag at byte 18, which follows from a consumer tag of six digits.
    """
    cdef Stage stage = Stage(<uint8_t*>malloc(BUFFER), <uint8_t*>malloc(BUFFER * 2), 0, 0, 0)
    cdef const uint8_t* head = deliver
    cdef size_t head_len = len(deliver)
    cdef ssize_t got
    with nogil:
        while True:
            got = c_recv(publisher_fd, stage.data + stage.have, BUFFER - stage.have, 0)
            if got <= 0:
                break
            stage.have += got
            pass_on(&stage, head, head_len)
            if send_all(consumer_fd, stage.out, stage.out_len) < 0:
                break
    free(stage.data)
    free(stage.out)
    return stage.tag


def relay(int publisher_fd, int consumer_fd, bytes deliver, bytes ack):
    """The same with confirms, by one epoll loop that hears the consumer's acknowledgements as well: all the
    system calls a broker cannot do without, and nothing else. `ack` has its delivery tag at byte 11; an empty one confirms nothing."""
    cdef Stage stage = Stage(<uint8_t*>malloc(BUFFER), <uint8_t*>malloc(BUFFER * 2), 0, 0, 0)
    cdef const uint8_t* head = deliver
    cdef size_t head_len = len(deliver), ack_len = len(ack)
    cdef uint8_t answer[64]
    cdef uint8_t heard[4096]
    cdef epoll_event event
    cdef epoll_event events[2]
    cdef int ready, e, poll_fd = epoll_create1(0)
    cdef uint64_t told = 0
    cdef ssize_t got = 1
    memcpy(answer, <const uint8_t*>ack, ack_len)
    event.events = EPOLLIN
    event.data.u32 = 0
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, publisher_fd, &event)
    event.data.u32 = 1
    epoll_ctl(poll_fd, EPOLL_CTL_ADD, consumer_fd, &event)
    with nogil:
        while got > 0:
            ready = epoll_wait(poll_fd, events, 2, -1)
            for e in range(ready):
                if events[e].data.u32 == 1:
                    if c_recv(consumer_fd, heard, 4096, MSG_DONTWAIT) == 0:
                        got = 0
                    continue
                got = c_recv(publisher_fd, stage.data + stage.have, BUFFER - stage.have, MSG_DONTWAIT)
                if got <= 0:
                    break
                stage.have += got
                pass_on(&stage, head, head_len)
                if stage.tag > told:
                    told = stage.tag
                    put64(answer + 11, told)
                    if send_all(consumer_fd, stage.out, stage.out_len) < 0:
                        got = 0
                    if ack_len and send_all(publisher_fd, answer, ack_len) < 0:
                        got = 0
    close(poll_fd)
    free(stage.data)
    free(stage.out)
    return stage.tag
