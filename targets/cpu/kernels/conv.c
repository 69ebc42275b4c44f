// y[f, p] = activation(sum over c, i, j of w[f, c, i, j] * x[c, at(p, i, j)] + bias[f])
//
// for images in NCHW, with zero padding: a product of the weight, stored in groups of six
// filters as [filters / 6][k][6] (the last group padded), and the patches, which are
// gathered into panels of 16 output pixels on the fly.
//
// A workgroup (wg_pixels, wg_filters, image) makes `panels` panels of `tiles` groups of six
// filters. The depth c * i * j is cut into blocks; partial sums wait in y.
#include "gemm.h"

typedef struct {
  i64 height, width, out_width, pixels;
  i64 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
} Geometry;

// `n` floats, some of which may be masked away; up to 7 zeros follow in `to`.
INLINE void copy_masked(float *to, const float *from, i64 n) {
  for (i64 k = 0; k < n; k += 8)
    _mm256_storeu_ps(to + k, _mm256_maskload_ps(from + k, tail(n - k)));
}

// One row of a panel: the pixel that tap (i, j) meets for 16 output pixels from
// (row, column) on. A run is what of them lies in one row. May write 7 floats too many.
INLINE void gather(float *to, const float *channel, const Geometry *g, i64 row, i64 column,
                   i64 lanes, i64 i, i64 j) {
  const i64 y0 = row * g->stride_h - g->pad_h + i * g->dilation_h;
  const i64 x0 = column * g->stride_w - g->pad_w + j * g->dilation_w;
  const int one_row = g->stride_w == 1 && column + TILE_COLUMNS <= g->out_width;
  if (one_row && y0 >= 0 && y0 < g->height && x0 >= 0 && x0 + TILE_COLUMNS <= g->width) {
    const float *from = channel + y0 * g->width + x0;
    _mm256_storeu_ps(to, _mm256_loadu_ps(from));
    _mm256_storeu_ps(to + 8, _mm256_loadu_ps(from + 8));
    return;
  }
  _mm256_storeu_ps(to, _mm256_setzero_ps());
  _mm256_storeu_ps(to + 8, _mm256_setzero_ps());
  for (i64 lane = 0; lane < lanes; row++, column = 0) {
    const i64 y = row * g->stride_h - g->pad_h + i * g->dilation_h;
    const i64 x = column * g->stride_w - g->pad_w + j * g->dilation_w;
    i64 run = g->out_width - column;
    if (run > lanes - lane) run = lanes - lane;
    if (y >= 0 && y < g->height) {
      const float *from = channel + y * g->width;
      if (g->stride_w == 1) {
        const i64 begin = x < 0 ? -x : 0;
        const i64 end = x + run > g->width ? g->width - x : run;
        copy_masked(to + lane + begin, from + x + begin, end - begin);
      } else {
        for (i64 k = 0, at = x; k < run; k++, at += g->stride_w)
          if (at >= 0 && at < g->width) to[lane + k] = from[at];
      }
    }
    lane += run;
  }
}

// The rows k0 .. k0 + depth of the panel that starts with output pixel p.
INLINE void panel(float *to, const float *x, const Geometry *g, i64 p, i64 k0, i64 depth) {
  const i64 taps = g->kernel_h * g->kernel_w;
  const i64 row = p / g->out_width, column = p % g->out_width;
  const i64 lanes = g->pixels - p < TILE_COLUMNS ? g->pixels - p : TILE_COLUMNS;
  i64 c = k0 / taps, i = k0 % taps / g->kernel_w, j = k0 % g->kernel_w;
  for (i64 k = 0; k < depth; k++, to += TILE_COLUMNS) {
    gather(to, x + c * g->height * g->width, g, row, column, lanes, i, j);
    if (++j == g->kernel_w) {
      j = 0;
      if (++i == g->kernel_h) i = 0, c++;
    }
  }
}

#define PANELS_AT_ONCE 2

void lemurc_conv(const float *x, i64 x_offset, const float *w, i64 w_offset, const float *bias,
                 i64 bias_offset, float *y, i64 y_offset, i64 channels, i64 height, i64 width,
                 i64 filters, i64 out_height, i64 out_width, i64 kernel_h, i64 kernel_w,
                 i64 stride_h, i64 stride_w, i64 pad_h, i64 pad_w, i64 dilation_h, i64 dilation_w,
                 i64 has_bias, i64 activation, i64 panels, i64 tiles, i64 wg_pixels,
                 i64 wg_filters, i64 image) {
  const Geometry g = {height,   width,    out_width, out_height * out_width,
                      kernel_h, kernel_w, stride_h,  stride_w,
                      pad_h,    pad_w,    dilation_h, dilation_w};
  x += x_offset + image * channels * height * width;
  w += w_offset;
  bias += bias_offset;
  y += y_offset + image * filters * g.pixels;
  const i64 k = channels * kernel_h * kernel_w;
  const i64 all_panels = (g.pixels + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const i64 first_panel = wg_pixels * panels;
  const i64 end_panel = first_panel + panels < all_panels ? first_panel + panels : all_panels;
  const i64 first_filter = wg_filters * tiles * TILE_ROWS;
  const i64 end = first_filter + tiles * TILE_ROWS;
  const i64 end_filter = end < filters ? end : filters;
  const i64 blocks = (k + DEPTH - 1) / DEPTH;
  const i64 block = (k + blocks - 1) / blocks;

  float b[PANELS_AT_ONCE * DEPTH * TILE_COLUMNS + 8] __attribute__((aligned(64)));
  float acc[TILE_ROWS * TILE_COLUMNS] __attribute__((aligned(64)));
  for (i64 p0 = first_panel; p0 < end_panel; p0 += PANELS_AT_ONCE) {
    const i64 count = end_panel - p0 < PANELS_AT_ONCE ? end_panel - p0 : PANELS_AT_ONCE;
    for (i64 k0 = 0; k0 < k; k0 += block) {
      const i64 depth = k0 + block < k ? block : k - k0;
      const int first = k0 == 0, last = k0 + depth == k;
      for (i64 q = 0; q < count; q++)
        panel(b + q * DEPTH * TILE_COLUMNS, x, &g, (p0 + q) * TILE_COLUMNS, k0, depth);
      for (i64 f = first_filter; f < end_filter; f += TILE_ROWS) {
        const i64 rows = end_filter - f < TILE_ROWS ? end_filter - f : TILE_ROWS;
        const float *a = w + f * k + k0 * TILE_ROWS;
        for (i64 q = 0; q < count; q++) {
          tile(TILE_ROWS, 1, TILE_ROWS, a, b + q * DEPTH * TILE_COLUMNS, depth, acc);
          for (int half = 0; half < 2; half++) {
            const i64 at = (p0 + q) * TILE_COLUMNS + 8 * half;
            if (at >= g.pixels) break;
            const __m256i mask = tail(g.pixels - at);
            for (i64 r = 0; r < rows; r++) {
              float *to = y + (f + r) * g.pixels + at;
              __m256 v = _mm256_load_ps(acc + r * TILE_COLUMNS + 8 * half);
              if (!first) v = _mm256_add_ps(v, _mm256_maskload_ps(to, mask));
              if (last && has_bias) v = _mm256_add_ps(v, splat(bias[f + r]));
              if (last) v = activate(v, activation);
              _mm256_maskstore_ps(to, mask, v);
            }
          }
        }
      }
    }
  }
}
