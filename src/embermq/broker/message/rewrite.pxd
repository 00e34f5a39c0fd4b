from embermq.broker.message.message cimport Message

cpdef list typed_headers(Message message)
cpdef Message rewritten(Message message, bytes names, object properties, list headers)
