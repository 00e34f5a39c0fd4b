# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twin of column.py: the same results, the bytes moved by memcpy."""

cimport cython
from cpython.bytearray cimport (
    PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_GET_SIZE, PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t
from libc.string cimport memchr, memcmp, memcpy

DEF FIRST_BYTES = 4096
DEF PLACE_MAX = 0x7FFFFFFF
DEF NO_VALUE = -1
DEF SPARE_BYTES_MIN = 65536
DEF SPARES_MAX = 3

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* object)


cdef inline int check(bytearray buf, Py_ssize_t start, Py_ssize_t stop) except -1:
    if start < 0 or stop < start or stop > PyByteArray_GET_SIZE(buf):
        raise IndexError(f"bytes {start}..{stop} of a buffer of {len(buf)}")
    return 0


cdef inline int check_count(Py_ssize_t wanted, Py_ssize_t count) except -1:
    if wanted < 0 or wanted > count:
        raise IndexError(f"{wanted} values of {count}")
    return 0


@cython.final
cdef class ByteColumn:
    """Values of any length one behind the other, and the place where each begins."""

    def __init__(self):
        self.data = PyByteArray_FromStringAndSize(NULL, FIRST_BYTES)
        self.places = PyByteArray_FromStringAndSize(NULL, FIRST_BYTES)
        (<int32_t*>PyByteArray_AS_STRING(self.places))[0] = 0
        self.spares = []
        self.size = 0
        self.count = 0

    cdef int grow(self, Py_ssize_t wanted) except -1:
        if wanted > PLACE_MAX:
            raise OverflowError(f"a column holds less than 2 GiB, not {wanted} bytes")
        return PyByteArray_Resize(self.data, max(wanted, 2 * PyByteArray_GET_SIZE(self.data)))

    cpdef int append(self, bytearray buf, Py_ssize_t start, Py_ssize_t stop) except -1:
        """More of the value that is being put together."""
        check(buf, start, stop)
        memcpy(room(self, stop - start), PyByteArray_AS_STRING(buf) + start, stop - start)
        return 0

    cpdef int end(self) except -1:
        """That value is whole."""
        return end(self)

    cdef int grow_places(self) except -1:
        return PyByteArray_Resize(self.places, 2 * PyByteArray_GET_SIZE(self.places))

    cpdef int forget_after(self, Py_ssize_t count) except -1:
        """Back to the first `count` values."""
        check_count(count, self.count)
        self.count = count
        self.size = (<int32_t*>PyByteArray_AS_STRING(self.places))[count]
        return 0

    cpdef tuple take(self, Py_ssize_t count):
        """The places and the bytes of the first `count` values, which are gone from here then."""
        check_count(count, self.count)
        cdef bytearray data = self.data
        cdef bytearray places = self.places
        cdef int32_t* old = <int32_t*>PyByteArray_AS_STRING(places)
        cdef Py_ssize_t cut = old[count]
        cdef Py_ssize_t rest = self.size - cut
        cdef Py_ssize_t rest_count = self.count - count
        # The next one will be about as large.
        self.data = self.blank(max(rest, min(PyByteArray_GET_SIZE(data), 2 * cut), FIRST_BYTES))
        memcpy(PyByteArray_AS_STRING(self.data), PyByteArray_AS_STRING(data) + cut, rest)
        self.places = PyByteArray_FromStringAndSize(NULL, PyByteArray_GET_SIZE(places))
        cdef int32_t* new = <int32_t*>PyByteArray_AS_STRING(self.places)
        cdef Py_ssize_t i
        for i in range(rest_count + 1):
            new[i] = <int32_t>(old[count + i] - cut)
        self.size = rest
        self.count = rest_count
        PyByteArray_Resize(places, 4 * (count + 1))
        if cut < SPARE_BYTES_MIN:
            PyByteArray_Resize(data, cut)
            return places, data
        self.spares.append(data)
        if len(self.spares) > SPARES_MAX:
            del self.spares[0]
        # As it is, for the next time: cut to its size it would give memory back.
        return places, memoryview(data)[:cut]

    cdef bytearray blank(self, Py_ssize_t size):
        """A buffer to write into: one that was taken and let go of, or a new one.

        Memory from the system comes zeroed page by page, which costs more than what is written to it.
        """
        cdef bytearray spare
        cdef Py_ssize_t i
        for i in range(len(self.spares)):
            spare = self.spares[i]
            if Py_REFCNT(<PyObject*>spare) == 2:  # the list's and ours: no other references
                del self.spares[i]
                if PyByteArray_GET_SIZE(spare) < size:
                    PyByteArray_Resize(spare, size)
                return spare
        return PyByteArray_FromStringAndSize(NULL, size)


