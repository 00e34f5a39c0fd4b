# cython: language_level=3
"""The compiled twin of checksum.py.

The algorithm is the one of Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
Instruction" (Intel, 2009), for the reflected polynomial 0xEDB88320. The constants are powers of x modulo the
polynomial; the tests compare every length with zlib.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory

import zlib

cdef object _zlib_crc32 = zlib.crc32

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    static uint32_t ember_crc_table[256];

    static void ember_crc_prepare(void) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t value = byte;
            for (int bit = 0; bit < 8; bit++) {
                value = (value >> 1) ^ ((value & 1) ? 0xEDB88320u : 0);
            }
            ember_crc_table[byte] = value;
        }
    }

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>

    #define EMBER_FOLD(x, k, next) \\
        _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), next)
    #define EMBER_LOAD(at) _mm_loadu_si128((const __m128i *)(at))

    static int ember_crc_is_fast(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    }

    /* The rest, once four lanes of 16 bytes have been folded. */
    __attribute__((target("pclmul,sse4.1")))
    static inline uint32_t ember_crc_finish(
        __m128i a, __m128i b, __m128i c, __m128i d, const unsigned char *data, size_t size
    ) {
        const __m128i by_512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
        const __m128i by_128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        const __m128i by_64 = _mm_set_epi64x(0, 0x0163cd6124);
        const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
        const __m128i low_words = _mm_setr_epi32(~0, 0, ~0, 0);
        __m128i t;
        while (size >= 64) {
            a = EMBER_FOLD(a, by_512, EMBER_LOAD(data));
            b = EMBER_FOLD(b, by_512, EMBER_LOAD(data + 16));
            c = EMBER_FOLD(c, by_512, EMBER_LOAD(data + 32));
            d = EMBER_FOLD(d, by_512, EMBER_LOAD(data + 48));
            data += 64;
            size -= 64;
        }
        a = EMBER_FOLD(a, by_128, b);
        a = EMBER_FOLD(a, by_128, c);
        a = EMBER_FOLD(a, by_128, d);
        while (size >= 16) {
            a = EMBER_FOLD(a, by_128, EMBER_LOAD(data));
            data += 16;
            size -= 16;
        }
        /* 128 bits to 64, to 32. */
        a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
        t = _mm_srli_si128(a, 4);
        a = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low_words), by_64, 0x00), t);
        t = _mm_clmulepi64_si128(_mm_and_si128(a, low_words), barrett, 0x10);
        t = _mm_clmulepi64_si128(_mm_and_si128(t, low_words), barrett, 0x00);
        return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, t), 1);
    }

    /* `size` is a multiple of 16 and at least 64; `crc` comes and goes inverted. */
    __attribute__((target("pclmul,sse4.1")))
    static uint32_t ember_crc_fold(const unsigned char *data, size_t size, uint32_t crc) {
        return ember_crc_finish(
            _mm_xor_si128(EMBER_LOAD(data), _mm_cvtsi32_si128((int)crc)), EMBER_LOAD(data + 16),
            EMBER_LOAD(data + 32), EMBER_LOAD(data + 48), data + 64, size - 64
        );
    }

    #if defined(__clang__) || __GNUC__ >= 10
    static int ember_crc_is_wide(void) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    }

    #define EMBER_FOLD_WIDE(x, k, next) \\
        _mm512_ternarylogic_epi64( \\
            _mm512_clmulepi64_epi128(x, k, 0x00), _mm512_clmulepi64_epi128(x, k, 0x11), next, 0x96)
    #define EMBER_LOAD_WIDE(at) _mm512_loadu_si512((const void *)(at))

    /* The same where registers are four times as wide; `size` is at least 256. */
    __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.1")))
    static uint32_t ember_crc_fold_wide(const unsigned char *data, size_t size, uint32_t crc) {
        const __m512i by_2048 = _mm512_set4_epi64(0x01322d1430, 0x011542778a, 0x01322d1430, 0x011542778a);
        const __m512i by_512 = _mm512_set4_epi64(0x01c6e41596, 0x0154442bd4, 0x01c6e41596, 0x0154442bd4);
        __m512i a = _mm512_xor_si512(
            EMBER_LOAD_WIDE(data), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
        __m512i b = EMBER_LOAD_WIDE(data + 64), c = EMBER_LOAD_WIDE(data + 128), d = EMBER_LOAD_WIDE(data + 192);
        data += 256;
        size -= 256;
        while (size >= 256) {
            a = EMBER_FOLD_WIDE(a, by_2048, EMBER_LOAD_WIDE(data));
            b = EMBER_FOLD_WIDE(b, by_2048, EMBER_LOAD_WIDE(data + 64));
            c = EMBER_FOLD_WIDE(c, by_2048, EMBER_LOAD_WIDE(data + 128));
            d = EMBER_FOLD_WIDE(d, by_2048, EMBER_LOAD_WIDE(data + 192));
            data += 256;
            size -= 256;
        }
        a = EMBER_FOLD_WIDE(a, by_512, b);
        a = EMBER_FOLD_WIDE(a, by_512, c);
        a = EMBER_FOLD_WIDE(a, by_512, d);
        while (size >= 64) {
            a = EMBER_FOLD_WIDE(a, by_512, EMBER_LOAD_WIDE(data));
            data += 64;
            size -= 64;
        }
        return ember_crc_finish(
            _mm512_castsi512_si128(a), _mm512_extracti32x4_epi32(a, 1), _mm512_extracti32x4_epi32(a, 2),
            _mm512_extracti32x4_epi32(a, 3), data, size
        );
    }
    #else
    static int ember_crc_is_wide(void) { return 0; }
    #define ember_crc_fold_wide ember_crc_fold
    #endif
    #else
    static int ember_crc_is_fast(void) { return 0; }
    static int ember_crc_is_wide(void) { return 0; }
    static uint32_t ember_crc_fold(const unsigned char *data, size_t size, uint32_t crc) {
        (void)data; (void)size;
        return crc;
    }
    #define ember_crc_fold_wide ember_crc_fold
    #endif

    static int ember_crc_wide;  /* ember_crc_is_wide() */

    /* Only where ember_crc_is_fast(). */
    static uint32_t ember_crc(const unsigned char *data, size_t size, uint32_t crc) {
        crc = ~crc;
        if (size >= 64) {
            size_t folded = size & ~(size_t)15;
            crc = ember_crc_wide && folded >= 256 ? ember_crc_fold_wide(data, folded, crc)
                                                  : ember_crc_fold(data, folded, crc);
            data += folded;
            size -= folded;
        }
        while (size--) {
            crc = ember_crc_table[(crc ^ *data++) & 0xFF] ^ (crc >> 8);
        }
        return ~crc;
    }
    """
    void ember_crc_prepare() noexcept nogil
    bint ember_crc_is_fast() noexcept nogil
    bint ember_crc_is_wide() noexcept nogil
    bint ember_crc_wide
    unsigned int ember_crc(const unsigned char* data, size_t size, unsigned int crc) noexcept nogil

ember_crc_prepare()
cdef bint fast = ember_crc_is_fast()
ember_crc_wide = ember_crc_is_wide()


cdef unsigned int crc32_of(const unsigned char* data, Py_ssize_t size, unsigned int value) except? 0:
    if fast:
        return ember_crc(data, size, value)
    return _zlib_crc32(PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ), value)


def crc32(const unsigned char[::1] data not None, unsigned int value=0):
    """As zlib.crc32."""
    if data.shape[0] == 0:
        return value
    return crc32_of(&data[0], data.shape[0], value)
