# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twin of rows.py: the same frames, the bytes moved by memcpy."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from embermq.wire.kernel cimport Output

DEF FRAME_END = 0xCE
DEF SHORTSTR_BYTES_MAX = 255
DEF HEADS_BYTES = 128  # about what stands around a body
DEF PROPERTIES_BYTES_MIN = 2
DEF PROPERTIES_BYTES_MAX = 0xFFFFFFFF


cdef inline void store_u16(unsigned char* p, unsigned int value) noexcept:
    p[0] = <unsigned char>(value >> 8)
    p[1] = <unsigned char>value


cdef inline void store_u32(unsigned char* p, unsigned int value) noexcept:
    store_u16(p, value >> 16)
    store_u16(p + 2, value)


cdef inline void store_u64(unsigned char* p, unsigned long long value) noexcept:
    store_u32(p, <unsigned int>(value >> 32))
    store_u32(p + 4, <unsigned int>value)


cdef class Cells:
    """Cell `n` is data[places[n] : places[n + 1]]; the places are 32-bit integers of this machine."""

    def __cinit__(self, places, data):
        PyObject_GetBuffer(places, &self.places_buffer, PyBUF_SIMPLE)
        PyObject_GetBuffer(data, &self.data_buffer, PyBUF_SIMPLE)
        cdef Py_ssize_t size = self.places_buffer.len
        cdef Py_ssize_t data_size = self.data_buffer.len
        cdef Py_ssize_t row
        if size % 4 or size == 0:
            raise ValueError(f"places are 32-bit integers, one more than values, not {size} bytes")
        self.places = <const int*>self.places_buffer.buf
        self.data = <const unsigned char*>self.data_buffer.buf
        self.count = size // 4 - 1
        if self.places[0] < 0 or self.places[self.count] > data_size:
            raise ValueError(f"places of values outside their {data_size} bytes")
        for row in range(self.count):
            if self.places[row + 1] < self.places[row]:
                raise ValueError(
                    f"a value ends at {self.places[row + 1]}, before it begins at {self.places[row]}"
                )

    def __dealloc__(self):
        PyBuffer_Release(&self.places_buffer)
        PyBuffer_Release(&self.data_buffer)

    cpdef bytes cell(self, Py_ssize_t row):
        if row < 0 or row >= self.count:
            raise IndexError(f"row {row} of {self.count}")
        return PyBytes_FromStringAndSize(
            <const char*>self.data + self.places[row], self.places[row + 1] - self.places[row]
        )


Buffer = object  # whatever has Python's buffer protocol
Column = Cells | bytes  # bytes: the same in every row


@cython.final
cdef class Source:
    """A column: cells, or one value for all rows."""

    def __init__(self, values):
        if isinstance(values, Cells):
            self.cells = values
        else:
            self.same = values

    cdef int check(self, Py_ssize_t count, Py_ssize_t size_min, Py_ssize_t size_max, str what) except -1:
        cdef Py_ssize_t row, size
        if self.cells is not None and self.cells.count != count:
            raise ValueError(f"columns of {count} and of {self.cells.count} rows")
        for row in range(count if self.cells is not None else 1):
            if self.cells is not None:
                size = self.cells.places[row + 1] - self.cells.places[row]
            else:
                size = PyBytes_GET_SIZE(self.same)
            if size > size_max:
                raise ValueError(f"short string of {size} bytes, {size_max} is the most")
            if size < size_min:
                raise ValueError(f"{what} as bytes must be what Properties.encode() gave")
        return 0

    cdef bytes value(self, Py_ssize_t row):
        return self.same if self.cells is None else self.cells.cell(row)


cdef inline const unsigned char* found(Source column, Py_ssize_t row, Py_ssize_t* size) noexcept:
    """Where a value stands; the row is known to be there."""
    cdef Cells cells = column.cells
    if cells is None:
        size[0] = PyBytes_GET_SIZE(column.same)
        return <const unsigned char*>PyBytes_AS_STRING(column.same)
    size[0] = cells.places[row + 1] - cells.places[row]
    return cells.data + cells.places[row]