@cython.final
cdef class NumberColumn:
    """64-bit integers."""

    def __init__(self):
        self.data = PyByteArray_FromStringAndSize(NULL, FIRST_BYTES)
        self.count = 0

    cpdef int append(self, long long value) except -1:
        if 8 * (self.count + 1) > PyByteArray_GET_SIZE(self.data):
            PyByteArray_Resize(self.data, 2 * PyByteArray_GET_SIZE(self.data))
        (<long long*>PyByteArray_AS_STRING(self.data))[self.count] = value
        self.count += 1
        return 0

    cpdef int forget_after(self, Py_ssize_t count) except -1:
        check_count(count, self.count)
        self.count = count
        return 0

    cpdef bytearray take(self, Py_ssize_t count):
        check_count(count, self.count)
        cdef bytearray data = self.data
        cdef Py_ssize_t rest = self.count - count
        self.data = PyByteArray_FromStringAndSize(NULL, PyByteArray_GET_SIZE(data))
        memcpy(PyByteArray_AS_STRING(self.data), PyByteArray_AS_STRING(data) + 8 * count, 8 * rest)
        self.count = rest
        PyByteArray_Resize(data, 8 * count)
        return data


cpdef long long field_value(bytearray buf, Py_ssize_t start, Py_ssize_t stop, bytes field) except? -1:
    """The 64-bit integer behind `field` if that stands in buf[start:stop] just once; else -1."""
    check(buf, start, stop)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(field)
    cdef const char* wanted = PyBytes_AS_STRING(field)
    cdef const unsigned char* base = <const unsigned char*>PyByteArray_AS_STRING(buf)
    cdef const unsigned char* at = base + start
    cdef const unsigned char* end = base + stop - size - 7
    cdef const unsigned char* found = NULL
    cdef unsigned long long value = 0
    cdef int i
    while at < end:
        at = <const unsigned char*>memchr(at, wanted[0], end - at)
        if at == NULL:
            break
        if memcmp(at, wanted, size) == 0:
            if found != NULL:
                return NO_VALUE
            found = at
        at += 1
    if found == NULL:
        return NO_VALUE
    for i in range(8):
        value = (value << 8) | found[size + i]
    return <long long>value


cdef inline unsigned int fetch_u32(const unsigned char* p) noexcept:
    return (<unsigned int>p[0] << 24) | (<unsigned int>p[1] << 16) | (<unsigned int>p[2] << 8) | p[3]


cdef inline unsigned long long fetch_u64(const unsigned char* p) noexcept:
    return (<unsigned long long>fetch_u32(p) << 32) | fetch_u32(p + 4)


cdef inline Py_ssize_t frame_after(const unsigned char* buf, Py_ssize_t pos, Py_ssize_t end, int kind,
                                   int channel) noexcept:
    """Where the next frame begins; 0 if there is not, whole, a frame of this kind."""
    cdef const unsigned char* p = buf + pos
    cdef Py_ssize_t stop
    if end - pos < 8 or p[0] != kind or ((<int>p[1] << 8) | p[2]) != channel:
        return 0
    stop = pos + 7 + <Py_ssize_t>fetch_u32(p + 3)
    return stop + 1 if stop < end and buf[stop] == 0xCE else 0


@cython.final
cdef class Delivery:
    """Where the parts of one message stand: basic.deliver, its header, and its body in one frame."""

    cpdef Py_ssize_t find(self, bytearray buf, Py_ssize_t pos, Py_ssize_t end, int channel, bytes consumer) except -1:
        """Where the frame behind it begins; 0 if at `pos` there is not, whole, a message for this consumer.

        `consumer` is its tag with the length in front.
        """
        if pos < 0 or end > PyByteArray_GET_SIZE(buf):
            raise IndexError(f"bytes {pos}..{end} of a buffer of {len(buf)}")
        cdef const unsigned char* base = <const unsigned char*>PyByteArray_AS_STRING(buf)
        cdef Py_ssize_t consumer_size = PyBytes_GET_SIZE(consumer)
        cdef Py_ssize_t header_at = frame_after(base, pos, end, 1, channel)
        cdef Py_ssize_t tag_at = pos + 11 + consumer_size
        if header_at == 0 or tag_at + 11 > header_at - 1 or fetch_u32(base + pos + 7) != 0x003C003C:
            return 0
        if memcmp(base + pos + 11, PyBytes_AS_STRING(consumer), consumer_size) != 0:
            return 0
        cdef Py_ssize_t body_at = frame_after(base, header_at, end, 2, channel)
        cdef Py_ssize_t properties_at = header_at + 19
        if body_at == 0 or properties_at + 2 > body_at - 1:
            return 0
        cdef unsigned long long size = fetch_u64(base + properties_at - 8)
        if base[properties_at - 12] != 0 or base[properties_at - 11] != 0x3C:
            return 0
        cdef Py_ssize_t after = frame_after(base, body_at, end, 3, channel) if size else body_at
        if after == 0 or (size and <unsigned long long>(after - body_at - 8) != size):
            return 0
        self.tag = fetch_u64(base + tag_at)
        self.redelivered = base[tag_at + 8] & 1
        self.names_at, self.names_stop = tag_at + 9, header_at - 1
        self.properties_at, self.properties_stop = properties_at, body_at - 1
        self.body_at = body_at + 7 if size else body_at
        self.body_stop = self.body_at + <Py_ssize_t>size
        return after
