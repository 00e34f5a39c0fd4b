# cython: language_level=3, boundscheck=False, wraparound=False
"""The few operations on raw bytes that need C: loads, cuts, and the buffer that output is assembled in.

`kernel.py` beside this file is the interpreted twin; tests run over both. Every function checks its range,
because positions come from the network.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject, Py_XDECREF, _Py_REFCNT
from libc.string cimport memcmp, memcpy

cdef extern from "Python.h":
    # With the object itself, not a reference that Cython counts: one that is resized may have no other.
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char* data, Py_ssize_t size) except NULL
    int _PyBytes_Resize(PyObject** object, Py_ssize_t size) except -1
    char* start_of "PyBytes_AS_STRING"(PyObject* object) noexcept

DEF FRAME_END = 0xCE
DEF KEEP_CAPACITY_BYTES_MAX = 65536
DEF FIRST_CAPACITY_BYTES = 1024
DEF LENT_BYTES_MAX = 1048576
DEF STAYS_BYTES_MIN = 65536


cdef inline int check(bytearray buf, Py_ssize_t start, Py_ssize_t stop) except -1:
    if start < 0 or stop < start or stop > PyByteArray_GET_SIZE(buf):
        raise IndexError(f"bytes {start}..{stop} of a buffer of {len(buf)}")
    return 0


cpdef long load_u16(bytearray buf, Py_ssize_t pos) except -1:
    check(buf, pos, pos + 2)
    cdef unsigned char* p = <unsigned char*>PyByteArray_AS_STRING(buf) + pos
    return (<long>p[0] << 8) | p[1]


cpdef long long load_u32(bytearray buf, Py_ssize_t pos) except -1:
    check(buf, pos, pos + 4)
    cdef unsigned char* p = <unsigned char*>PyByteArray_AS_STRING(buf) + pos
    return (<long long>p[0] << 24) | (<long long>p[1] << 16) | (<long long>p[2] << 8) | p[3]


cpdef unsigned long long load_u64(bytearray buf, Py_ssize_t pos) except? 0:
    check(buf, pos, pos + 8)
    cdef unsigned char* p = <unsigned char*>PyByteArray_AS_STRING(buf) + pos
    cdef unsigned long long value = 0
    cdef int i
    for i in range(8):
        value = (value << 8) | p[i]
    return value


cpdef bytes cut(bytearray buf, Py_ssize_t start, Py_ssize_t stop):
    check(buf, start, stop)
    return PyBytes_FromStringAndSize(PyByteArray_AS_STRING(buf) + start, stop - start)


cpdef bytes join(bytearray buf, Py_ssize_t start_1, Py_ssize_t stop_1, Py_ssize_t start_2, Py_ssize_t stop_2):
    check(buf, start_1, stop_1)
    check(buf, start_2, stop_2)
    cdef Py_ssize_t size_1 = stop_1 - start_1
    cdef Py_ssize_t size_2 = stop_2 - start_2
    cdef bytes joined = PyBytes_FromStringAndSize(NULL, size_1 + size_2)
    cdef char* target = PyBytes_AS_STRING(joined)
    cdef char* source = PyByteArray_AS_STRING(buf)
    memcpy(target, source + start_1, size_1)
    memcpy(target + size_1, source + start_2, size_2)
    return joined


cpdef bint same(bytearray buf, Py_ssize_t pos, bytes expected):
    cdef Py_ssize_t size = PyBytes_GET_SIZE(expected)
    if pos < 0 or pos + size > PyByteArray_GET_SIZE(buf):
        return False
    return memcmp(PyByteArray_AS_STRING(buf) + pos, PyBytes_AS_STRING(expected), size) == 0



cpdef Py_ssize_t body_end(bytearray buf, Py_ssize_t at, Py_ssize_t end, bytes head, Py_ssize_t size_at,
                          Py_ssize_t size_max) except -1:
    cdef Py_ssize_t head_size = PyBytes_GET_SIZE(head)
    cdef Py_ssize_t body_at = at + head_size + 4
    cdef Py_ssize_t rest_at = size_at + 8
    cdef Py_ssize_t stop
    cdef const unsigned char* message
    cdef const char* expected
    cdef unsigned long long size
    if at < 0 or size_at < 0 or rest_at > head_size or body_at > end or end > PyByteArray_GET_SIZE(buf):
        return 0
    message = <const unsigned char*>PyByteArray_AS_STRING(buf) + at
    expected = PyBytes_AS_STRING(head)
    if memcmp(message, expected, size_at) or memcmp(message + rest_at, expected + rest_at, head_size - rest_at):
        return 0
    size = load_u64(buf, at + size_at)
    if size == 0 or size > <unsigned long long>size_max or <unsigned long long>load_u32(buf, body_at - 4) != size:
        return 0
    stop = body_at + <Py_ssize_t>size
    if stop >= end or message[stop - at] != FRAME_END:
        return 0
    return stop


cdef inline void store_u16(unsigned char* p, unsigned int value) noexcept:
    p[0] = <unsigned char>(value >> 8)
    p[1] = <unsigned char>value


cdef inline void store_u32(unsigned char* p, unsigned int value) noexcept:
    p[0] = <unsigned char>(value >> 24)
    p[1] = <unsigned char>(value >> 16)
    p[2] = <unsigned char>(value >> 8)
    p[3] = <unsigned char>value


cdef inline void store_u64(unsigned char* p, unsigned long long value) noexcept:
    store_u32(p, <unsigned int>(value >> 32))
    store_u32(p + 4, <unsigned int>value)


cdef inline int check_content(bytes content, Py_ssize_t header_size, Py_ssize_t frame_max) except -1:
    if header_size < 0 or header_size > PyBytes_GET_SIZE(content) or frame_max <= 8:
        raise IndexError(f"header of {header_size} in a content of {len(content)} bytes, frame-max {frame_max}")
    return 0


cdef Py_ssize_t headers_start(const unsigned char* header, Py_ssize_t size) noexcept:
    """Where in a content header the table of headers stands, or would stand."""
    cdef Py_ssize_t at = 14
    if header[12] & 0x80 and at < size:
        at += 1 + header[at]
    if header[12] & 0x40 and at < size:
        at += 1 + header[at]
    return at


cdef Py_ssize_t headers_end(const unsigned char* header, Py_ssize_t size, Py_ssize_t at) except -1:
    """Where it ends, given where it stands; the same if there is none."""
    cdef Py_ssize_t end = at
    if header[12] & 0x20:
        if at + 4 > size:
            raise IndexError("a content header ends before its headers")
        end = at + 4 + ((<Py_ssize_t>header[at] << 24) | (<Py_ssize_t>header[at + 1] << 16)
                        | (<Py_ssize_t>header[at + 2] << 8) | header[at + 3])
    if end > size:
        raise IndexError("a content header ends before its headers do")
    return end


@cython.final
cdef class Output:
    """Frames on their way out of one connection, in the order in which they were put.

    They are put into a bytes object without other references: a burst leaves as that, without a copy.
    Large bodies of deliveries stay where they are, so that a peer that does not read holds no copy of them:
    `pieces` says where between the frames they belong (None: there are none), and `take_pieces` answers all.
    """

    def __cinit__(self):
        self.store = NULL
        self.data = NULL
        self.size = 0
        self.capacity = 0
        self.pieces = None
        self.pieces_size = 0
        self.lent = 0

    def __dealloc__(self):
        Py_XDECREF(self.store)

    def __len__(self):
        return self.size

    cdef int reserve(self, Py_ssize_t extra) except -1:
        cdef Py_ssize_t wanted = self.size + extra
        if wanted <= self.capacity:
            return 0
        cdef Py_ssize_t capacity
        if self.lent:
            self.take_back()
            if wanted <= self.capacity:
                return 0
        capacity = self.capacity or FIRST_CAPACITY_BYTES
        while capacity < wanted:
            capacity *= 2
        if self.store == NULL:
            self.store = new_bytes(NULL, capacity)
        else:
            self.size = self.capacity = 0  # should there be no memory, the store is gone
            _PyBytes_Resize(&self.store, capacity)
            self.size = wanted - extra
        self.data = <unsigned char*>start_of(self.store)
        self.capacity = capacity
        return 0

    cdef int take_back(self) except -1:
        """Use again what was lent, if it has no other references."""
        if _Py_REFCNT(self.store) == 1:
            self.capacity = self.lent
        else:
            Py_XDECREF(self.store)
            self.store = NULL
            self.data = NULL
        self.lent = 0
        return 0

    cpdef int write(self, bytes data) except -1:
        """Append bytes that are frames already."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
        self.reserve(size)
        memcpy(self.data + self.size, PyBytes_AS_STRING(data), size)
        self.size += size
        return 0

    cpdef int put_delivery(self, bytes prefix, unsigned long long delivery_tag, bint redelivered, bytes names,
                           int channel, bytes content, Py_ssize_t header_size, Py_ssize_t frame_max) except -1:
        """Append basic.deliver and its content.

        `prefix` is the payload up to the delivery tag (class, method, consumer tag), `names` the exchange and
        the routing key as short strings, both just as they stand on the wire.
        """
        check_content(content, header_size, frame_max)  # first: nothing of a delivery that cannot be whole
        self.put_deliver(prefix, delivery_tag, redelivered, <unsigned char*>PyBytes_AS_STRING(names),
                         PyBytes_GET_SIZE(names), channel)
        return self.put_content(channel, content, header_size, frame_max)

    cdef int put_deliver(self, bytes prefix, unsigned long long delivery_tag, bint redelivered,
                         const unsigned char* names, Py_ssize_t names_size, int channel) except -1:
        """Append the frame of basic.deliver."""
        cdef Py_ssize_t prefix_size = PyBytes_GET_SIZE(prefix)
        cdef Py_ssize_t payload_size = prefix_size + 9 + names_size
        self.reserve(payload_size + 8)
        cdef unsigned char* p = self.data + self.size
        p[0] = 1
        store_u16(p + 1, channel)
        store_u32(p + 3, <unsigned int>payload_size)
        p += 7
        memcpy(p, PyBytes_AS_STRING(prefix), prefix_size)
        p += prefix_size
        store_u64(p, delivery_tag)
        p[8] = redelivered
        p += 9
        memcpy(p, names, names_size)
        p[names_size] = FRAME_END
        self.size += payload_size + 8
        return 0

    cpdef int put_content(self, int channel, bytes content, Py_ssize_t header_size, Py_ssize_t frame_max) except -1:
        """Append the header frame and as many body frames as `frame_max` makes necessary."""
        check_content(content, header_size, frame_max)
        cdef unsigned char* source = <unsigned char*>PyBytes_AS_STRING(content)
        self.reserve(header_size + 8)
        cdef unsigned char* p = self.data + self.size
        p[0] = 2
        store_u16(p + 1, channel)
        store_u32(p + 3, <unsigned int>header_size)
        memcpy(p + 7, source, header_size)
        p[7 + header_size] = FRAME_END
        self.size += header_size + 8
        cdef Py_ssize_t size = PyBytes_GET_SIZE(content)
        if size - header_size >= STAYS_BYTES_MIN:
            return self.put_pieces(channel, content, header_size, size, frame_max)
        return self.put_body(channel, source + header_size, size - header_size, frame_max)

    cdef int put_body(self, int channel, const unsigned char* source, Py_ssize_t body_size,
                      Py_ssize_t frame_max) except -1:
        """Append as many body frames as `frame_max` makes necessary."""
        cdef Py_ssize_t part_max = frame_max - 8
        cdef Py_ssize_t part
        self.reserve(body_size + 8 * ((body_size + part_max - 1) // part_max))
        cdef unsigned char* p = self.data + self.size
        while body_size > 0:
            part = body_size if body_size <= part_max else part_max
            p[0] = 3
            store_u16(p + 1, channel)
            store_u32(p + 3, <unsigned int>part)
            memcpy(p + 7, source, part)
            p += 7 + part
            p[0] = FRAME_END
            p += 1
            source += part
            body_size -= part
        self.size = p - self.data
        return 0

    cdef int put_pieces(self, int channel, bytes block, Py_ssize_t start, Py_ssize_t stop,
                        Py_ssize_t frame_max) except -1:
        """Append body frames for block[start:stop], which stays where it is."""
        cdef Py_ssize_t part
        cdef unsigned char* p
        view = memoryview(block)
        if self.pieces is None:
            self.pieces = []
        while start < stop:
            part = min(stop - start, frame_max - 8)
            self.reserve(8)
            p = self.data + self.size
            p[0] = 3
            store_u16(p + 1, channel)
            store_u32(p + 3, <unsigned int>part)
            p[7] = FRAME_END
            self.pieces.append((self.size + 7, view[start:start + part]))
            self.pieces_size += part
            self.size += 8
            start += part
        return 0

    cpdef int put_stored_delivery(self, bytes prefix, unsigned long long delivery_tag, int channel, bytes block,
                                  Py_ssize_t names_at, Py_ssize_t content_at, Py_ssize_t stop,
                                  Py_ssize_t header_size, bytes field, unsigned long long number,
                                  Py_ssize_t frame_max) except -1:
        """Append basic.deliver and the content that stands at block[content_at:stop], with one header more.

        `block[names_at:content_at]` is exchange and routing key. The header is `field`, its name as a short
        string followed by the type letter of a 64-bit integer, with the value `number`; it comes last.
        """
        if not (0 <= names_at <= content_at and content_at + 14 <= content_at + header_size <= stop
                and stop <= PyBytes_GET_SIZE(block) and frame_max > 8):
            raise IndexError(f"names at {names_at}, header of {header_size} at {content_at}..{stop}")
        cdef unsigned char* names = <unsigned char*>PyBytes_AS_STRING(block) + names_at
        cdef unsigned char* source = <unsigned char*>PyBytes_AS_STRING(block) + content_at
        cdef Py_ssize_t at = headers_start(source, header_size)
        cdef Py_ssize_t rest_at = headers_end(source, header_size, at)
        cdef Py_ssize_t table_size = rest_at - at - 4 if source[12] & 0x20 else 0
        cdef Py_ssize_t field_size = PyBytes_GET_SIZE(field)
        cdef Py_ssize_t size = at + 4 + table_size + field_size + 8 + header_size - rest_at
        self.put_deliver(prefix, delivery_tag, False, names, content_at - names_at, channel)
        self.reserve(size + 8)
        cdef unsigned char* p = self.data + self.size
        p[0] = 2
        store_u16(p + 1, channel)
        store_u32(p + 3, <unsigned int>size)
        p += 7
        memcpy(p, source, at)
        p[12] = source[12] | 0x20
        p += at
        store_u32(p, <unsigned int>(table_size + field_size + 8))
        memcpy(p + 4, source + rest_at - table_size, table_size)
        p += 4 + table_size
        memcpy(p, PyBytes_AS_STRING(field), field_size)
        p += field_size
        store_u64(p, number)
        p += 8
        memcpy(p, source + rest_at, header_size - rest_at)
        p[header_size - rest_at] = FRAME_END
        self.size += size + 8
        content_at += header_size
        if stop - content_at >= STAYS_BYTES_MIN:
            return self.put_pieces(channel, block, content_at, stop, frame_max)
        return self.put_body(channel, source + header_size, stop - content_at, frame_max)

    cpdef int put_block(self, bytes prefix, unsigned long long delivery_tag, bytes names, int channel, bytes fields,
                        bytes block, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t frame_max) except -1:
        """Append basic.deliver and a content with the body block[start:stop]; its headers are `fields`.

        The body stays where it is, see `pieces`.
        """
        if not 0 <= start <= stop <= PyBytes_GET_SIZE(block) or frame_max <= 8:
            raise IndexError(f"bytes {start}..{stop} of a block of {len(block)}, frame-max {frame_max}")
        self.put_deliver(prefix, delivery_tag, False, <unsigned char*>PyBytes_AS_STRING(names),
                         PyBytes_GET_SIZE(names), channel)
        cdef Py_ssize_t size = PyBytes_GET_SIZE(fields)
        self.reserve(size + 26)
        cdef unsigned char* p = self.data + self.size
        p[0] = 2
        store_u16(p + 1, channel)
        store_u32(p + 3, <unsigned int>(size + 18))
        store_u32(p + 7, 0x003C0000)
        store_u64(p + 11, <unsigned long long>(stop - start))
        store_u16(p + 19, 0x2000)
        store_u32(p + 21, <unsigned int>size)
        memcpy(p + 25, PyBytes_AS_STRING(fields), size)
        p[25 + size] = FRAME_END
        self.size += size + 26
        return self.put_pieces(channel, block, start, stop, frame_max)

    cpdef int put_publish(self, int channel, bytes method, bytes properties, bytes body, Py_ssize_t frame_max) except -1:
        """Append basic.publish and its content: `method` is its payload, `properties` flags and values."""
        if frame_max <= 8:
            raise IndexError(f"frame-max {frame_max}")
        cdef Py_ssize_t method_size = PyBytes_GET_SIZE(method)
        cdef Py_ssize_t properties_size = PyBytes_GET_SIZE(properties)
        cdef Py_ssize_t body_size = PyBytes_GET_SIZE(body)
        self.reserve(method_size + properties_size + 28)
        cdef unsigned char* p = self.data + self.size
        p[0] = 1
        store_u16(p + 1, channel)
        store_u32(p + 3, <unsigned int>method_size)
        memcpy(p + 7, PyBytes_AS_STRING(method), method_size)
        p += 7 + method_size
        p[0] = FRAME_END
        p[1] = 2
        store_u16(p + 2, channel)
        store_u32(p + 4, <unsigned int>(12 + properties_size))
        store_u32(p + 8, 0x003C0000)
        store_u64(p + 12, <unsigned long long>body_size)
        memcpy(p + 20, PyBytes_AS_STRING(properties), properties_size)
        p[20 + properties_size] = FRAME_END
        self.size += method_size + properties_size + 28
        return self.put_body(channel, <const unsigned char*>PyBytes_AS_STRING(body), body_size, frame_max)

    cpdef int put_ack(self, int channel, unsigned long long delivery_tag, bint multiple) except -1:
        """Append basic.ack: a publisher's confirm."""
        self.reserve(21)
        cdef unsigned char* p = self.data + self.size
        p[0] = 1
        store_u16(p + 1, channel)
        store_u32(p + 3, 13)
        store_u32(p + 7, 0x003C0050)
        store_u64(p + 11, delivery_tag)
        p[19] = multiple
        p[20] = FRAME_END
        self.size += 21
        return 0

    def take_pieces(self):
        """Everything put so far, in as many pieces as it takes to copy nothing, and start anew."""
        pieces = self.pieces or []
        self.pieces = None
        self.pieces_size = 0
        frames = memoryview(self.take())
        taken = []
        at = 0
        for place, piece in pieces:
            taken += (frames[at:place], piece)
            at = place
        taken.append(frames[at:])
        return taken

    cpdef bytes take(self):
        """Everything put so far, and start anew; a burst's memory is given back, a trickle's is kept."""
        assert self.pieces is None, "there is more to take, see take_pieces"
        cdef bytes taken
        cdef Py_ssize_t size = self.size
        self.size = 0
        if self.capacity <= KEEP_CAPACITY_BYTES_MAX:
            return PyBytes_FromStringAndSize(<char*>self.data, size)
        self.capacity = 0
        self.data = NULL
        _PyBytes_Resize(&self.store, size)
        taken = <bytes>self.store
        Py_XDECREF(self.store)  # `taken` has it now
        self.store = NULL
        return taken

    cpdef object lend(self):
        """As `take`, for a caller that sends it and keeps no reference: the memory of a burst is used again after that."""
        assert self.pieces is None, "there is more to take, see take_pieces"
        cdef Py_ssize_t size = self.size
        if self.capacity <= KEEP_CAPACITY_BYTES_MAX or self.capacity > LENT_BYTES_MAX:
            return memoryview(self.take())
        self.size = 0
        self.lent = self.capacity
        self.capacity = 0
        return memoryview(<object>self.store)[:size]
