# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled form of json_columns.py: a scanner that takes what is plain, and gives up on everything else."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.string cimport memcmp, memcpy

from embermq.wire.columns.property_columns cimport Numbers, Texts

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, PyObject* overflow) except? -1.0

Made = list

DEF OTHER = 0
DEF STRING = 1
DEF BOOL = 2
DEF DOUBLE = 3
DEF DATE = 4
DEF TIMESTAMP = 5
DEF LOCAL = 6
DEF INT8 = 7  # and those behind it, twice as large each
cdef dict KINDS = {
    "other": OTHER, "string": STRING, "bool": BOOL, "double": DOUBLE, "date": DATE, "timestamp": TIMESTAMP,
    "local": LOCAL, "int8": INT8, "int16": INT8 + 1, "int32": INT8 + 2, "int64": INT8 + 3,
}
DEF DEPTH_MAX = 60
DEF NUMBER_BYTES_MAX = 60
DEF DIGITS_MAX = 18  # that surely fit into 64 bits
DEF EXACT_MAX = 9007199254740992  # whole numbers up to here are doubles, and so are the powers of ten below
cdef double[23] POWERS
cdef int power
for power in range(23):
    POWERS[power] = float(10 ** power)


cdef inline bint is_digit(unsigned char c) noexcept:
    return 48 <= c <= 57


cdef inline bint is_hex(unsigned char c) noexcept:
    return is_digit(c) or 65 <= c <= 70 or 97 <= c <= 102


cdef inline int two_digits(const unsigned char* p) noexcept:
    """-1: they are none."""
    return 10 * (p[0] - 48) + p[1] - 48 if is_digit(p[0]) and is_digit(p[1]) else -1


cdef long long days(const unsigned char* p, bint* is_day) noexcept:
    """Since 1970, of YYYY-MM-DD."""
    cdef long long year, era, of_era
    cdef int month, day, last, of_year
    is_day[0] = False
    if two_digits(p) < 0 or two_digits(p + 2) < 0 or p[4] != 45 or p[7] != 45:
        return 0
    year = 100 * two_digits(p) + two_digits(p + 2)
    month, day = two_digits(p + 5), two_digits(p + 8)
    if month < 1 or month > 12 or day < 1 or year < 1:
        return 0
    last = 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31
    if month == 2:
        last = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    if day > last:
        return 0
    is_day[0] = True
    if month <= 2:  # a year that begins in March has its odd day at the end
        year -= 1
    era, of_era = year // 400, year % 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


cdef long long micros(const unsigned char* p, Py_ssize_t size, bint zoned, bint* is_time) noexcept:
    """Since 1970, of YYYY-MM-DDThh:mm:ss, up to six digits of a second, and, if it may have one, Z or +hh:mm."""
    cdef const unsigned char* end = p + size
    cdef long long found, fraction = 0
    cdef int hour, minute, second, digits = 0, hours, minutes, sign
    is_time[0] = False
    if size < 19 or (p[10] != 84 and p[10] != 32) or p[13] != 58 or p[16] != 58:
        return 0
    hour, minute, second = two_digits(p + 11), two_digits(p + 14), two_digits(p + 17)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return 0
    found = days(p, is_time)
    if not is_time[0]:
        return 0
    is_time[0] = False
    found = ((found * 24 + hour) * 60 + minute) * 60 + second
    p += 19
    if p < end and p[0] == 46:
        p += 1
        while p < end and is_digit(p[0]) and digits < 7:
            fraction = 10 * fraction + p[0] - 48
            digits += 1
            p += 1
        if digits == 0 or digits > 6:
            return 0
        for _ in range(6 - digits):
            fraction *= 10
    if zoned and p < end and p[0] == 90:
        p += 1
    elif zoned and end - p == 6 and (p[0] == 43 or p[0] == 45) and p[3] == 58:
        hours, minutes = two_digits(p + 1), two_digits(p + 4)
        if hours < 0 or minutes < 0 or minutes > 59 or hours * 60 + minutes > 18 * 60:
            return 0
        sign = 1 if p[0] == 43 else -1
        found -= sign * (hours * 60 + minutes) * 60
        p += 6
    is_time[0] = p == end
    return found * 1000000 + fraction


@cython.final
cdef class Wanted:
    """A field, and its column."""

    def __init__(self, str name, str kind):
        self.name = name.encode("utf-8", "surrogatepass")
        self.kind = KINDS[kind]
        self.texts = Texts() if self.kind == STRING else None
        self.numbers = Numbers() if self.kind > STRING else None


