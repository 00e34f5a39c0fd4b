from embermq.wire.content cimport Peek

cpdef object wishes_in(bytearray buf, Peek peek, object reply_queue, unsigned long long now_ms)
cdef object due_in(bytearray buf, Py_ssize_t start, Py_ssize_t stop, unsigned long long now_ms)
