cimport cython

from embermq.broker.message.message cimport Message
from embermq.broker.selector.expression cimport Expression
from embermq.broker.selector.fields cimport Fields

cdef class Member:
    cdef readonly object selector
    cdef readonly object owner
    cdef public Expression condition

cdef class SelectorSet:
    cdef readonly dict members
    cdef readonly Fields fields
    cdef readonly dict numbers
    cdef readonly dict tables
    cdef readonly list others
    cpdef list fitting(self, Message message, bint redelivered=*)
    @cython.locals(number=Py_ssize_t, table=dict, members=list)
    cpdef list fitting_values(self, list values)

@cython.locals(member=Member)
cdef add_fitting(list members, list values, list found)
cdef object key_of(object value)
