# cython: language_level=3, boundscheck=False, wraparound=False
"""A scanner of encoded field tables: checks one and finds some of its fields, in one walk over its bytes.

`field_scan.py` beside this file is the interpreted twin; tests run over both. No object is made for a field.
What the walk does not like (a fault, or more fields than it compares names of) is left to `decode_table`,
which knows what to say about it.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from embermq.wire.table import DEPTH_MAX, decode_table, decode_value

DEF NAMES_MAX = 16
DEF COMPARED_MAX = 32  # fields of one table whose names are compared with each other here
DEF FAULT = -1
DEF NOT_FIXED = 255

cdef int depth_max = DEPTH_MAX
# How many bytes the value under each letter takes.
cdef unsigned char[256] value_bytes
for code in range(256):
    value_bytes[code] = {
        "b": 1, "B": 1, "t": 1, "s": 2, "u": 2, "I": 4, "i": 4, "f": 4, "D": 5, "l": 8, "L": 8, "d": 8, "T": 8, "V": 0,
    }.get(chr(code), NOT_FIXED)


cdef inline Py_ssize_t long_end(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept:
    """Behind the bytes whose length of four octets stands at `pos`."""
    if pos + 4 > end:
        return FAULT
    cdef Py_ssize_t size = (<Py_ssize_t>data[pos] << 24) | (data[pos + 1] << 16) | (data[pos + 2] << 8) | data[pos + 3]
    return FAULT if size > end - pos - 4 else pos + 4 + size


cdef Py_ssize_t check_value(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int depth) noexcept:
    """Behind the value whose letter stands at `pos`."""
    cdef unsigned char letter = data[pos]
    cdef Py_ssize_t stop
    if letter == c"S" or letter == c"x":
        return long_end(data, pos + 1, end)
    if letter == c"F" or letter == c"A":
        stop = long_end(data, pos + 1, end)
        if stop == FAULT or depth >= depth_max:
            return FAULT
        if letter == c"F":
            return check_fields(data, pos + 5, stop, depth + 1, None, NULL)
        pos += 5
        while pos < stop:
            pos = check_value(data, pos, stop, depth + 1)
            if pos == FAULT:
                return FAULT
        return stop
    stop = pos + 1 + value_bytes[letter]
    return FAULT if value_bytes[letter] == NOT_FIXED or stop > end else stop


cdef Py_ssize_t check_fields(const unsigned char* data, Py_ssize_t pos, Py_ssize_t end, int depth, FieldScan scan,
                             Py_ssize_t* found) noexcept:
    """Behind the fields at `pos`; their letters are noted in `found`, one for each name of the scan."""
    cdef Py_ssize_t[COMPARED_MAX] fields
    cdef unsigned long long seen = 0, bit
    cdef Py_ssize_t size
    cdef int count = 0, i
    while pos < end:
        size = data[pos] + 1
        if pos + size >= end or count == COMPARED_MAX:
            return FAULT
        # Names are compared only where these 64 bits say that one of those before may be the same.
        bit = 1ULL << ((data[pos] + 29 * data[pos + size // 2] + 7 * data[pos + size - 1]) & 63)
        if seen & bit:
            for i in range(count):
                if memcmp(data + fields[i], data + pos, size) == 0:  # the length is a part of it
                    return FAULT
        seen |= bit
        fields[count] = pos
        count += 1
        if found != NULL:
            scan.note(data, pos, size, found)
        pos = check_value(data, pos + size, end, depth)
        if pos == FAULT:
            return FAULT
    return pos


cdef class FieldScan:
    def __init__(self, names):
        if len(names) > NAMES_MAX:
            raise ValueError(f"{len(names)} names, {NAMES_MAX} are the most")
        self.names = tuple(name.encode("utf-8", "surrogateescape") for name in names)
        self.encoded = tuple(bytes([len(name)]) + name for name in self.names)
        self.count = len(names)
        self.found = 0
        self.firsts = 0
        for i, name in enumerate(self.encoded):
            self.wanted[i] = <const unsigned char*>PyBytes_AS_STRING(name)
            self.firsts |= 1ULL << ((name[0] * 5 + name[len(name) - 1]) & 63)

    cdef void note(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t size, Py_ssize_t* found) noexcept:
        cdef int i
        if self.firsts >> ((data[pos] * 5 + data[pos + size - 1]) & 63) & 1:
            for i in range(self.count):
                if self.wanted[i][0] == data[pos] and memcmp(self.wanted[i], data + pos, size) == 0:
                    found[i] = pos + size
                    self.found += 1

    cpdef Py_ssize_t read(self, buf, Py_ssize_t pos, Py_ssize_t end) except -1:
        """Check the table at `pos` and note where the wanted fields are; the position behind it."""
        cdef const unsigned char* data
        cdef Py_ssize_t stop
        if pos < 0 or end > len(buf):
            raise IndexError(f"bytes {pos}..{end} of a buffer of {len(buf)}")
        if isinstance(buf, bytearray):
            data = <const unsigned char*>PyByteArray_AS_STRING(buf)
        else:
            data = <const unsigned char*>PyBytes_AS_STRING(<bytes?>buf)
        self.clear()
        stop = long_end(data, pos, end)
        if stop != FAULT and check_fields(data, pos + 4, stop, 1, self, self.places) == stop:
            return stop
        _, stop = decode_table(buf, pos, end)
        self.clear()
        self.find(data, pos + 4, stop)
        return stop

    cdef void clear(self) noexcept:
        cdef int i
        self.found = 0
        for i in range(self.count):
            self.places[i] = -1

    cdef void find(self, const unsigned char* data, Py_ssize_t pos, Py_ssize_t end) noexcept:
        """Note the wanted fields of a table that was checked."""
        cdef Py_ssize_t size
        while pos < end:
            size = data[pos] + 1
            self.note(data, pos, size, self.places)
            pos += size
            if value_bytes[data[pos]] == NOT_FIXED:
                pos = long_end(data, pos + 1, end)
            else:
                pos += 1 + value_bytes[data[pos]]

    cpdef bint has(self, int number) except -1:
        """Was there a field with that name (the number of it among those of the scan)?"""
        if not 0 <= number < self.count:
            raise IndexError(number)
        return self.places[number] >= 0

    cpdef object value(self, buf, int number):
        """Its value, as `decode_table` would give it; None where there is none."""
        if not self.has(number):
            return None
        return decode_value(buf, self.places[number], len(buf))[0]
