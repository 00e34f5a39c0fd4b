from embermq.broker.message.message cimport Message

cpdef tuple record_parts(Message message)
cpdef Message message_of(bytes payload, int flags)
