cpdef int call_all(list callbacks, object failure) except -1
