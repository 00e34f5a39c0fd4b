cdef unsigned int crc32_of(const unsigned char* data, Py_ssize_t size, unsigned int value) except? 0
