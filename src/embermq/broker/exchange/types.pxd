cdef class DirectMatcher:
    cdef dict by_key

cdef class FanoutMatcher:
    cdef dict bindings

cdef class TopicMatcher:
    cdef object trie

cdef class HeadersMatcher(FanoutMatcher):
    pass
