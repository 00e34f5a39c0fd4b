cimport cython

cdef int kind_of(object value) except -1
cdef object is_ordered(int sign, object one, object other)
cdef object computed(int sign, object one, object other)

cdef int EQUAL
cdef int UNEQUAL
cdef int LESS
cdef int LESS_OR_EQUAL
cdef int MORE
cdef int PLUS
cdef int MINUS
cdef int TIMES
cdef int NUMBER
cdef int TEXT
cdef int TRUTH
cdef int OTHER

cdef class Expression:
    cpdef object value(self, list values)

cdef class Constant(Expression):
    cdef object constant

cdef class Field(Expression):
    cdef Py_ssize_t number

cdef class Truth(Expression):
    cdef Expression of

cdef class Compared(Expression):
    cdef int sign
    cdef Expression left
    cdef Expression right
    @cython.locals(kind=int, sign=int)
    cpdef object value(self, list values)

cdef class TextTest(Expression):
    cdef Expression of
    cdef object test

cdef class Null(Expression):
    cdef Expression of

cdef class NotExpression(Expression):
    cdef Expression of

cdef class Together(Expression):
    cdef list conditions
    cdef object decisive
    @cython.locals(condition=Expression)
    cpdef object value(self, list values)

cdef class Computed(Expression):
    cdef int sign
    cdef Expression left
    cdef Expression right
