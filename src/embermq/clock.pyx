# cython: language_level=3
"""The compiled twin of clock.py."""

from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, clock_gettime, timespec


cpdef unsigned long long wall_ms() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_REALTIME, &now)
    return <unsigned long long>now.tv_sec * 1000 + <unsigned long long>now.tv_nsec // 1000000


cpdef double monotonic_s() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double>now.tv_sec + 1e-9 * <double>now.tv_nsec