@cython.final
cdef class Rows:
    """Messages to be published. `properties` are flags and values, as they stand on the wire."""

    def __init__(self, Cells bodies not None, exchange not None, routing_key not None, properties not None,
                 bint mandatory):
        self.count = bodies.count
        self.bodies = bodies
        self.exchange = Source(exchange)
        self.routing_key = Source(routing_key)
        self.row_properties = Source(properties)
        self.mandatory = mandatory
        self.exchange.check(self.count, 0, SHORTSTR_BYTES_MAX, "")
        self.routing_key.check(self.count, 0, SHORTSTR_BYTES_MAX, "")
        self.row_properties.check(self.count, PROPERTIES_BYTES_MIN, PROPERTIES_BYTES_MAX, "properties")

    cpdef bytes method(self, Py_ssize_t row):
        """The payload of basic.publish."""
        cdef bytes exchange = self.exchange.value(row)
        cdef bytes routing_key = self.routing_key.value(row)
        return b"".join((b"\x00\x3c\x00\x28\x00\x00", bytes([len(exchange)]), exchange, bytes([len(routing_key)]),
                         routing_key, bytes([self.mandatory])))

    cpdef bytes properties(self, Py_ssize_t row):
        return self.row_properties.value(row)

    cpdef bytes body(self, Py_ssize_t row):
        return self.bodies.cell(row)

    cpdef Py_ssize_t put(self, Output out, int channel, Py_ssize_t row, Py_ssize_t frame_max,
                         Py_ssize_t bytes_max) except -1:
        """Append the messages from `row` on, until `bytes_max` wait there; the first that is left."""
        if row < 0 or row > self.count or frame_max <= 8:
            raise IndexError(f"row {row} of {self.count}, frame-max {frame_max}")
        cdef const int* places = self.bodies.places
        cdef const unsigned char* data = self.bodies.data
        cdef Py_ssize_t body_size
        cdef Py_ssize_t size_at = 0  # in `heads`, of the body's size
        cdef bytes heads = None  # the frames before the body, if they are the same for all
        cdef bint same = (self.exchange.cells is None and self.routing_key.cells is None
                          and self.row_properties.cells is None)
        cdef Output one
        # All at once: a buffer that grows step by step is copied at every step.
        cdef Py_ssize_t wanted = places[self.count] - places[row] + (self.count - row) * HEADS_BYTES
        if out.size < bytes_max:
            out.reserve(min(wanted, bytes_max - out.size) + HEADS_BYTES)
        while row < self.count and out.size < bytes_max:
            body_size = places[row + 1] - places[row]
            if heads is not None:
                out.reserve(PyBytes_GET_SIZE(heads))
                memcpy(out.data + out.size, PyBytes_AS_STRING(heads), PyBytes_GET_SIZE(heads))
                store_u64(out.data + out.size + size_at, <unsigned long long>body_size)
                out.size += PyBytes_GET_SIZE(heads)
            else:
                self.put_heads(out, channel, row, body_size)
                if same:
                    one = Output()
                    self.put_heads(one, channel, row, 0)
                    heads = one.take()
                    size_at = PyBytes_GET_SIZE(heads) - PyBytes_GET_SIZE(self.row_properties.same) - 9
            out.put_body(channel, data + places[row], body_size, frame_max)
            row += 1
        return row

    cdef int put_heads(self, Output out, int channel, Py_ssize_t row, Py_ssize_t body_size) except -1:
        """Append the frames of basic.publish and of the content header."""
        cdef Py_ssize_t exchange_size, key_size, properties_size
        cdef const unsigned char* exchange = found(self.exchange, row, &exchange_size)
        cdef const unsigned char* key = found(self.routing_key, row, &key_size)
        cdef const unsigned char* properties = found(self.row_properties, row, &properties_size)
        cdef Py_ssize_t size = exchange_size + key_size + properties_size + 37
        out.reserve(size)
        cdef unsigned char* p = out.data + out.size
        p[0] = 1
        store_u16(p + 1, channel)
        store_u32(p + 3, <unsigned int>(exchange_size + key_size + 9))
        store_u32(p + 7, 0x003C0028)
        store_u16(p + 11, 0)
        p[13] = <unsigned char>exchange_size
        memcpy(p + 14, exchange, exchange_size)
        p += 14 + exchange_size
        p[0] = <unsigned char>key_size
        memcpy(p + 1, key, key_size)
        p += 1 + key_size
        p[0] = self.mandatory
        p[1] = FRAME_END
        p[2] = 2
        store_u16(p + 3, channel)
        store_u32(p + 5, <unsigned int>(12 + properties_size))
        store_u32(p + 9, 0x003C0000)
        store_u64(p + 13, <unsigned long long>body_size)
        memcpy(p + 21, properties, properties_size)
        p[21 + properties_size] = FRAME_END
        out.size += size
        return 0
