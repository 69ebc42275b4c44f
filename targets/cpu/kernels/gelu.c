// y[i] = gelu(x[i]) for `count` floats; workgroup `wg` does `share` of them.
#include "avx2.h"

void lemurc_gelu(const float *x, i64 x_offset, float *y, i64 y_offset, i64 count, i64 share,
                 i64 wg) {
  x += x_offset;
  y += y_offset;
  const i64 end = (wg + 1) * share < count ? (wg + 1) * share : count;
  i64 i = wg * share;
  for (; i + 8 <= end; i += 8) _mm256_storeu_ps(y + i, gelu8(_mm256_loadu_ps(x + i)));
  if (i < end) {
    const __m256i mask = tail(end - i);
    _mm256_maskstore_ps(y + i, mask, gelu8(_mm256_maskload_ps(x + i, mask)));
  }
}