@cython.final
cdef class JsonColumns:
    """Methods that take or skip answer False where this scanner gives up."""

    def __init__(self, fields):
        self.fields = [Wanted(name, kind) for name, kind in fields]

    def decode(self, places, data, Py_ssize_t start, Py_ssize_t stop):
        """The columns of the bodies [start, stop), and which of them are left, counted from `start`."""
        cdef Py_buffer bounds, bytes_of
        cdef const int* at
        cdef Py_ssize_t row
        cdef Wanted field
        cdef list left = []
        PyObject_GetBuffer(places, &bounds, PyBUF_SIMPLE)
        try:
            PyObject_GetBuffer(data, &bytes_of, PyBUF_SIMPLE)
            try:
                if start < 0 or stop < start or 4 * (stop + 1) > bounds.len:
                    raise IndexError(f"bodies {start} to {stop} of {bounds.len // 4 - 1}")
                at = <const int*>bounds.buf + start
                for field in self.fields:
                    self.begin(field, stop - start)
                for row in range(stop - start):
                    if at[row] < 0 or at[row + 1] < at[row] or at[row + 1] > bytes_of.len:
                        raise IndexError(f"a body at {at[row]} to {at[row + 1]} of {bytes_of.len} bytes")
                    self.p = <const unsigned char*>bytes_of.buf + at[row]
                    self.end = <const unsigned char*>bytes_of.buf + at[row + 1]
                    if not self.take_row(row):
                        left.append(row)
            finally:
                PyBuffer_Release(&bytes_of)
        finally:
            PyBuffer_Release(&bounds)
        return [self.taken(field, stop - start) for field in self.fields], left

    def begin(self, Wanted field, Py_ssize_t rows):
        field.seen = -1
        if field.texts is not None:
            field.texts.values.forget_after(0)
            field.texts.begin(rows)
        elif field.numbers is not None:
            field.numbers.begin(rows)

    def taken(self, Wanted field, Py_ssize_t rows):
        if field.texts is not None:
            return field.texts.taken(rows) if field.texts.present else None
        return field.numbers.taken(rows) if field.numbers is not None and field.numbers.present else None

    cdef bint take_row(self, Py_ssize_t row) except -1:
        cdef const unsigned char* begin = self.p
        cdef const unsigned char* name
        cdef Py_ssize_t number = 0
        cdef Wanted wanted
        self.is_ascii = True
        self.skip_spaces()
        if self.p >= self.end or self.p[0] != 123:  # {
            return False
        self.p += 1
        self.skip_spaces()
        if self.p < self.end and self.p[0] == 125:  # }
            self.p += 1
        else:
            while True:
                name = self.p + 1
                if not self.skip_string() or is_escaped(name, self.p - 1):
                    return False
                wanted = self.find(name, self.p - 1 - name, number)
                self.skip_spaces()
                if self.p >= self.end or self.p[0] != 58:  # :
                    return False
                self.p += 1
                self.skip_spaces()
                if wanted is None:
                    if not self.skip_value(0):
                        return False
                elif wanted.seen == row or not self.take_value(wanted, row):
                    return False
                self.skip_spaces()
                if self.p >= self.end:
                    return False
                self.p += 1
                if (self.p - 1)[0] == 125:
                    break
                if (self.p - 1)[0] != 44:  # ,
                    return False
                self.skip_spaces()
                number += 1
        self.skip_spaces()
        if self.p != self.end:
            return False
        return self.is_ascii or is_utf8(begin, self.end - begin)

    cdef Wanted find(self, const unsigned char* name, Py_ssize_t size, Py_ssize_t hint):
        """Fields often come in the order of the columns."""
        cdef Py_ssize_t count = len(self.fields), i
        cdef Wanted wanted
        for i in range(count):
            wanted = <Wanted>self.fields[(hint + i) % count]
            if len(wanted.name) == size and memcmp(<const char*>wanted.name, name, size) == 0:
                return wanted
        return None

    cdef bint take_value(self, Wanted wanted, Py_ssize_t row) except -1:
        cdef unsigned char first
        if self.p >= self.end:
            return False
        first = self.p[0]
        wanted.seen = row
        if first == 110:  # n
            return self.skip_word(b"null", 4)
        if wanted.kind == STRING or wanted.kind == DATE or wanted.kind == TIMESTAMP or wanted.kind == LOCAL:
            return first == 34 and self.take_text(wanted, row)
        if wanted.kind == BOOL:
            if self.skip_word(b"true", 4):
                wanted.numbers.put(row, 1)
                return True
            if self.skip_word(b"false", 5):
                wanted.numbers.put(row, 0)
                return True
            return False
        return wanted.kind != OTHER and self.take_number(wanted, row)

    cdef bint take_text(self, Wanted wanted, Py_ssize_t row) except -1:
        cdef const unsigned char* text = self.p + 1
        cdef Py_ssize_t size
        cdef long long value
        cdef bint fits = False
        if not self.skip_string() or is_escaped(text, self.p - 1):
            return False
        size = self.p - 1 - text
        if wanted.kind == STRING:
            wanted.texts.put(row, text, size)
            return True
        if wanted.kind == DATE:
            value = days(text, &fits) if size == 10 else 0
        else:
            value = micros(text, size, wanted.kind == TIMESTAMP, &fits)
        if fits:
            wanted.numbers.put(row, value)
        return fits

    cdef bint take_number(self, Wanted wanted, Py_ssize_t row) except -1:
        cdef const unsigned char* begin = self.p
        cdef const unsigned char* q
        cdef long long value = 0, bits, most
        cdef double found
        cdef int fraction = 0, digits = 0
        cdef bint plain = True, behind_point = False, negative
        cdef char[NUMBER_BYTES_MAX + 1] text
        if not self.skip_number() or self.p - begin > NUMBER_BYTES_MAX:
            return False
        negative = begin[0] == 45
        q = begin + negative
        while q < self.p and plain:
            if is_digit(q[0]):
                digits += 1
                value = 10 * value + q[0] - 48 if digits <= DIGITS_MAX else 0
                fraction += behind_point
            else:
                plain = q[0] == 46
                behind_point = True
            q += 1
        plain = plain and digits <= DIGITS_MAX
        if wanted.kind != DOUBLE:
            # All that DIGITS_MAX digits can say fits into the largest kind.
            most = (<long long>1 << min(8 * (1 << (wanted.kind - INT8)) - 1, 62)) - 1
            if not plain or behind_point or value > most + negative:
                return False
            wanted.numbers.put(row, -value if negative else value)
            return True
        if plain and value <= EXACT_MAX and fraction < 23:
            found = <double>value / POWERS[fraction]  # of two exact ones: rounded once
            if negative and (value or behind_point):  # a whole -0 is 0
                found = -found
        else:
            memcpy(text, begin, self.p - begin)
            text[self.p - begin] = 0
            found = PyOS_string_to_double(text, NULL, NULL)
        memcpy(&bits, &found, 8)
        wanted.numbers.put(row, bits)
        return True

    # -- what is passed over

    cdef void skip_spaces(self) noexcept:
        while self.p < self.end and (self.p[0] == 32 or 9 <= self.p[0] <= 10 or self.p[0] == 13):
            self.p += 1

    cdef bint skip_word(self, const char* word, Py_ssize_t size) noexcept:
        if self.end - self.p < size or memcmp(self.p, word, size) != 0:
            return False
        self.p += size
        return True

    cdef bint skip_string(self) noexcept:
        cdef const unsigned char* p = self.p
        cdef const unsigned char* end = self.end
        cdef unsigned char seen = 0
        cdef int i
        if p >= end or p[0] != 34:
            return False
        p += 1
        while p < end and p[0] != 34:
            if p[0] < 32:
                return False
            seen |= p[0]
            if p[0] == 92:
                p += 1
                if p < end and p[0] == 117:  # u
                    if end - p < 5:
                        return False
                    for i in range(1, 5):
                        if not is_hex(p[i]):
                            return False
                    p += 4
                elif p >= end or p[0] not in b'"\\/bfnrt':
                    return False
            p += 1
        if p >= end:
            return False
        if seen & 128:
            self.is_ascii = False
        self.p = p + 1
        return True

    cdef bint skip_number(self) noexcept:
        cdef const unsigned char* p = self.p
        cdef const unsigned char* end = self.end
        cdef const unsigned char* begin
        if p < end and p[0] == 45:
            p += 1
        begin = p
        while p < end and is_digit(p[0]):
            p += 1
        if p == begin or (begin[0] == 48 and p - begin > 1):
            return False
        if p < end and p[0] == 46:
            p += 1
            begin = p
            while p < end and is_digit(p[0]):
                p += 1
            if p == begin:
                return False
        if p < end and (p[0] == 101 or p[0] == 69):  # e
            p += 1
            if p < end and (p[0] == 43 or p[0] == 45):
                p += 1
            begin = p
            while p < end and is_digit(p[0]):
                p += 1
            if p == begin:
                return False
        self.p = p
        return True

    cdef bint skip_value(self, int depth) noexcept:
        cdef unsigned char first
        if self.p >= self.end or depth > DEPTH_MAX:
            return False
        first = self.p[0]
        if first == 34:
            return self.skip_string()
        if first == 116:
            return self.skip_word(b"true", 4)
        if first == 102:
            return self.skip_word(b"false", 5)
        if first == 110:
            return self.skip_word(b"null", 4)
        if first != 123 and first != 91:  # { [
            return self.skip_number()
        self.p += 1
        self.skip_spaces()
        if self.p < self.end and self.p[0] == first + 2:
            self.p += 1
            return True
        while True:
            if first == 123:
                if not self.skip_string():
                    return False
                self.skip_spaces()
                if self.p >= self.end or self.p[0] != 58:
                    return False
                self.p += 1
                self.skip_spaces()
            if not self.skip_value(depth + 1):
                return False
            self.skip_spaces()
            if self.p >= self.end:
                return False
            self.p += 1
            if (self.p - 1)[0] == first + 2:
                return True
            if (self.p - 1)[0] != 44:
                return False
            self.skip_spaces()


cdef inline bint is_escaped(const unsigned char* text, const unsigned char* end) noexcept:
    while text < end:
        if text[0] == 92:
            return True
        text += 1
    return False


cdef bint is_utf8(const unsigned char* data, Py_ssize_t size) except -1:
    try:
        PyUnicode_DecodeUTF8(<const char*>data, size, NULL)
    except UnicodeDecodeError:
        return False
    return True
