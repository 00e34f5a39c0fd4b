import cython

from embermq.broker.interfaces cimport Sink

cdef class Connection(Sink)

from embermq.amqp.channel.channel cimport Channel
from embermq.broker.turn cimport Turn
from embermq.wire.kernel cimport Output, load_u16, load_u32, load_u64

cdef long long BASIC_PUBLISH
cdef long long BASIC_ACK
cdef int BASIC_ACK_BYTES
cdef int STATE_HEADER
cdef int STATE_CHECKING
cdef int STATE_OPEN
cdef int STATE_CLOSED
cdef Py_ssize_t OUTPUT_TURN_BYTES_MAX
cdef Py_ssize_t SMALL_OUTPUT_BYTES_MAX
cdef long long COPIES_PER_TURN_MAX

cdef class Connection(Sink):
    cdef readonly Turn turn
    cdef public long long number
    cdef public Py_ssize_t frame_max
    cdef public object transport
    cdef readonly int pauses
    cdef public object pressed_queue
    cdef public Output out
    cdef public bint writable
    cdef public bint starved
    cdef public int holds
    cdef public list confirming_channels
    cdef public int state
    cdef public dict capabilities
    cdef public dict channels
    cdef object parting_s
    cdef readonly unsigned long long sent_bytes
    cdef public object broker
    cdef public object limits
    cdef public object peer_address
    cdef public str name
    cdef public object user
    cdef public object vhost
    cdef public bint announced
    cdef public dict client_properties
    cdef public object mechanism
    cdef public object sasl
    cdef public str certificate_name
    cdef public bint tls
    cdef public double expires_at
    cdef public int channel_max
    cdef public int heartbeat_s
    cdef public Py_ssize_t frame_size_max
    cdef public set exclusive_queues
    cdef public bint spec_qos
    cdef public object dialect
    cdef Channel last_channel
    cdef Py_ssize_t next_frame
    cdef public long long current_method
    cdef public int current_channel
    cdef readonly unsigned long long received_bytes
    cdef public double connected_at

    @cython.locals(pos=Py_ssize_t)
    cpdef Py_ssize_t feed(self, bytearray buf, Py_ssize_t end) except -1
    @cython.locals(stop=Py_ssize_t, number=cython.int, frame_type=cython.int, size=cython.longlong,
                   method_id=cython.longlong, channel=Channel)
    cdef Py_ssize_t feed_frames(self, bytearray buf, Py_ssize_t pos, Py_ssize_t end) except -1
    @cython.locals(channel=Channel, channels=list)
    cpdef int end_turn(self) except -1
    cpdef object touch(self)
    cpdef bint has_room(self) except -1
    cpdef object pause(self, int reason)
    cpdef object resume(self, int reason)
    cpdef object rest(self)
    cpdef object count_copies(self, Py_ssize_t count)
