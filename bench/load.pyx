# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The load generator: any number of AMQP connections driven by one epoll loop, without the GIL.

It must cost far less per message than the broker it measures, so it does nothing it could have done
before: connections arrive opened (see `session.py`), a message is a pre-encoded block of three frames of
which only the first 16 bytes of the body change, blocks are gathered and leave in one `send`, incoming
frames are scanned where they were received, and acknowledgements of one scan leave together.

The body of every message starts with::

    0        2                8                 16
    +--------+----------------+-----------------+--------- - -
    | sender | number         | time, ns        | padding
    +--------+----------------+-----------------+--------- - -

Numbers of one sender rise by one per message. Each delivery is checked against the previous one of the
same (consumer, sender); with exact counts at the end this proves that nothing was lost, doubled or
reordered. The time is when the message left, or in an open-loop run when it *should* have left, so that
a broker that stalls the sender is charged for it (no coordinated omission).
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset, strerror
from posix.time cimport CLOCK_MONOTONIC
from posix.unistd cimport close, read
from cpython.exc cimport PyErr_CheckSignals

from bench.link cimport FRAME_BYTES_MAX, Link, Sample
from bench.system cimport (
    EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, MSG_DONTWAIT, MSG_NOSIGNAL, be32, be64, c_recv, c_send,
    TFD_TIMER_ABSTIME, epoll_create1, epoll_ctl, epoll_event, epoll_wait, itimerspec, now_ns, put64, timerfd_create,
    timerfd_settime,
)

cdef enum:
    INPUT_BYTES = 512 * 1024        # read at once, over all connections
    CONTROL_BYTES = 16 * 1024       # room kept in every output buffer for acks
    RING = 65536                    # confirms outstanding at most
    ACK_FRAME_BYTES = 21
    SAMPLES_MAX = 36000
    TIMER = 0xFFFFFFFF              # epoll mark of the timer
    BASIC_DELIVER = (60 << 16) | 60
    BASIC_ACK = (60 << 16) | 80
    BASIC_NACK = (60 << 16) | 120
    BASIC_RETURN = (60 << 16) | 50
    BASIC_CONSUME_OK = (60 << 16) | 21
    CHANNEL_CLOSE = (20 << 16) | 40
    CONNECTION_CLOSE = (10 << 16) | 50
    CONNECTION_BLOCKED = (10 << 16) | 60

cdef uint64_t SAMPLE_NS = 100_000_000
cdef uint64_t NEVER = <uint64_t>-1

cdef enum Problem:
    FINE, LOST_CONNECTION, BAD_FRAME, WRONG_ORDER, TOO_MANY, CLOSED, STALLED, NACKED, RETURNED, INTERRUPTED

PROBLEMS = (
    "fine", "connection lost", "malformed frame from the broker", "message out of order",
    "more messages than published", "closed by the broker", "no progress", "nack from the broker",
    "message returned", "interrupted",
)


class LoadError(Exception):
    """The run did not end as every run must: all messages delivered once, in order."""


