// y = x / sqrt(mean(x^2) + eps) * weight over rows of n floats.
//
// Sums run in f32 over BLOCK elements and in f64 over blocks. A workgroup does `share` rows;
// without `has_weight` that pointer is not read.
#include "vector.h"

#define BLOCK 2048

INLINE double squares(const float *x, i64 n) {
  double total = 0.0;
  for (i64 start = 0; start < n; start += BLOCK) {
    const i64 end = least(start + BLOCK, n);
    vec s0 = {}, s1 = {};
    i64 i = start;
    for (; i + 2 * LANES <= end; i += 2 * LANES) {
      const vec a = load(x + i), b = load(x + i + LANES);
      s0 = a * a + s0;
      s1 = b * b + s1;
    }
    for (; i < end; i += LANES) {
      const vec a = load_inside(x + i, 0, end - i);
      s0 = a * a + s0;
    }
    s0 += s1;
    for (int lane = 0; lane < LANES; lane++) total += s0[lane];
  }
  return total;
}

INLINE double inverse_sqrt(double x) {
  return 1.0 / _mm_cvtsd_f64(_mm_sqrt_sd(_mm_set_sd(x), _mm_set_sd(x)));
}

KERNEL lemurc_rms_norm(const float *x, i64 x_offset, const float *weight, i64 weight_offset,
                       float *y, i64 y_offset, double eps, i64 rows, i64 n, i64 has_weight,
                       i64 share, i64 wg) {
  weight += weight_offset;
  const i64 last = least((wg + 1) * share, rows);
  for (i64 row = wg * share; row < last; row++) {
    const float *from = x + x_offset + row * n;
    float *to = y + y_offset + row * n;
    const float scale = (float)inverse_sqrt(squares(from, n) / (double)n + eps);
    i64 i = 0;
    for (; i + LANES <= n; i += LANES) {
      const vec v = load(from + i) * scale;
      store(to + i, has_weight ? v * load(weight + i) : v);
    }
    if (i < n) {
      const vec v = load_inside(from + i, 0, n - i) * scale;
      store_first(to + i, has_weight ? v * load_inside(weight + i, 0, n - i) : v, n - i);
    }
  }
}
