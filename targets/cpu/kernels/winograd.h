// Winograd's 3x3 convolution with stride 1: y = A' [(G g G') * (B' d B)] A over tiles of m x m
// outputs (m 2 or 4), each from n x n inputs, n = m + 2, so that a tile takes n * n
// multiplications per channel and filter instead of 9 * m * m.
//
// F(2x2) interpolates at 0, 1, -1 and infinity, F(4x4) at 0, 5/8, -5/8, 3/2, -3/2 and infinity:
// all numbers are exact in f32, and the rounding error is a fifth of that at 0, 1, -1, 2, -2.
//
// Tiles are counted row by row and worked on in chunks of at most 16. Of a chunk,
// v[n * n][channels + 1][lanes] holds B' d B, a lane per tile; the channel too many keeps what
// lies n * n apart from meeting in one set of the cache.
#pragma once

#include "avx2.h"

#define MOST_LANES 16
#define MOST_POSITIONS 36

typedef struct {
  i64 channels, height, width, out_height, out_width, pad_h, pad_w;
  i64 m, tile_columns, tiles, chunk, lanes;
} Winograd;

INLINE Winograd winograd(i64 channels, i64 height, i64 width, i64 out_height, i64 out_width,
                         i64 pad_h, i64 pad_w, i64 m, i64 chunk) {
  const i64 rows = (out_height + m - 1) / m, columns = (out_width + m - 1) / m;
  const Winograd g = {channels, height, width,   out_height, out_width,
                      pad_h,    pad_w,  m,       columns,    rows * columns,
                      chunk,    (chunk + 3) / 4 * 4};
  return g;
}

// Floats from one of the n * n positions to the next, and those of a chunk.
INLINE i64 position_stride(const Winograd *g) { return (g->channels + 1) * g->lanes; }
INLINE i64 chunk_stride(const Winograd *g) {
  return (g->m + 2) * (g->m + 2) * position_stride(g);
}

#define NEAR 0.625f
#define FAR 1.5f
