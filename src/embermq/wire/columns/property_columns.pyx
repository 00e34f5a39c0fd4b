# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of property_columns.py: the same buffers, without an object for any message."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from json.encoder import encode_basestring_ascii

from embermq.errors import SyntaxFault
from embermq.wire.properties import Properties
from embermq.wire.table import decode_value

from embermq.wire.columns.column cimport ByteColumn, end as end_value, room

cdef bytes OFFSET_NAME = b"x-stream-offset"
cdef bytes TIME_NAME = b"x-stream-timestamp"
cdef bytes OTHER_TIME_NAME = b"timestamp_in_ms"

Made = dict

DEF PROPERTIES = 14
DEF HEADERS = 2  # its place among them
DEF TIMESTAMP = 9
DEF DIGITS_MAX = 21  # with a minus
cdef long long NUMBER_MAX = (1 << 63) - 1


cdef int broken(str why) except -1:
    raise SyntaxFault(f"content header {why}")


cdef inline unsigned long long big(const unsigned char* p, Py_ssize_t size) noexcept:
    cdef unsigned long long value = 0
    cdef Py_ssize_t i
    for i in range(size):
        value = (value << 8) | p[i]
    return value


cdef inline void mark(bytearray bits, Py_ssize_t row) noexcept:
    (<unsigned char*>PyByteArray_AS_STRING(bits))[row >> 3] |= <unsigned char>(1 << (row & 7))


cdef bytearray zeros(Py_ssize_t size):
    cdef bytearray made = PyByteArray_FromStringAndSize(NULL, size)
    memset(PyByteArray_AS_STRING(made), 0, size)
    return made


cdef inline int append(ByteColumn column, const unsigned char* data, Py_ssize_t size) except -1:
    memcpy(room(column, size), data, size)
    return 0


