// y = (x - mean) / sqrt(variance + eps) * weight + bias over rows of n floats.
//
// Two passes over the row, so that a large mean costs no accuracy. Sums run in f32 over
// BLOCK elements and in f64 over blocks; the mean is kept as a sum of two floats.
// A workgroup does `share` rows. Without `has_weight` or `has_bias` those pointers are
// not read.
#include "avx2.h"

#define BLOCK 1024

INLINE __m256 centre(__m256 x, float mean, float mean_low) {
  return _mm256_sub_ps(_mm256_sub_ps(x, splat(mean)), splat(mean_low));
}

// Sum of x - mean, or of its square.
INLINE double accumulate(const float *x, i64 n, float mean, float mean_low, int square) {
  double total = 0.0;
  for (i64 start = 0; start < n; start += BLOCK) {
    const i64 end = start + BLOCK < n ? start + BLOCK : n;
    __m256 s0 = _mm256_setzero_ps(), s1 = s0;
    i64 i = start;
    for (; i + 16 <= end; i += 16) {
      const __m256 a = centre(_mm256_loadu_ps(x + i), mean, mean_low);
      const __m256 b = centre(_mm256_loadu_ps(x + i + 8), mean, mean_low);
      s0 = square ? _mm256_fmadd_ps(a, a, s0) : _mm256_add_ps(s0, a);
      s1 = square ? _mm256_fmadd_ps(b, b, s1) : _mm256_add_ps(s1, b);
    }
    for (; i < end; i += 8) {
      const __m256i mask = tail(end - i);
      __m256 a = centre(_mm256_maskload_ps(x + i, mask), mean, mean_low);
      a = _mm256_and_ps(a, _mm256_castsi256_ps(mask));
      s0 = square ? _mm256_fmadd_ps(a, a, s0) : _mm256_add_ps(s0, a);
    }
    total += sum8(_mm256_add_ps(s0, s1));
  }
  return total;
}

INLINE double inverse_sqrt(double x) {
  return 1.0 / _mm_cvtsd_f64(_mm_sqrt_sd(_mm_set_sd(x), _mm_set_sd(x)));
}

void lemurc_layer_norm(const float *x, i64 x_offset, const float *weight, i64 weight_offset,
                       const float *bias, i64 bias_offset, float *y, i64 y_offset, double eps,
                       i64 rows, i64 n, i64 has_weight, i64 has_bias, i64 share, i64 wg) {
  weight += weight_offset;
  bias += bias_offset;
  const i64 last = (wg + 1) * share < rows ? (wg + 1) * share : rows;
  for (i64 row = wg * share; row < last; row++) {
    const float *from = x + x_offset + row * n;
    float *to = y + y_offset + row * n;
    const float first = from[0];
    const double mean = first + accumulate(from, n, first, 0.0f, 0) / (double)n;
    const float high = (float)mean, low = (float)(mean - high);
    const double variance = accumulate(from, n, high, low, 1) / (double)n;
    const __m256 scale = splat((float)inverse_sqrt(variance + eps));
    for (i64 i = 0; i < n; i += 8) {
      const __m256i mask = tail(n - i);
      __m256 v = _mm256_mul_ps(centre(_mm256_maskload_ps(from + i, mask), high, low), scale);
      if (has_weight) v = _mm256_mul_ps(v, _mm256_maskload_ps(weight + i, mask));
      if (has_bias) v = _mm256_add_ps(v, _mm256_maskload_ps(bias + i, mask));
      _mm256_maskstore_ps(to + i, mask, v);
    }
  }
}
