# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twin of property_rows.py: the same bytes."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy

from embermq.wire.columns.publish_rows cimport Cells

DEF SHORTSTR_BYTES_MAX = 255
DEF PLACE_MAX = 0x7FFFFFFF
DEF FIRST_BYTES = 65536
DEF HEADERS_FLAG = 0x2000


cdef inline int check_short(Py_ssize_t size) except -1:
    if size > SHORTSTR_BYTES_MAX:
        raise ValueError(f"short string of {size} bytes, {SHORTSTR_BYTES_MAX} is the most")
    return 0


cdef inline void store_number(unsigned char* p, unsigned long long value, int size) noexcept:
    cdef int i
    for i in range(size):
        p[i] = <unsigned char>(value >> (8 * (size - 1 - i)))


@cython.final
cdef class Mask:
    """A byte for each row."""

    def __cinit__(self, marks, Py_ssize_t count):
        PyObject_GetBuffer(marks, &self.buffer, PyBUF_SIMPLE)
        if self.buffer.len < count:
            raise ValueError(f"{self.buffer.len} rows of {count} are marked")
        self.marks = <const unsigned char*>self.buffer.buf

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


cdef Mask mask(object marks, Py_ssize_t count):
    return None if marks is None else Mask(marks, count)


cdef inline bint here(Mask present, Py_ssize_t row) noexcept:
    return present is None or present.marks[row] != 0


@cython.final
cdef class Bytes:
    """What has been encoded so far."""

    def __cinit__(self):
        self.data = NULL
        self.size = self.capacity = 0

    def __dealloc__(self):
        free(self.data)

    cdef unsigned char* room(self, Py_ssize_t size) except NULL:
        """Where to write the next `size` bytes, which count as written."""
        cdef Py_ssize_t wanted = self.size + size
        cdef Py_ssize_t capacity = self.capacity or FIRST_BYTES
        cdef void* grown
        cdef unsigned char* at
        if wanted > PLACE_MAX:
            raise OverflowError(f"a column holds less than 2 GiB, not {wanted} bytes")
        if wanted > self.capacity:
            while capacity < wanted:
                capacity *= 2
            grown = realloc(self.data, capacity)
            if grown == NULL:
                raise MemoryError(f"no memory for {capacity} bytes of properties")
            self.data = <unsigned char*>grown
            self.capacity = capacity
        at = self.data + self.size
        self.size = wanted
        return at

    cdef int put(self, const unsigned char* data, Py_ssize_t size) except -1:
        memcpy(self.room(size), data, size)
        return 0

    cdef int put_short(self, const unsigned char* data, Py_ssize_t size) except -1:
        check_short(size)
        cdef unsigned char* at = self.room(1 + size)
        at[0] = <unsigned char>size
        memcpy(at + 1, data, size)
        return 0


cdef inline int put_long(Bytes out, const unsigned char* data, Py_ssize_t size) except -1:
    """A long string with its letter."""
    cdef unsigned char* at = out.room(5 + size)
    at[0] = c"S"
    store_number(at + 1, size, 4)
    memcpy(at + 5, data, size)
    return 0


@cython.final
cdef class RowHeaders:
    """The headers of each row: texts out of a map, and one that says which row it is."""

    def __init__(self):
        self.name = b""

    def __dealloc__(self):
        PyBuffer_Release(&self.places_buffer)

    def add_map(self, places, Cells keys not None, Cells items not None, items_present, present):
        """Row `n` has the keys and items places[n] to places[n + 1]; an item that is not present is void."""
        PyBuffer_Release(&self.places_buffer)
        PyObject_GetBuffer(places, &self.places_buffer, PyBUF_SIMPLE)
        cdef const int* bounds = <const int*>self.places_buffer.buf
        cdef Py_ssize_t count = self.places_buffer.len // 4
        cdef Py_ssize_t i
        for i in range(count):
            if keys.count != items.count or bounds[i] < 0 or bounds[i] > keys.count:
                raise ValueError("places of a map outside its keys and items")
        self.places, self.rows = bounds, count - 1
        self.keys, self.items = keys, items
        self.items_here = mask(items_present, items.count)
        self.map_here = mask(present, self.rows)

    def add_id(self, bytes name not None, bytes prefix, unsigned long long row, Cells ids, present):
        """One that is called `name`: what `ids` has, else, if there is a prefix, that and the row's number."""
        check_short(len(name))
        self.name, self.prefix, self.row, self.ids = name, prefix, row, ids
        self.id_here = None if ids is None else mask(present, ids.count)

    cdef int check(self, Py_ssize_t count) except -1:
        if self.places != NULL and self.rows != count:
            raise ValueError(f"headers of {self.rows} rows, not {count}")
        if self.ids is not None and self.ids.count != count:
            raise ValueError(f"ids of {self.ids.count} rows, not {count}")
        return 0

    cdef int put(self, Bytes out, Py_ssize_t row) except -1:
        """The fields of a row's table."""
        cdef bint given = self.prefix is not None or (self.ids is not None and here(self.id_here, row))
        cdef const int* keys
        cdef const int* items
        cdef const unsigned char* key
        cdef Py_ssize_t entry, size
        if self.places != NULL and here(self.map_here, row):
            keys, items = self.keys.places, self.items.places
            for entry in range(self.places[row], self.places[row + 1]):
                key = self.keys.data + keys[entry]
                size = keys[entry + 1] - keys[entry]
                check_short(size)
                if given and size == PyBytes_GET_SIZE(self.name) and not memcmp(
                        key, PyBytes_AS_STRING(self.name), size):
                    continue
                out.put_short(key, size)
                if here(self.items_here, entry):
                    put_long(out, self.items.data + items[entry], items[entry + 1] - items[entry])
                else:
                    out.room(1)[0] = c"V"
        if given:
            self.put_id(out, row)
        return 0

    cdef bint put_id(self, Bytes out, Py_ssize_t row) except -1:
        cdef unsigned char digits[20]
        cdef int at = 20
        cdef unsigned long long number = self.row + row
        cdef Py_ssize_t size
        cdef unsigned char* p
        cdef Cells ids = self.ids
        out.put_short(<const unsigned char*>PyBytes_AS_STRING(self.name), PyBytes_GET_SIZE(self.name))
        if ids is not None and here(self.id_here, row):
            put_long(out, ids.data + ids.places[row], ids.places[row + 1] - ids.places[row])
            return True
        while True:
            at -= 1
            digits[at] = <unsigned char>(48 + number % 10)
            number //= 10
            if number == 0:
                break
        size = PyBytes_GET_SIZE(self.prefix)
        p = out.room(5 + size + 20 - at)
        p[0] = c"S"
        store_number(p + 1, size + 20 - at, 4)
        memcpy(p + 5, PyBytes_AS_STRING(self.prefix), size)
        memcpy(p + 5 + size, digits + at, 20 - at)
        return True


