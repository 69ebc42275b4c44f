// Eight floats at a time, for CPUs with AVX2 and FMA.
//
// Kernels are freestanding: no C library, no errno, no globals that change. Each handles
// any size and any alignment; `tail(n)` masks the last n < 8 elements of a row.
#pragma once

#include <immintrin.h>

typedef long i64;

#define INLINE static inline __attribute__((always_inline))

INLINE i64 least(i64 a, i64 b) { return a < b ? a : b; }

INLINE __m256 splat(float x) { return _mm256_set1_ps(x); }

INLINE __m256i tail(i64 n) {
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), lanes);
}

INLINE float sum8(__m256 v) {
  __m128 a = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  a = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps(a, a, 1)));
}

INLINE float max8(__m256 v) {
  __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps(a, a, 1)));
}

// erf within 3e-7: a quotient of polynomials on [-4, 4], beyond which erf is 1 in f32.
INLINE __m256 erf8(__m256 x) {
  const __m256 sign = _mm256_and_ps(x, splat(-0.0f));
  const __m256 limit = splat(4.0f);
  // The operand that may be NaN comes second: max and min then hand it on.
  const __m256 z = _mm256_min_ps(limit, _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), limit), x));
  const __m256 s = _mm256_mul_ps(z, z);
  __m256 p = _mm256_fmadd_ps(s, splat(-2.72614225801306e-10f), splat(2.77068142495902e-08f));
  p = _mm256_fmadd_ps(s, p, splat(-2.10102402082508e-06f));
  p = _mm256_fmadd_ps(s, p, splat(-5.69250639462346e-05f));
  p = _mm256_fmadd_ps(s, p, splat(-7.34990630326855e-04f));
  p = _mm256_fmadd_ps(s, p, splat(-2.95459980854025e-03f));
  p = _mm256_fmadd_ps(s, p, splat(-1.60960333262415e-02f));
  __m256 q = _mm256_fmadd_ps(s, splat(-1.45660718464996e-05f), splat(-2.13374055278905e-04f));
  q = _mm256_fmadd_ps(s, q, splat(-1.68282697438203e-03f));
  q = _mm256_fmadd_ps(s, q, splat(-7.37332916720468e-03f));
  q = _mm256_fmadd_ps(s, q, splat(-1.42647390514189e-02f));
  const __m256 inside = _mm256_div_ps(_mm256_mul_ps(z, p), q);
  const __m256 one = _mm256_or_ps(splat(1.0f), sign);
  const __m256 far = _mm256_cmp_ps(_mm256_andnot_ps(splat(-0.0f), x), limit, _CMP_GE_OQ);
  return _mm256_blendv_ps(inside, one, far);
}

// x Phi(x), as PyTorch: x/2 (1 + erf(x / sqrt 2)).
INLINE __m256 gelu8(__m256 x) {
  const __m256 e = erf8(_mm256_mul_ps(x, splat(0.70710678118654752f)));
  return _mm256_mul_ps(_mm256_mul_ps(x, splat(0.5f)), _mm256_add_ps(e, splat(1.0f)));
}

// exp within 2 ulp; 0 below -103, infinity above 88.7, NaN stays NaN.
INLINE __m256 exp8(__m256 x) {
  const __m256 c = _mm256_min_ps(splat(89.0f), _mm256_max_ps(splat(-104.0f), x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(c, splat(1.44269504088896341f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, splat(0.693359375f), c);
  r = _mm256_fnmadd_ps(n, splat(-2.12194440e-4f), r);
  __m256 p = splat(1.9875691500e-4f);
  p = _mm256_fmadd_ps(p, r, splat(1.3981999507e-3f));
  p = _mm256_fmadd_ps(p, r, splat(8.3334519073e-3f));
  p = _mm256_fmadd_ps(p, r, splat(4.1665795894e-2f));
  p = _mm256_fmadd_ps(p, r, splat(1.6666665459e-1f));
  p = _mm256_fmadd_ps(p, r, splat(5.0000001201e-1f));
  p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), _mm256_add_ps(r, splat(1.0f)));
  // 2^n in two factors, since n reaches from -150 to 128.
  const __m256i k = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(k, 1);
  const __m256i rest = _mm256_sub_epi32(k, half);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
  const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(p, a), b);
}
