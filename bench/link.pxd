# cython: language_level=3
"""The state of one connection of the load generator."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    FRAME_BYTES_MAX = 132 * 1024    # the largest frame a broker may send us, and a bit


cdef struct Link:
    int fd
    bint polls_output
    uint8_t* out
    size_t out_size
    size_t out_start
    size_t out_end
    uint8_t* rest              # the begin of a frame whose end has not arrived
    size_t rest_len
    # as a publisher
    bint publishes
    uint8_t* blocks            # all pre-encoded messages, end to end
    uint32_t* block_start      # block_count + 1 positions
    uint32_t* body_at          # where in a block the body begins
    uint32_t* fan              # how many queues the block reaches
    uint32_t block_count
    uint32_t block_next
    uint64_t sender
    uint64_t published
    uint64_t limit
    uint64_t window            # 0: no confirms
    uint64_t interval_ns       # 0: as fast as possible
    uint64_t due_ns
    uint64_t confirmed_upto
    uint64_t confirmed_beyond
    uint8_t* ring
    uint64_t* sent_ns
    # as a consumer
    uint32_t ack_every         # 0: the broker needs no acks
    uint32_t unacked
    uint64_t tag
    uint32_t slot
    uint64_t body_left
    bint body_begun


cdef struct Sample:
    uint64_t at_ns
    uint64_t published
    uint64_t delivered
    uint64_t confirmed
