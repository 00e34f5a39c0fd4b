# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twin of block.py: the same results, the bytes moved by memcpy."""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy

from embermq.errors import SyntaxFault
from embermq.wire.delivery_headers import OFFSET_FIELD, TIME_FIELD

from embermq.wire.columns.column cimport ByteColumn, NumberColumn, end as end_value, room
from embermq.wire.kernel cimport headers_end, headers_start

cdef bytes THE_OFFSET = OFFSET_FIELD
cdef bytes THE_TIME = TIME_FIELD

DEF HEAD_BYTES = 25
DEF NAMES_AT = 30
DEF CONTENT_HEADER_BYTES_MIN = 14


cdef inline unsigned long long little(const unsigned char* p, int size) noexcept:
    cdef unsigned long long value = 0
    cdef int i
    for i in range(size - 1, -1, -1):
        value = (value << 8) | p[i]
    return value


cdef inline unsigned long long big(const unsigned char* p) noexcept:
    cdef unsigned long long value = 0
    cdef int i
    for i in range(8):
        value = (value << 8) | p[i]
    return value


cdef inline unsigned char* put_big(unsigned char* p, unsigned long long value, int size) noexcept:
    """Where the next goes."""
    cdef int i
    for i in range(size):
        p[i] = <unsigned char>(value >> (8 * (size - 1 - i)))
    return p + size


cdef inline unsigned char* put_bytes(unsigned char* p, bytes data) noexcept:
    memcpy(p, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    return p + PyBytes_GET_SIZE(data)


cdef inline int append(ByteColumn column, const unsigned char* data, Py_ssize_t size) except -1:
    memcpy(room(column, size), data, size)
    return end_value(column)


cdef int damaged(Py_ssize_t record, str why="") except -1:
    raise SyntaxFault(f"a block of a stream is damaged at its record {record}{why}")


@cython.final
cdef class BlockRows:

    def __init__(self, ByteColumn bodies, ByteColumn exchanges, ByteColumn routing_keys, ByteColumn properties,
                 NumberColumn offsets, NumberColumn redelivered, bint timed):
        self.bodies = bodies
        self.exchanges = exchanges
        self.routing_keys = routing_keys
        self.properties = properties
        self.offsets = offsets
        self.redelivered = redelivered
        self.timed = timed
        self.count = 0
        self.next_offset = 0

    cpdef int begin(self) except -1:
        """A new block comes."""
        self.count = 0
        self.next_offset = 0
        return 0

    cpdef Py_ssize_t unpack(self, bytearray buf, Py_ssize_t pos, Py_ssize_t stop) except -1:
        """Append the messages of buf[pos:stop]; where the first record begins that is not whole."""
        if pos < 0 or stop > PyByteArray_GET_SIZE(buf):
            raise IndexError(f"bytes {pos}..{stop} of a buffer of {len(buf)}")
        cdef const unsigned char* base = <const unsigned char*>PyByteArray_AS_STRING(buf)
        cdef const unsigned char* end
        cdef const unsigned char* exchange
        cdef const unsigned char* key
        cdef const unsigned char* header
        cdef const unsigned char* body
        cdef const unsigned char* record
        cdef Py_ssize_t size, header_size
        cdef unsigned long long offset
        while stop - pos >= HEAD_BYTES:
            record = base + pos
            size = HEAD_BYTES + <Py_ssize_t>little(record + 4, 4)
            if size > stop - pos:
                break
            end = record + size
            offset = little(record + 8, 8)
            exchange = record + NAMES_AT + 1
            key = exchange + (exchange - 1)[0] + 1 if exchange < end else end + 1
            header = key + (key - 1)[0] if key < end else end
            header_size = <Py_ssize_t>little(record + HEAD_BYTES, 4) if header < end else 0
            if (header_size < CONTENT_HEADER_BYTES_MIN or header_size > end - header
                    or big(header + 4) != <unsigned long long>(end - header - header_size)
                    or offset < self.next_offset or offset >> 63):
                damaged(self.count)
            body = header + header_size
            if self.properties is not None:
                self.put_properties(header, header_size, offset, little(record + 16, 8))
            if self.exchanges is not None:
                append(self.exchanges, exchange, key - 1 - exchange)
            if self.routing_keys is not None:
                append(self.routing_keys, key, header - key)
            if self.bodies is not None:
                append(self.bodies, body, end - body)
            if self.offsets is not None:
                self.offsets.append(<long long>offset)
            if self.redelivered is not None:
                self.redelivered.append(0)
            self.next_offset = offset + 1
            self.count += 1
            pos += size
        return pos

    cdef int put_properties(self, const unsigned char* header, Py_ssize_t size, unsigned long long offset,
                            unsigned long long time_ms) except -1:
        """As an ordinary delivery has them."""
        cdef Py_ssize_t at, rest_at
        try:
            at = headers_start(header, size)
            rest_at = headers_end(header, size, at)
        except IndexError as error:
            damaged(self.count, f": {error}")
        cdef Py_ssize_t table_size = rest_at - at - 4 if header[12] & 0x20 else 0
        cdef Py_ssize_t fields_size = PyBytes_GET_SIZE(THE_OFFSET) + 8
        if self.timed:
            fields_size += PyBytes_GET_SIZE(THE_TIME) + 8
        cdef unsigned char* p = room(self.properties, at - 12 + 4 + table_size + fields_size + size - rest_at)
        memcpy(p, header + 12, at - 12)
        p[0] |= 0x20
        p = put_big(p + at - 12, table_size + fields_size, 4)
        memcpy(p, header + rest_at - table_size, table_size)
        p += table_size
        if self.timed:
            p = put_big(put_bytes(p, THE_TIME), time_ms, 8)
        p = put_big(put_bytes(p, THE_OFFSET), offset, 8)
        memcpy(p, header + rest_at, size - rest_at)
        return end_value(self.properties)
