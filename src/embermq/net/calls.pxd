cpdef int wait_for(int descriptor, int loop_descriptor, int milliseconds) except -1
cpdef bint watch(int loop_descriptor, int descriptor, bint watched) except? -1
cpdef Py_ssize_t receive(int descriptor, bytearray buffer, Py_ssize_t size_max) except? -2
cpdef Py_ssize_t receive_soon(int descriptor, bytearray buffer, Py_ssize_t size_max, double seconds) except? -2
cpdef Py_ssize_t send_now(int descriptor, bytes data) except -1
cpdef bint others_wait(int loop_descriptor, int descriptor) except? -1
