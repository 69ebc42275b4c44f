// y = exp(x - max) / sum over rows of n floats; a workgroup does `share` rows.
//
// A row with a NaN or positive infinity, or of nothing but negative infinity, is all NaN, as in
// PyTorch. Sums run in f32 over BLOCK elements and in f64 over blocks.
#include "exponential.h"

#define BLOCK 2048

INLINE float most(const float *x, i64 n) {
  vec m0 = broadcast(x[0]), m1 = m0;
  i64 i = 0;
  for (; i + 2 * LANES <= n; i += 2 * LANES) {
    const vec a = load(x + i), b = load(x + i + LANES);
    m0 = choose(a > m0, a, m0);
    m1 = choose(b > m1, b, m1);
  }
  m0 = choose(m1 > m0, m1, m0);
  float m = x[0];
  for (int lane = 0; lane < LANES; lane++) m = m0[lane] > m ? m0[lane] : m;
  for (; i < n; i++) m = x[i] > m ? x[i] : m;
  return m;
}

// exp(x - m) to y; what it adds up to.
INLINE double powers(const float *x, float *y, i64 n, float m) {
  double total = 0.0;
  for (i64 start = 0; start < n; start += BLOCK) {
    const i64 end = least(start + BLOCK, n);
    vec s0 = {}, s1 = {};
    i64 i = start;
    for (; i + 2 * LANES <= end; i += 2 * LANES) {
      const vec a = exponential(load(x + i) - m), b = exponential(load(x + i + LANES) - m);
      store(y + i, a);
      store(y + i + LANES, b);
      s0 += a;
      s1 += b;
    }
    for (; i < end; i += LANES) {
      const i64 left = least(LANES, end - i);
      const vec a = exponential(load_inside(x + i, 0, left) - m);
      store_first(y + i, a, left);
      for (int lane = 0; lane < left; lane++) total += a[lane];
    }
    s0 += s1;
    for (int lane = 0; lane < LANES; lane++) total += s0[lane];
  }
  return total;
}

KERNEL lemurc_softmax(const float *x, i64 x_offset, float *y, i64 y_offset, i64 rows, i64 n,
                      i64 share, i64 wg) {
  const i64 last = least((wg + 1) * share, rows);
  for (i64 row = wg * share; row < last; row++) {
    const float *from = x + x_offset + row * n;
    float *to = y + y_offset + row * n;
    const float scale = (float)(1.0 / powers(from, to, n, most(from, n)));
    i64 i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, load(to + i) * scale);
    if (i < n) store_first(to + i, load_inside(to + i, 0, n - i) * scale, n - i);
  }
}
