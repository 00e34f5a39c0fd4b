from embermq.broker.message.message cimport Message, make_message

cpdef Message with_delay_spent(Message message)
cdef Message patched(Message message, Py_ssize_t at, bytes data)
