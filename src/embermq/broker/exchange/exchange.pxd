cdef class Link

cdef class Exchange:
    cdef public str name
    cdef public str type
    cdef public object vhost
    cdef public bint durable
    cdef public bint auto_delete
    cdef public bint internal
    cdef public bint deleted
    cdef public dict arguments
    cdef public dict effective
    cdef public long version
    cdef public dict bindings
    cdef public object matcher
    cdef public Link chain
    cdef public dict via_here
    cdef public dict routes
    cdef public dict sources
    cdef public object alternate
    cdef public object deduplication
    cdef public unsigned long long received_count
    cdef public unsigned long long routed_count
    cdef public unsigned long long unroutable_count
    cdef public str routing_type

cdef class Link:
    cdef readonly Exchange exchange
    cdef readonly object matcher
    cdef readonly dict bindings
    cdef readonly dict further
    cdef readonly dict narrowed
    cdef dict kept

cdef class Route:
    cdef readonly bytes names
    cdef readonly Exchange exchange
    cdef readonly long version
    cdef readonly tuple queues
    cdef readonly int varies
    cdef readonly bint to_stream
    cdef readonly tuple keys
    cdef public unsigned long long count
