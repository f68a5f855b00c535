// Numbers side by side: as many as the processor has room for.
#pragma once
#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512BW__)
constexpr int BYTES = 64, COLS = 4, ROWS = 6;  // a tile is ROWS rows times COLS vectors: what the registers hold
#else
constexpr int BYTES = 32, COLS = 2, ROWS = 4;
#endif
constexpr int LANES = BYTES / 4, PANEL = LANES * COLS;

typedef float Vec __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t Int __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int8_t Bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

static inline Vec load(const float* p) { return *(const Vec*)p; }
static inline void store(float* p, Vec v) { *(Vec*)p = v; }
static inline Vec fill(float x) { return x - Vec{}; }
static inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
static inline Vec magnitude(Vec v) { return larger(v, -v); }

template <class T, class V, class F> static inline T fold(V v, F f) {  // all lanes into one
    T lanes[LANES];
    memcpy(lanes, &v, sizeof v);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] = f(lanes[i], lanes[i + half]);
    return lanes[0];
}
static inline int total(Int v) { return fold<int>(v, [](int a, int b) { return a + b; }); }
#if defined(__AVX512BW__)
static inline float total(Vec v) { return _mm512_reduce_add_ps((__m512)v); }
static inline float highest(Vec v) { return _mm512_reduce_max_ps((__m512)v); }
#else
static inline float total(Vec v) { return fold<float>(v, [](float a, float b) { return a + b; }); }
static inline float highest(Vec v) { return fold<float>(v, [](float a, float b) { return a > b ? a : b; }); }
#endif

// To the nearest whole number, for |x| < 2^22: adding 1.5 * 2^23 leaves no room for a fraction.
static inline Int whole(Vec x) { return (Int)(x + 12582912.f) - 0x4B400000; }

// In every lane: sum + four unsigned bytes of w times four signed bytes of a.
static inline Int dot4(Int sum, Int w, int a) {
#if defined(__AVX512VNNI__)
    return (Int)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, _mm512_set1_epi32(a));
#elif defined(__AVX512BW__)
    __m512i x = (__m512i)w, y = _mm512_set1_epi32(a), low = _mm512_set1_epi16(255);
    __m512i even = _mm512_madd_epi16(_mm512_and_si512(x, low), _mm512_srai_epi16(_mm512_slli_epi16(y, 8), 8));
    return sum + (Int)even + (Int)_mm512_madd_epi16(_mm512_srli_epi16(x, 8), _mm512_srai_epi16(y, 8));
#elif defined(__AVXVNNI__)
    return (Int)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w, _mm256_set1_epi32(a));
#else
    __m256i x = (__m256i)w, y = _mm256_set1_epi32(a), low = _mm256_set1_epi16(255);
    __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, low), _mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8));
    return sum + (Int)even + (Int)_mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(y, 8));
#endif
}

// ---------------------------------------------------------------- functions of x

static inline Vec power(Vec x) {  // e^x for x <= 0, to 2e-7 of its size
    x = larger(x, fill(-87.f)) * 1.44269504f;
    Int n = whole(x);
    Vec f = (x - __builtin_convertvector(n, Vec)) * 0.69314718f;
    Vec series = 1.f / 24 + f * (1.f / 120 + f * (1.f / 720));
    Vec y = 1.f + f * (1.f + f * (.5f + f * (1.f / 6 + f * series)));
    return y * (Vec)((n + 127) << 23);
}
static inline Vec sigmoid(Vec x) {
    Vec small = power(-magnitude(x)), top = x > 0.f ? fill(1.f) : small;
    return top / (1.f + small);
}
static inline Vec relu(Vec x) { return x > 0.f ? x : Vec{}; }
static inline Vec swish(Vec x) { return x * sigmoid(x); }
static inline Vec gelu_tanh(Vec x) { return x * sigmoid(1.5957691216f * (x + 0.044715f * x * x * x)); }
static inline Vec gelu(Vec x) {  // with the error function to 1.5e-7 (Abramowitz and Stegun, 7.1.26)
    Vec z = magnitude(x) * 0.70710678f, t = 1.f / (1.f + 0.3275911f * z);
    Vec series = -0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f));
    Vec tail = t * (0.254829592f + t * series) * power(-z * z) * .5f;  // the normal distribution beyond |x|
    return x * (x > 0.f ? 1.f - tail : tail);
}
