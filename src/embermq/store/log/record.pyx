# cython: language_level=3
"""The compiled form of record.py: the same results, the bytes moved by memcpy."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy, memmove

from embermq.store.log.bitmap cimport Bitmap
from embermq.store.checksum cimport crc32_of

cdef extern from "<endian.h>" nogil:
    unsigned long long htole64(unsigned long long value)
    unsigned long long le64toh(unsigned long long value)

PERSISTENT = 1
RECORD_HEADER_SIZE = 25

cdef enum:
    SIZE = 25


cdef inline void store(unsigned char* target, unsigned long long value, int size) noexcept:
    value = htole64(value)
    memcpy(target, &value, size)


cdef inline unsigned long long fetch(const unsigned char* source, int size) noexcept:
    cdef unsigned long long value = 0
    memcpy(&value, source, size)
    return le64toh(value)


cdef unsigned char* room_for(bytearray buffer, Py_ssize_t fill, Py_ssize_t length) except NULL:
    """Where a record with a payload of `length` begins, with room for all of it."""
    cdef Py_ssize_t capacity = PyByteArray_GET_SIZE(buffer)
    cdef Py_ssize_t end = fill + SIZE + length
    if fill < 0 or fill > capacity:
        raise IndexError("a record must begin within the buffer or at its end")
    if length > 0xFFFFFFFF:
        raise OverflowError("a record holds less than 4 GiB")
    if end > capacity:
        buffer.extend(bytes(max(end - capacity, capacity)))
    return <unsigned char*>PyByteArray_AS_STRING(buffer) + fill


cdef inline int put_header(
    unsigned char* record, Py_ssize_t length, unsigned int seed, unsigned long long sequence,
    unsigned long long timestamp_ms, unsigned char flags
) except -1:
    """The header of a record whose payload stands behind it."""
    store(record + 4, length, 4)
    store(record + 8, sequence, 8)
    store(record + 16, timestamp_ms, 8)
    record[24] = flags
    store(record, crc32_of(record + 4, SIZE - 4 + length, seed), 4)
    return 0


cpdef Py_ssize_t put_record(
    bytearray buffer, Py_ssize_t fill, unsigned int seed, unsigned long long sequence,
    unsigned long long timestamp_ms, unsigned char flags, tuple parts
) except -1:
    cdef Py_ssize_t length = 0
    cdef Py_ssize_t size
    cdef bytes part
    cdef unsigned char* record
    cdef unsigned char* target
    for part in parts:
        length += PyBytes_GET_SIZE(part)
    record = room_for(buffer, fill, length)
    target = record + SIZE
    for part in parts:
        size = PyBytes_GET_SIZE(part)
        memcpy(target, PyBytes_AS_STRING(part), size)
        target += size
    put_header(record, length, seed, sequence, timestamp_ms, flags)
    return fill + SIZE + length


cpdef Py_ssize_t put_spans(
    bytearray buffer, Py_ssize_t fill, unsigned int seed, unsigned long long sequence,
    unsigned long long timestamp_ms, unsigned char flags, bytes prefix, bytearray source,
    Py_ssize_t start_1, Py_ssize_t stop_1, Py_ssize_t start_2, Py_ssize_t stop_2
) except -1:
    cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(prefix)
    cdef Py_ssize_t length = prefix_size + stop_1 - start_1 + stop_2 - start_2
    cdef const unsigned char* spans
    cdef unsigned char* record
    cdef unsigned char* target
    if not (0 <= start_1 <= stop_1 <= start_2 <= stop_2 <= PyByteArray_GET_SIZE(source)):
        raise IndexError(f"bytes {start_1}..{stop_1} and {start_2}..{stop_2} of {len(source)}")
    record = room_for(buffer, fill, length)
    target = record + SIZE
    spans = <const unsigned char*>PyByteArray_AS_STRING(source)
    memcpy(target, PyBytes_AS_STRING(prefix), prefix_size)
    target += prefix_size
    memcpy(target, spans + start_1, stop_1 - start_1)
    target += stop_1 - start_1
    memcpy(target, spans + start_2, stop_2 - start_2)
    put_header(record, length, seed, sequence, timestamp_ms, flags)
    return fill + SIZE + length


cpdef Py_ssize_t keep_alive(bytearray buffer, Py_ssize_t begin, Py_ssize_t fill, Bitmap live) except -1:
    cdef unsigned char* data = <unsigned char*>PyByteArray_AS_STRING(buffer)
    cdef Py_ssize_t position = begin
    cdef Py_ssize_t target = begin
    cdef Py_ssize_t size
    if begin < 0 or fill > PyByteArray_GET_SIZE(buffer):
        raise IndexError("more than the buffer holds")
    while position < fill:
        size = SIZE
        if position + SIZE <= fill:
            size += <Py_ssize_t>fetch(data + position + 4, 4)
        if position + size > fill:
            raise IndexError(f"no whole record at {position} of {fill}")
        if live.has(fetch(data + position + 8, 8)):
            if target < position:
                memmove(data + target, data + position, size)
            target += size
        position += size
    return target


cdef class Record:

    def __init__(
        self, unsigned long long sequence, unsigned long long timestamp_ms, int flags, bytes payload not None
    ):
        self.sequence = sequence
        self.timestamp_ms = timestamp_ms
        self.flags = flags
        self.payload = payload

    def __repr__(self):
        return f"Record({self.sequence}, {self.timestamp_ms}, {self.flags}, {len(self.payload)} bytes)"


cdef class Header:

    cpdef Py_ssize_t load(
        self, bytes data, Py_ssize_t position, unsigned int seed, unsigned long long low, unsigned long long high
    ) except -1:
        cdef Py_ssize_t stop = PyBytes_GET_SIZE(data)
        cdef Py_ssize_t end
        cdef const unsigned char* record
        if position < 0 or position + SIZE > stop:
            return 0
        record = <const unsigned char*>PyBytes_AS_STRING(data) + position
        end = position + SIZE + <Py_ssize_t>fetch(record + 4, 4)
        self.sequence = fetch(record + 8, 8)
        if end > stop or self.sequence < low or self.sequence >= high:
            return 0
        if crc32_of(record + 4, end - position - 4, seed) != <unsigned int>fetch(record, 4):
            return 0
        self.length = end - position - SIZE
        self.timestamp_ms = fetch(record + 16, 8)
        self.flags = record[24]
        return end

    cpdef Py_ssize_t peek(self, bytes data, Py_ssize_t position) except -1:
        cdef const unsigned char* record
        if position < 0 or position + SIZE > PyBytes_GET_SIZE(data):
            return 0
        record = <const unsigned char*>PyBytes_AS_STRING(data) + position
        self.length = <Py_ssize_t>fetch(record + 4, 4)
        self.sequence = fetch(record + 8, 8)
        self.timestamp_ms = fetch(record + 16, 8)
        self.flags = record[24]
        return position + SIZE + self.length
