cdef class Binding:
    cdef readonly object source
    cdef readonly object destination
    cdef readonly object routing_key
    cdef readonly object arguments
    cdef readonly tuple path