@cython.final
cdef class Texts:
    """Texts of some rows; those that are passed over are absent."""

    def __init__(self):
        self.values = ByteColumn()

    cdef int begin(self, Py_ssize_t rows) except -1:
        self.bits = zeros((rows + 7) // 8)
        self.present = 0
        return 0

    cdef int put(self, Py_ssize_t row, const unsigned char* data, Py_ssize_t size) except -1:
        while self.values.count < row:
            end_value(self.values)
        append(self.values, data, size)
        end_value(self.values)
        mark(self.bits, row)
        self.present += 1
        return 0

    cdef tuple taken(self, Py_ssize_t rows):
        while self.values.count < rows:
            end_value(self.values)
        return (None if self.present == rows else self.bits, *self.values.take(rows))


@cython.final
cdef class Numbers:
    """Integers of some rows."""

    cdef int begin(self, Py_ssize_t rows) except -1:
        self.values = zeros(8 * rows)
        self.bits = zeros((rows + 7) // 8)
        self.present = 0
        return 0

    cdef int put(self, Py_ssize_t row, long long value) except -1:
        (<long long*>PyByteArray_AS_STRING(self.values))[row] = value
        mark(self.bits, row)
        self.present += 1
        return 0

    cdef tuple taken(self, Py_ssize_t rows):
        return None if self.present == rows else self.bits, self.values


cdef inline Py_ssize_t fixed_size(unsigned char letter) noexcept:
    """Of a value; -1: its size stands before it, -2: there is no such letter."""
    if letter == c"t" or letter == c"b" or letter == c"B":
        return 1
    if letter == c"s" or letter == c"u":
        return 2
    if letter == c"I" or letter == c"i" or letter == c"f":
        return 4
    if letter == c"l" or letter == c"L" or letter == c"T" or letter == c"d":
        return 8
    if letter == c"S" or letter == c"x" or letter == c"A" or letter == c"F":
        return -1
    if letter == c"V":
        return 0
    return 5 if letter == c"D" else -2


cdef inline bint is_number(unsigned char letter) noexcept:
    """Those that are a whole number for Python, too: a boolean and a timestamp among them."""
    return letter in b"tbBsuIilLT"


cdef inline unsigned long long magnitude(Field* field, bint* negative) noexcept:
    """Of a whole number, and whether there is a minus before it."""
    cdef int unused_bits = 64 - 8 * <int>field.value_size
    cdef unsigned long long value = big(field.value, field.value_size)
    cdef long long extended = <long long>(value << unused_bits) >> unused_bits
    negative[0] = extended < 0 and field.letter in b"bsIlL"
    return -<unsigned long long>extended if negative[0] else value


cdef inline long long number(Field* field) noexcept:
    cdef bint negative
    cdef unsigned long long value = magnitude(field, &negative)
    if negative:
        return <long long>-value
    return NUMBER_MAX if value >> 63 else <long long>value


cdef Py_ssize_t write_digits(unsigned char* buffer, Field* field) noexcept:
    """At the end of a buffer of DIGITS_MAX bytes; where they begin."""
    cdef bint negative
    cdef unsigned long long value = magnitude(field, &negative)
    cdef Py_ssize_t at = DIGITS_MAX
    while True:
        at -= 1
        buffer[at] = <unsigned char>(48 + value % 10)
        value //= 10
        if value == 0:
            break
    if negative:
        at -= 1
        buffer[at] = 45
    return at


cdef int put_bytes(ByteColumn column, bytes data) except -1:
    return append(column, <const unsigned char*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef int put_quoted(ByteColumn column, const unsigned char* text, Py_ssize_t size) except -1:
    """As JSON has it, in ASCII."""
    cdef Py_ssize_t i
    cdef unsigned char* p
    for i in range(size):
        if text[i] < 32 or text[i] >= 127 or text[i] == 34 or text[i] == 92:
            found = PyBytes_FromStringAndSize(<const char*>text, size).decode("utf-8", "surrogateescape")
            return put_bytes(column, encode_basestring_ascii(found).encode())
    p = room(column, size + 2)
    p[0] = p[size + 1] = 34
    memcpy(p + 1, text, size)
    return 0


cdef object value_of(Field* field):
    """A value as Python has it: its letter stands before it, or before its size."""
    cdef Py_ssize_t before = 5 if fixed_size(field.letter) < 0 else 1
    cdef bytes encoded = PyBytes_FromStringAndSize(
        <const char*>field.value - before, field.value_size + before
    )
    return decode_value(encoded, 0, len(encoded))[0]


cdef inline bint is_named(Field* field, bytes name) noexcept:
    return (field.name_size == PyBytes_GET_SIZE(name)
            and memcmp(field.name, PyBytes_AS_STRING(name), field.name_size) == 0)


cdef inline bint is_less(Field* one, Field* other) noexcept:
    cdef int order = memcmp(one.name, other.name, min(one.name_size, other.name_size))
    return order < 0 or (order == 0 and one.name_size < other.name_size)


@cython.final
cdef class PropertyColumns:

    def __cinit__(self, wanted, text_of, json_of):
        self.fields = NULL
        self.fields_max = 0
        self.text_of = text_of
        self.json_of = json_of
        # In the order of their flags; None: not wanted.
        self.columns = [
            None if name not in wanted or name == "headers"
            else Numbers() if name in ("delivery_mode", "priority", "timestamp") else Texts()
            for name in Properties.__slots__
        ]
        self.taken_ms = Numbers() if "taken_ms" in wanted else None
        self.keys = ByteColumn() if "headers" in wanted else None
        self.items = Texts() if "headers" in wanted else None
        self.json = ByteColumn() if "headers_json" in wanted else None
        self.with_headers = self.taken_ms is not None or self.keys is not None or self.json is not None

    def __dealloc__(self):
        free(self.fields)

    def decode(self, places, data, Py_ssize_t start, Py_ssize_t stop):
        """Of the messages [start, stop), whose properties stand at data[places[n] : places[n + 1]]."""
        cdef Py_buffer bounds, bytes_of
        PyObject_GetBuffer(places, &bounds, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(data, &bytes_of, PyBUF_SIMPLE)
            try:
                if start < 0 or stop < start or 4 * (stop + 1) > bounds.len:
                    raise IndexError(f"messages {start} to {stop} of {bounds.len // 4 - 1}")
                self.begin(stop - start)
                try:
                    self.put_rows(<const int*>bounds.buf + start, stop - start,
                                  <const unsigned char*>bytes_of.buf, bytes_of.len)
                except BaseException:
                    self.forget()
                    raise
                return self.taken(stop - start)
            finally:
                PyBuffer_Release(&bytes_of)
        finally:
            PyBuffer_Release(&bounds)

    cdef int begin(self, Py_ssize_t rows) except -1:
        for column in self.columns:
            if type(column) is Texts:
                (<Texts>column).begin(rows)
            elif column is not None:
                (<Numbers>column).begin(rows)
        if self.taken_ms is not None:
            self.taken_ms.begin(rows)
        if self.keys is not None:
            self.map_places = zeros(4 * (rows + 1))
            self.map_size = 0
            self.items.begin(16 * rows)
        return 0

    cdef int forget(self) except -1:
        """What was begun: the next batch starts anew."""
        for column in (*self.columns, self.items):
            if type(column) is Texts:
                (<Texts>column).values.forget_after(0)
        for values in (self.keys, self.json):
            if values is not None:
                values.forget_after(0)
        return 0

    cdef dict taken(self, Py_ssize_t rows):
        cdef dict made = {}
        for name, column in zip(Properties.__slots__, self.columns):
            if type(column) is Texts:
                made[name] = (<Texts>column).taken(rows) if (<Texts>column).present else None
            elif column is not None:
                made[name] = (<Numbers>column).taken(rows) if (<Numbers>column).present else None
        if self.taken_ms is not None:
            made["taken_ms"] = self.taken_ms.taken(rows) if self.taken_ms.present else None
        if self.keys is not None:
            made["headers"] = (self.map_places, *self.keys.take(self.map_size), *self.items.taken(self.map_size))
        if self.json is not None:
            made["headers_json"] = (None, *self.json.take(rows))
        return made

    cdef int put_rows(self, const int* places, Py_ssize_t rows, const unsigned char* data,
                      Py_ssize_t size) except -1:
        cdef Py_ssize_t row
        for row in range(rows):
            if places[row] < 0 or places[row + 1] < places[row] or places[row + 1] > size:
                raise IndexError(f"properties at {places[row]} to {places[row + 1]} of {size} bytes")
            self.put_row(row, data + places[row], data + places[row + 1])
        return 0

    cdef int put_row(self, Py_ssize_t row, const unsigned char* p, const unsigned char* end) except -1:
        cdef unsigned int flags, more
        cdef Py_ssize_t i, size, count = 0
        cdef object column
        if end - p < 2:
            broken("ends before its flags")
        flags = (<unsigned int>p[0] << 8) | p[1]
        p += 2
        more = flags
        while more & 1:
            if end - p < 2:
                broken("ends before its flags")
            more = (<unsigned int>p[0] << 8) | p[1]
            p += 2
            if more & 0xFFFE:
                broken("has flags of unknown properties")
        if flags & 2:
            broken("has flags of unknown properties")
        for i in range(PROPERTIES):
            if not flags & (0x8000 >> i):
                continue
            if i == HEADERS:
                size = 4 + <Py_ssize_t>big(p, 4) if end - p >= 4 else end - p + 1
            elif i == HEADERS + 1 or i == HEADERS + 2:
                size = 1
            elif i == TIMESTAMP:
                size = 8
            else:
                size = 1 + p[0] if end - p >= 1 else 1
            if size > end - p:
                broken("ends inside a property")
            column = self.columns[i]
            if i == HEADERS:
                if self.with_headers:
                    count = self.parse(p + 4, p + size)
            elif column is None:
                pass
            elif type(column) is Texts:
                (<Texts>column).put(row, p + 1, size - 1)
            else:
                (<Numbers>column).put(row, NUMBER_MAX if size == 8 and p[0] >> 7 else <long long>big(p, size))
            p += size
        if p != end:
            broken("is longer than its properties")
        return self.put_headers(row, count) if self.with_headers else 0

    cdef Py_ssize_t parse(self, const unsigned char* p, const unsigned char* end) except -1:
        """The fields of a table; how many there are."""
        cdef Py_ssize_t count = 0, size, i
        cdef Field* field
        while p < end:
            if count == self.fields_max:
                self.fields_max = max(16, 2 * self.fields_max)
                field = <Field*>realloc(self.fields, self.fields_max * sizeof(Field))
                if field == NULL:
                    raise MemoryError
                self.fields = field
            field = &self.fields[count]
            field.name = p + 1
            field.name_size = p[0]
            p += 1 + p[0]
            if p >= end:
                broken("ends inside a header")
            field.letter = p[0]
            p += 1
            size = fixed_size(field.letter)
            if size == -2:
                broken(f"has a header of unknown type {chr(field.letter)!r}")
            if size == -1:
                size = <Py_ssize_t>big(p, 4) if end - p >= 4 else end - p + 1
                p += 4
            if size > end - p:
                broken("ends inside a header")
            field.value = p
            field.value_size = size
            p += size
            for i in range(count):
                if (self.fields[i].name_size == field.name_size
                        and memcmp(self.fields[i].name, field.name, field.name_size) == 0):
                    broken("has a header twice")
            count += 1
        return count

    cdef int put_headers(self, Py_ssize_t row, Py_ssize_t count) except -1:
        cdef Py_ssize_t i, kept = 0
        cdef Field* taken = NULL
        cdef Field* field
        for i in range(count):
            field = &self.fields[i]
            if is_named(field, TIME_NAME) or (taken == NULL and is_named(field, OTHER_TIME_NAME)):
                taken = field
        if self.taken_ms is not None and taken != NULL and is_number(taken.letter):
            self.taken_ms.put(row, number(taken))
        for i in range(count):
            field = &self.fields[i]
            if not is_named(field, OFFSET_NAME) and not is_named(field, TIME_NAME):
                self.fields[kept] = field[0]
                kept += 1
        if self.keys is not None:
            self.put_map(row, kept)
        if self.json is not None:
            self.put_json(kept)
        return 0

    cdef int put_map(self, Py_ssize_t row, Py_ssize_t count) except -1:
        cdef Py_ssize_t i
        cdef Field* field
        for i in range(count):
            field = &self.fields[i]
            append(self.keys, field.name, field.name_size)
            end_value(self.keys)
            if (self.map_size >> 3) >= len(self.items.bits):
                self.items.bits += zeros(len(self.items.bits) + 8)
            if field.letter == c"S":
                self.items.put(self.map_size, field.value, field.value_size)
            elif field.letter != c"V":
                self.put_item(field)
            self.map_size += 1
        (<int*>PyByteArray_AS_STRING(self.map_places))[row + 1] = <int>self.map_size
        return 0

    cdef int put_item(self, Field* field) except -1:
        """The text of a value that is none."""
        cdef unsigned char digits[DIGITS_MAX]
        cdef Py_ssize_t at
        cdef bytes text
        if field.letter != c"t" and is_number(field.letter):
            at = write_digits(digits, field)
            return self.items.put(self.map_size, digits + at, DIGITS_MAX - at)
        if field.letter == c"t":
            text = b"true" if field.value[0] else b"false"
        else:
            found = self.text_of(value_of(field))
            if found is None:
                return 0
            text = found.encode("utf-8", "surrogateescape")
        return self.items.put(self.map_size, <const unsigned char*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))

    cdef int put_json(self, Py_ssize_t count) except -1:
        cdef ByteColumn json = self.json
        cdef Py_ssize_t i, at
        cdef Field field
        for i in range(1, count):  # by their names
            field = self.fields[i]
            at = i
            while at and is_less(&field, &self.fields[at - 1]):
                self.fields[at] = self.fields[at - 1]
                at -= 1
            self.fields[at] = field
        put_bytes(json, b"{")
        for i in range(count):
            if i:
                put_bytes(json, b", ")
            put_quoted(json, self.fields[i].name, self.fields[i].name_size)
            put_bytes(json, b": ")
            self.put_json_value(&self.fields[i])
        put_bytes(json, b"}")
        return end_value(json)

    cdef int put_json_value(self, Field* field) except -1:
        cdef unsigned char digits[DIGITS_MAX]
        cdef Py_ssize_t at
        if field.letter == c"S":
            return put_quoted(self.json, field.value, field.value_size)
        if field.letter == c"V":
            return put_bytes(self.json, b"null")
        if field.letter == c"t":
            return put_bytes(self.json, b"true" if field.value[0] else b"false")
        if not is_number(field.letter):
            return put_bytes(self.json, self.json_of(value_of(field)).encode())
        if field.letter == c"T":
            put_bytes(self.json, b'{"$timestamp": ')
        at = write_digits(digits, field)
        append(self.json, digits + at, DIGITS_MAX - at)
        return put_bytes(self.json, b"}") if field.letter == c"T" else 0
