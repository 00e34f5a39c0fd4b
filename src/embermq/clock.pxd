cpdef unsigned long long wall_ms() noexcept
cpdef double monotonic_s() noexcept
