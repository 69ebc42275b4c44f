// y[i] = x[i] / (1 + exp(-x[i])) for `count` floats; workgroup `wg` does `share` of them.
#include "exponential.h"

INLINE vec silu(vec x) { return x / (1.0f + exponential(-x)); }

KERNEL lemurc_silu(const float *x, i64 x_offset, float *y, i64 y_offset, i64 count, i64 share,
                   i64 wg) {
  x += x_offset;
  y += y_offset;
  const i64 end = least((wg + 1) * share, count);
  i64 i = wg * share;
  for (; i + LANES <= end; i += LANES) store(y + i, silu(load(x + i)));
  if (i < end) store_first(y + i, silu(load_inside(x + i, 0, end - i)), end - i);
}