@cython.final
cdef class Part:
    """One property: the same for all, a text, a number or the headers."""

    def __cinit__(self, unsigned int flag):
        self.flag = flag

    def __dealloc__(self):
        PyBuffer_Release(&self.numbers_buffer)

    cdef bint put(self, Bytes out, Py_ssize_t row) except -1:
        """Whether the row has it."""
        cdef Py_ssize_t start, table_size
        cdef long long number
        if not here(self.present, row):
            return False
        if self.same is not None:
            out.put(<const unsigned char*>PyBytes_AS_STRING(self.same), PyBytes_GET_SIZE(self.same))
        elif self.cells is not None:
            start = self.cells.places[row]
            out.put_short(self.cells.data + start, self.cells.places[row + 1] - start)
        elif self.headers is not None:
            start = out.size
            out.room(4)
            self.headers.put(out, row)
            table_size = out.size - start - 4
            if table_size == 0:
                out.size = start
                return False
            store_number(out.data + start, table_size, 4)
        else:
            number = self.numbers[row]
            if number < 0:
                raise OverflowError("can't convert negative int to unsigned")
            if self.size < 8 and number >> (8 * self.size):
                raise OverflowError("int too big to convert")
            store_number(out.room(self.size), <unsigned long long>number, self.size)
        return True


@cython.final
cdef class PropertyRows:

    def __init__(self, Py_ssize_t count):
        self.count = count
        self.parts = []

    def add_same(self, unsigned int flag, bytes encoded not None):
        """One that all rows have, as it stands on the wire."""
        cdef Part part = Part(flag)
        part.same = encoded
        self.parts.append(part)

    def add_texts(self, unsigned int flag, Cells cells not None, present):
        """Short strings."""
        if cells.count != self.count:
            raise ValueError(f"texts of {cells.count} rows, not {self.count}")
        cdef Part part = Part(flag)
        part.cells = cells
        part.present = mask(present, self.count)
        self.parts.append(part)

    def add_numbers(self, unsigned int flag, numbers, int size, present):
        """64-bit integers of this machine, which take `size` bytes on the wire."""
        cdef Part part = Part(flag)
        PyObject_GetBuffer(numbers, &part.numbers_buffer, PyBUF_SIMPLE)
        if part.numbers_buffer.len // 8 < self.count:
            raise ValueError(f"numbers of {part.numbers_buffer.len // 8} rows, not {self.count}")
        part.numbers = <const long long*>part.numbers_buffer.buf
        part.size = size
        part.present = mask(present, self.count)
        self.parts.append(part)

    def add_headers(self, RowHeaders headers not None):
        headers.check(self.count)
        cdef Part part = Part(HEADERS_FLAG)
        part.headers = headers
        self.parts.append(part)

    def encode(self):
        """Places and data of all rows."""
        cdef bytearray places = PyByteArray_FromStringAndSize(NULL, 4 * (self.count + 1))
        cdef int* place = <int*>PyByteArray_AS_STRING(places)
        cdef Bytes out = Bytes()
        cdef Py_ssize_t row, start
        cdef unsigned int flags
        cdef Part part
        place[0] = 0
        for row in range(self.count):
            start = out.size
            out.room(2)
            flags = 0
            for part in self.parts:
                if part.put(out, row):
                    flags |= part.flag
            store_number(out.data + start, flags, 2)
            place[row + 1] = <int>out.size
        return places, PyByteArray_FromStringAndSize(<char*>out.data, out.size)
