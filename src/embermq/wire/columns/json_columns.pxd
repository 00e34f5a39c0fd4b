cimport cython

from embermq.wire.columns.property_columns cimport Numbers, Texts


@cython.final
cdef class Wanted:
    cdef bytes name
    cdef int kind
    cdef Texts texts
    cdef Numbers numbers
    cdef Py_ssize_t seen


@cython.final
cdef class JsonColumns:
    cdef list fields
    cdef const unsigned char* p
    cdef const unsigned char* end
    cdef bint is_ascii
    cdef bint take_row(self, Py_ssize_t row) except -1
    cdef Wanted find(self, const unsigned char* name, Py_ssize_t size, Py_ssize_t hint)
    cdef bint take_value(self, Wanted wanted, Py_ssize_t row) except -1
    cdef bint take_text(self, Wanted wanted, Py_ssize_t row) except -1
    cdef bint take_number(self, Wanted wanted, Py_ssize_t row) except -1
    cdef void skip_spaces(self) noexcept
    cdef bint skip_word(self, const char* word, Py_ssize_t size) noexcept
    cdef bint skip_string(self) noexcept
    cdef bint skip_number(self) noexcept
    cdef bint skip_value(self, int depth) noexcept
