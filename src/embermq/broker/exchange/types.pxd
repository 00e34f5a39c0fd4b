cdef class Matcher:
    pass

cdef class DirectMatcher(Matcher):
    cdef dict by_key

cdef class FanoutMatcher(Matcher):
    cdef dict bindings

cdef class TopicMatcher(Matcher):
    cdef object trie

cdef class HeadersMatcher(Matcher):
    cdef dict patterns
    cdef dict destinations
