cdef class Matcher:
    pass

cdef class SystemMatcher(Matcher):
    pass

cdef class DirectMatcher(Matcher):
    cdef dict by_key

cdef class FanoutMatcher(Matcher):
    cdef dict bindings

cdef class TopicMatcher(Matcher):
    cdef object trie

cdef class ConditionMatcher(Matcher):
    cdef dict bound

cdef class HeadersMatcher(ConditionMatcher):
    cdef dict patterns
    cdef dict tables
    cdef dict others
    cdef object reader

cdef class SelectorMatcher(ConditionMatcher):
    cdef object selectors
