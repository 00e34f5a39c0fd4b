cimport cython

from embermq.client.core.channel cimport ChannelCore
from embermq.client.core.inbox cimport Inbox
from embermq.client.core.commands cimport Commands
from embermq.client.core.send_buffer cimport SendBuffer
from embermq.wire.kernel cimport load_u16, load_u32, load_u64

cdef long long BASIC_DELIVER
cdef long long BASIC_ACK
cdef int BASIC_ACK_BYTES
cdef long long INBOX_MESSAGES_MAX

cdef class Engine:
    cdef public object blocked_reason
    cdef readonly SendBuffer buffer
    cdef public int channel_max
    cdef public dict channels
    cdef readonly Commands commands
    cdef public Inbox congested
    cdef public object error
    cdef public bint heard
    cdef public int heartbeat_s
    cdef public ChannelCore last_channel
    cdef public object login
    cdef public object restoration
    cdef public dict server_properties
    cdef public object settings
    cdef public object shell
    cdef public bint spoke
    cdef public int state
    cdef public object topology
    cdef readonly list touched
    cdef public list update_secret
    cdef public Py_ssize_t wanted_bytes

    @cython.locals(inbox=Inbox)
    cpdef Py_ssize_t feed(self, bytearray buf, Py_ssize_t end) except -1
    @cython.locals(stop=Py_ssize_t, number=cython.int, frame_type=cython.int, size=cython.longlong,
                   method_id=cython.longlong, channel=ChannelCore, after=Py_ssize_t)
    cdef Py_ssize_t feed_frames(self, bytearray buf, Py_ssize_t pos, Py_ssize_t end) except -1
