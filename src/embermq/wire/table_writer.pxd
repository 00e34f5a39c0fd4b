# C types for table_writer.py; the same source runs interpreted.

cpdef bytes encode_table(object mapping)
cpdef bytes encode_value(object value)
cpdef bytes encode_typed(object fields)
cdef bytes _container(list parts)
cdef bytes _encode_fields(object mapping, int depth)
cdef bytes _encode_value(object value, int depth)
cdef bytes _encode_int(object value)
cdef bytes _encode_typed_fields(object fields, int depth)
cdef bytes _encode_typed_value(str letter, object value, int depth)