cdef class Load:
    """Add links, give them roles, `run`, read the result."""

    cdef Link* links
    cdef uint32_t link_count
    cdef int epoll_fd
    cdef int timer_fd
    cdef uint8_t* input
    cdef int64_t* last               # by slot * senders + sender: the number seen last
    cdef uint32_t slots
    cdef uint32_t senders
    cdef int64_t stride
    cdef uint64_t published, delivered, expected, confirmed, acked, outstanding_max
    cdef uint64_t delivered_bytes
    cdef int replies_due
    cdef uint64_t first_ns, last_ns, clock_ns, blocked
    cdef Problem problem
    cdef int problem_errno
    cdef uint8_t reply[300]
    cdef size_t reply_len
    cdef uint64_t* latency
    cdef uint64_t* confirm_latency
    cdef uint64_t* lag
    cdef uint64_t latency_count, confirm_latency_count, lag_count, latency_max
    cdef Sample* samples
    cdef uint32_t sample_count

    def __cinit__(self, uint32_t slots=1, uint32_t senders=1, int64_t stride=1,
                  uint64_t latencies=0, uint64_t outstanding_max=0):
        """`stride` is the distance between numbers that a consumer sees (0: any, but rising)."""
        self.links = NULL
        self.link_count = 0
        self.epoll_fd = epoll_create1(0)
        self.timer_fd = -1
        self.input = <uint8_t*>malloc(INPUT_BYTES + FRAME_BYTES_MAX)
        self.slots = slots
        self.senders = senders
        self.stride = stride
        self.last = <int64_t*>malloc(<size_t>slots * senders * sizeof(int64_t))
        memset(self.last, 0xFF, <size_t>slots * senders * sizeof(int64_t))    # all -1
        self.samples = <Sample*>malloc(SAMPLES_MAX * sizeof(Sample))
        self.latency_max = latencies
        self.latency = <uint64_t*>malloc((latencies + 1) * 8)
        self.confirm_latency = <uint64_t*>malloc((latencies + 1) * 8)
        self.lag = <uint64_t*>malloc((latencies + 1) * 8)
        self.outstanding_max = outstanding_max if outstanding_max else NEVER

    def __dealloc__(self):
        cdef uint32_t i
        cdef Link* link
        for i in range(self.link_count):
            link = &self.links[i]
            free(link.out); free(link.rest); free(link.blocks); free(link.block_start)
            free(link.body_at); free(link.fan); free(link.ring); free(link.sent_ns)
        free(self.links); free(self.input); free(self.last); free(self.samples)
        free(self.latency); free(self.confirm_latency); free(self.lag)
        if self.timer_fd >= 0:
            close(self.timer_fd)
        close(self.epoll_fd)

    def add_link(self, int fd, bytes preamble=b"", int replies=0, size_t chunk_bytes=131072):
        """A connection with an open channel. `preamble` goes out first; publishing waits for its `replies`."""
        self.links = <Link*>realloc(self.links, (self.link_count + 1) * sizeof(Link))
        cdef Link* link = &self.links[self.link_count]
        memset(link, 0, sizeof(Link))
        link.fd = fd
        link.out_size = max(chunk_bytes, <size_t>len(preamble)) + CONTROL_BYTES
        link.out = <uint8_t*>malloc(link.out_size)
        link.rest = <uint8_t*>malloc(FRAME_BYTES_MAX)
        memcpy(link.out, <const char*>preamble, len(preamble))
        link.out_end = len(preamble)
        self.replies_due += replies
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.u32 = self.link_count
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, "epoll_ctl")
        self.link_count += 1
        return self.link_count - 1

    def publish_on(self, uint32_t index, list blocks, list body_at, list fan, *, uint64_t limit=0,
                   uint64_t window=0, double rate=0.0, uint64_t sender=0):
        """Make a link publish the blocks in turn. `fan`: how many deliveries each block must cause."""
        cdef Link* link = &self.links[index]
        cdef bytes joined = b"".join(blocks)
        cdef uint32_t i, position = 0
        if window > RING // 2:
            raise ValueError("window too large")
        link.publishes = True
        link.block_count = len(blocks)
        link.blocks = <uint8_t*>malloc(len(joined))
        memcpy(link.blocks, <const char*>joined, len(joined))
        link.block_start = <uint32_t*>malloc((link.block_count + 1) * 4)
        link.body_at = <uint32_t*>malloc(link.block_count * 4)
        link.fan = <uint32_t*>malloc(link.block_count * 4)
        for i in range(link.block_count):
            link.block_start[i] = position
            link.body_at[i] = body_at[i]
            link.fan[i] = fan[i]
            position += len(blocks[i])
        link.block_start[link.block_count] = position
        link.sender = sender
        link.limit = limit if limit else NEVER
        link.window = window
        link.interval_ns = <uint64_t>(1e9 / rate) if rate > 0 else 0
        link.ring = <uint8_t*>calloc(RING, 1)
        link.sent_ns = <uint64_t*>calloc(RING, 8)

    def consume_on(self, uint32_t index, uint32_t ack_every=0):
        self.links[index].ack_every = ack_every

    # --- output ---------------------------------------------------------------------------------

    cdef void poll_output(self, uint32_t index, bint wanted) noexcept nogil:
        cdef Link* link = &self.links[index]
        cdef epoll_event event
        if link.polls_output == wanted:
            return
        link.polls_output = wanted
        event.events = EPOLLIN | (EPOLLOUT if wanted else 0)
        event.data.u32 = index
        epoll_ctl(self.epoll_fd, EPOLL_CTL_MOD, link.fd, &event)

    cdef bint flush(self, uint32_t index) noexcept nogil:
        """Send what is waiting; True when nothing is left."""
        cdef Link* link = &self.links[index]
        cdef ssize_t sent
        while link.out_start < link.out_end:
            sent = c_send(link.fd, link.out + link.out_start, link.out_end - link.out_start,
                          MSG_NOSIGNAL | MSG_DONTWAIT)
            if sent < 0:
                if errno == EINTR:
                    continue
                if errno != EAGAIN:
                    self.problem_errno = errno
                    self.problem = LOST_CONNECTION
                return False
            link.out_start += sent
        link.out_start = link.out_end = 0
        return True

    cdef void fill(self, Link* link) noexcept nogil:
        """Gather as many messages as the buffer, the limit, the window and the clock allow."""
        cdef uint8_t* to
        cdef uint8_t* body
        cdef uint32_t block, start, size
        cdef uint64_t stamp = now_ns()
        cdef uint64_t end = link.limit
        cdef uint64_t confirmed = link.confirmed_upto + link.confirmed_beyond
        if link.window and confirmed + link.window < end:
            end = confirmed + link.window
        self.clock_ns = stamp
        while link.published < end:
            if link.interval_ns:
                if link.due_ns > self.clock_ns:
                    break
                stamp = link.due_ns
                if self.lag_count < self.latency_max:
                    self.lag[self.lag_count] = self.clock_ns - stamp
                    self.lag_count += 1
            if self.expected - self.delivered >= self.outstanding_max:
                break
            block = link.block_next
            start = link.block_start[block]
            size = link.block_start[block + 1] - start
            if link.out_end + size > link.out_size - CONTROL_BYTES:
                break
            to = link.out + link.out_end
            memcpy(to, link.blocks + start, size)
            body = to + link.body_at[block]
            put64(body, (link.sender << 48) | link.published)
            put64(body + 8, stamp)
            link.out_end += size
            link.published += 1
            if link.window:
                link.sent_ns[link.published & (RING - 1)] = stamp
            link.due_ns += link.interval_ns
            self.published += 1
            self.expected += link.fan[block]
            link.block_next = block + 1 if block + 1 < link.block_count else 0

    cdef bint wants_to_publish(self, Link* link) noexcept nogil:
        """Whether the link would publish right now if its socket took more."""
        if not link.publishes or link.interval_ns or link.published >= link.limit:
            return False
        if link.window and link.published >= link.confirmed_upto + link.confirmed_beyond + link.window:
            return False
        return self.expected - self.delivered < self.outstanding_max

    cdef void pump(self, uint32_t index) noexcept nogil:
        """One turn of output for a link: what is waiting, then one buffer of new messages."""
        cdef Link* link = &self.links[index]
        if not self.flush(index):
            self.poll_output(index, True)
            return
        if link.publishes and self.first_ns != 0:
            self.fill(link)
            if not self.flush(index):
                self.poll_output(index, True)
                return
        self.poll_output(index, self.first_ns != 0 and self.wants_to_publish(link))

    # --- input ----------------------------------------------------------------------------------

    cdef void confirm(self, Link* link, uint64_t tag, bint multiple) noexcept nogil:
        """Count confirms exactly, whatever mixture of single and multiple ones arrives."""
        cdef uint64_t t, first = link.confirmed_upto + 1 if multiple else tag
        if tag > link.published or tag <= link.confirmed_upto:
            self.problem = BAD_FRAME
            return
        for t in range(first, tag + 1):
            if link.ring[t & (RING - 1)]:
                continue                                     # confirmed singly before
            link.ring[t & (RING - 1)] = 1
            link.confirmed_beyond += 1
            self.confirmed += 1
            if self.confirm_latency_count < self.latency_max:
                self.confirm_latency[self.confirm_latency_count] = self.clock_ns - link.sent_ns[t & (RING - 1)]
                self.confirm_latency_count += 1
        while link.confirmed_beyond and link.ring[(link.confirmed_upto + 1) & (RING - 1)]:
            link.confirmed_upto += 1
            link.confirmed_beyond -= 1
            link.ring[link.confirmed_upto & (RING - 1)] = 0

    cdef void acknowledge(self, uint32_t index) noexcept nogil:
        """basic.ack multiple=true for everything delivered on the link so far."""
        cdef Link* link = &self.links[index]
        cdef uint8_t* to
        if link.out_end + ACK_FRAME_BYTES > link.out_size:
            if not self.flush(index):
                return                                       # later acks will cover these, too
        to = link.out + link.out_end
        memcpy(to, b"\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50", 11)
        put64(to + 11, link.tag)
        to[19] = 1
        to[20] = 0xCE
        link.out_end += ACK_FRAME_BYTES
        self.acked += link.unacked
        link.unacked = 0

    cdef void check(self, Link* link, const uint8_t* body) noexcept nogil:
        cdef uint64_t word = be64(body)
        cdef uint64_t sender = word >> 48
        cdef int64_t number = <int64_t>((word << 16) >> 16)
        cdef int64_t* last
        if sender >= self.senders or link.slot >= self.slots:
            self.problem = BAD_FRAME
            return
        last = &self.last[<size_t>link.slot * self.senders + sender]
        if number <= last[0] or (self.stride and last[0] >= 0 and number != last[0] + self.stride):
            self.problem = WRONG_ORDER
        last[0] = number
        if self.latency_count < self.latency_max:
            self.latency[self.latency_count] = self.clock_ns - be64(body + 8)
            self.latency_count += 1

    cdef void delivery(self, uint32_t index) noexcept nogil:
        """A message is complete."""
        cdef Link* link = &self.links[index]
        self.delivered += 1
        if link.ack_every:
            link.unacked += 1
            if link.unacked >= link.ack_every:
                self.acknowledge(index)

    cdef void method(self, Link* link, const uint8_t* payload, uint32_t size) noexcept nogil:
        cdef uint32_t kind = be32(payload)
        cdef uint32_t i, tag_len
        if kind == BASIC_DELIVER:
            tag_len = payload[4]
            link.slot = 0
            for i in range(tag_len):
                link.slot = link.slot * 10 + (payload[5 + i] - 48)
            link.tag = be64(payload + 5 + tag_len)
        elif kind == BASIC_ACK:
            self.confirm(link, be64(payload + 4), payload[12] & 1)
        elif kind == BASIC_CONSUME_OK:
            self.replies_due -= 1
        elif kind == BASIC_NACK:
            self.problem = NACKED
        elif kind == BASIC_RETURN:
            self.problem = RETURNED
        elif kind == CONNECTION_BLOCKED:
            self.blocked += 1
        elif kind == CHANNEL_CLOSE or kind == CONNECTION_CLOSE:
            self.problem = CLOSED
            self.reply_len = size if size < 300 else 300
            memcpy(self.reply, payload, self.reply_len)

    cdef size_t scan(self, uint32_t index, const uint8_t* data, size_t size) noexcept nogil:
        """Handle every whole frame; the number of bytes used."""
        cdef Link* link = &self.links[index]
        cdef size_t position = 0
        cdef uint32_t length
        cdef const uint8_t* frame
        while size - position >= 8:
            frame = data + position
            length = be32(frame + 3)
            if length > FRAME_BYTES_MAX - 8:
                self.problem = BAD_FRAME
                break
            if size - position < <size_t>length + 8:
                break
            if frame[length + 7] != 0xCE:
                self.problem = BAD_FRAME
                break
            if frame[0] == 3:
                if not link.body_begun:
                    if length < 16:
                        self.problem = BAD_FRAME
                        break
                    self.check(link, frame + 7)
                    link.body_begun = True
                if length > link.body_left:
                    self.problem = BAD_FRAME
                    break
                link.body_left -= length
                if link.body_left == 0:
                    self.delivery(index)
            elif frame[0] == 2:
                link.body_left = be64(frame + 11)
                self.delivered_bytes += link.body_left
                link.body_begun = False
            elif frame[0] == 1:
                self.method(link, frame + 7, length)
            position += <size_t>length + 8
        return position

    cdef void receive(self, uint32_t index) noexcept nogil:
        cdef Link* link = &self.links[index]
        cdef ssize_t got
        cdef size_t have, used
        memcpy(self.input, link.rest, link.rest_len)
        got = c_recv(link.fd, self.input + link.rest_len, INPUT_BYTES, MSG_DONTWAIT)
        if got <= 0:
            if got < 0 and (errno == EAGAIN or errno == EINTR):
                return
            self.problem_errno = errno if got < 0 else 0
            self.problem = LOST_CONNECTION
            return
        self.clock_ns = now_ns()
        have = link.rest_len + got
        used = self.scan(index, self.input, have)
        link.rest_len = have - used
        if link.rest_len > FRAME_BYTES_MAX:
            self.problem = BAD_FRAME
            return
        memcpy(link.rest, self.input + used, link.rest_len)
        if link.out_end > link.out_start or self.wants_to_publish(link):
            if not link.polls_output:
                self.pump(index)

    # --- the loop -------------------------------------------------------------------------------

    cdef void take_sample(self) noexcept nogil:
        cdef Sample* sample
        if self.sample_count < SAMPLES_MAX:
            sample = &self.samples[self.sample_count]
            sample.at_ns = self.clock_ns - self.first_ns
            sample.published = self.published
            sample.delivered = self.delivered
            sample.confirmed = self.confirmed
            self.sample_count += 1

    cdef void start_clock(self) noexcept nogil:
        """Everybody is listening: now publishing begins."""
        cdef uint32_t i
        self.first_ns = self.clock_ns = now_ns()
        for i in range(self.link_count):
            self.links[i].due_ns = self.first_ns
        self.arm_timer()
        for i in range(self.link_count):
            if self.links[i].publishes:
                self.pump(i)

    cdef void arm_timer(self) noexcept nogil:
        """Open-loop runs are woken when the next message is due (a period of at least 50 us).

        The first time and all others are told as times of the clock: a period that began at any other moment
        than the messages' would hold up each of them by the difference.
        """
        cdef uint64_t period = NEVER
        cdef uint32_t i
        cdef itimerspec spec
        cdef epoll_event event
        for i in range(self.link_count):
            if self.links[i].interval_ns and self.links[i].interval_ns < period:
                period = self.links[i].interval_ns
        if period == NEVER:
            return
        if period < 50_000:
            period = 50_000
        spec.it_interval.tv_sec = period // 1_000_000_000
        spec.it_interval.tv_nsec = period % 1_000_000_000
        spec.it_value.tv_sec = (self.first_ns + period) // 1_000_000_000
        spec.it_value.tv_nsec = (self.first_ns + period) % 1_000_000_000
        self.timer_fd = timerfd_create(CLOCK_MONOTONIC, 0)
        timerfd_settime(self.timer_fd, TFD_TIMER_ABSTIME, &spec, NULL)
        event.events = EPOLLIN
        event.data.u32 = TIMER
        epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.timer_fd, &event)

    cdef void loop(self, uint64_t run_ns, uint64_t stall_ns, uint64_t extra) noexcept nogil:
        """`extra`: messages that wait in the queues already and must be delivered as well."""
        cdef epoll_event events[256]
        cdef int ready, e
        cdef uint32_t i, index
        cdef uint64_t ticks, progress, last_progress = 0, progress_ns, next_sample = 0
        cdef bint publishing = True
        cdef bint held
        self.expected = extra
        self.first_ns = 0
        self.clock_ns = progress_ns = now_ns()
        for i in range(self.link_count):
            self.pump(i)
        if self.replies_due == 0:
            self.start_clock()
        while self.problem == FINE:
            ready = epoll_wait(self.epoll_fd, events, 256, 100)
            for e in range(ready):
                index = events[e].data.u32
                if index == TIMER:
                    read(self.timer_fd, &ticks, 8)
                    for i in range(self.link_count):
                        if self.links[i].interval_ns:
                            self.pump(i)
                    continue
                if events[e].events & ~EPOLLOUT:
                    self.receive(index)
                if events[e].events & EPOLLOUT:
                    self.pump(index)
            if ready <= 0:
                self.clock_ns = now_ns()
            if self.first_ns == 0:
                if self.replies_due == 0:
                    self.start_clock()
            else:
                if self.outstanding_max != NEVER:
                    # Nobody's socket event tells a publisher that consumers have caught up.
                    held = self.expected - self.delivered >= self.outstanding_max
                    if not held:
                        for i in range(self.link_count):
                            if self.links[i].publishes and not self.links[i].polls_output:
                                if self.wants_to_publish(&self.links[i]):
                                    self.pump(i)
                if publishing and self.clock_ns - self.first_ns >= run_ns:
                    publishing = False
                    for i in range(self.link_count):
                        self.links[i].limit = self.links[i].published
                if self.clock_ns - self.first_ns >= next_sample:
                    next_sample = self.clock_ns - self.first_ns + SAMPLE_NS
                    self.take_sample()
                    with gil:
                        try:
                            PyErr_CheckSignals()
                        except BaseException:
                            self.problem = INTERRUPTED
                if self.delivered > self.expected:
                    self.problem = TOO_MANY
                elif self.finished():
                    break
            progress = self.published + self.delivered + self.confirmed
            if progress != last_progress:
                last_progress = progress
                progress_ns = self.clock_ns
            elif self.clock_ns - progress_ns > stall_ns:
                self.problem = STALLED
        self.last_ns = now_ns()
        self.clock_ns = self.last_ns
        self.take_sample()
        for i in range(self.link_count):
            if self.links[i].unacked:
                self.acknowledge(i)
            self.flush(i)

    cdef bint finished(self) noexcept nogil:
        cdef uint32_t i
        cdef Link* link
        if self.delivered != self.expected:
            return False
        for i in range(self.link_count):
            link = &self.links[i]
            if link.publishes:
                if link.published < link.limit or link.out_end > link.out_start:
                    return False
                if link.window and link.confirmed_upto < link.published:
                    return False
        return True

    def run(self, double seconds=0.0, *, double stall_seconds=20.0, uint64_t waiting=0):
        """Publish for that long (0: until every limit is reached), then until all is delivered.

        `waiting`: messages that are in the queues already. Returns the counts and times.
        """
        cdef uint64_t run_ns = <uint64_t>(seconds * 1e9) if seconds else NEVER
        cdef uint64_t stall_ns = <uint64_t>(stall_seconds * 1e9)
        with nogil:
            self.loop(run_ns, stall_ns, waiting)
        if self.problem == INTERRUPTED:
            raise KeyboardInterrupt
        if self.problem != FINE:
            raise LoadError(self.explain())
        return {
            "published": self.published,
            "delivered": self.delivered,
            "confirmed": self.confirmed,
            "acked": self.acked,
            "delivered_bytes": self.delivered_bytes,
            "blocked": self.blocked,
            "seconds": (self.last_ns - self.first_ns) / 1e9,
        }

    def explain(self):
        text = PROBLEMS[<int>self.problem]
        if self.problem == CLOSED:
            payload = bytes(self.reply[:self.reply_len])
            text += f": {int.from_bytes(payload[4:6], 'big')} {payload[7:7 + payload[6]].decode(errors='replace')}"
        if self.problem_errno:
            text += f": {strerror(self.problem_errno).decode()}"
        return (f"{text} (published {self.published}, delivered {self.delivered} of {self.expected}, "
                f"confirmed {self.confirmed})")

    def series(self):
        """(seconds, published, delivered, confirmed), cumulative, every 100 ms."""
        return [
            (self.samples[i].at_ns / 1e9, self.samples[i].published, self.samples[i].delivered,
             self.samples[i].confirmed)
            for i in range(self.sample_count)
        ]

    def latencies_ns(self):
        """Of every delivery, in order of arrival."""
        return [self.latency[i] for i in range(self.latency_count)]

    def confirm_latencies_ns(self):
        return [self.confirm_latency[i] for i in range(self.confirm_latency_count)]

    def lags_ns(self):
        """How long after they were due messages were handed to the socket: the generator's own part."""
        return [self.lag[i] for i in range(self.lag_count)]
