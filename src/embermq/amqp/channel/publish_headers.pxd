cimport cython
from embermq.wire.content cimport Peek
from embermq.wire.field_scan cimport FieldScan

@cython.locals(found=int, has_bcc=bint, special=FieldScan)
cpdef object special_headers_in(bytearray buf, Peek peek, object reply_queue, unsigned long long now_ms)
