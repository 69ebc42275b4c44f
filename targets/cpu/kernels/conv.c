// y[f, p] = activation(sum over c, i, j of w[f, c, i, j] * x[c, at(p, i, j)] + bias[f])
//
// for images in NCHW, with zero padding: a product of the weight, stored in groups of six
// filters as [filters / 6][k][6] (the last group padded), and the patches, which are
// gathered into panels of output pixels on the fly.
//
// A workgroup (wg_pixels, wg_filters, image) makes `panels` times 16 pixels of `tiles` groups of
// six filters. The depth c * i * j is cut into blocks; partial sums wait in y.
#include "vector.h"

// WIDE vectors of pixels and six rows of filters fill the registers. A panel is two times as wide:
// what it gathers lies side by side in memory, and weights are read half as often.
#if LANES == 16
#define WIDE 4
#define BLOCK 128
#else
#define WIDE 2
#define BLOCK 640
#endif
#define PANEL (2 * WIDE * LANES)

typedef struct {
  i64 height, width, out_width, pixels;
  i64 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  const float *end;  // of the image
} Geometry;

// Pixels x, x + stride, ... of a row, zeros beyond its ends, to `run` places and up to LANES - 1
// more.
INLINE void gather_run(float *to, const float *row, i64 x, i64 run, i64 stride, i64 width,
                       const float *end) {
  const int inside = x >= 0 && x + (run - 1) * stride < width &&
                     (stride > 2 || row + x + (run + LANES) * stride <= end);
  if (inside && stride == 1) {
    for (i64 k = 0; k < run; k += LANES) store(to + k, load(row + x + k));
  } else if (inside && stride == 2) {
    for (i64 k = 0; k < run; k += LANES)
      store(to + k, evens(load(row + x + 2 * k), load(row + x + 2 * k + LANES)));
  } else if (inside) {
    for (i64 k = 0; k < run; k++) to[k] = row[x + k * stride];
  } else if (stride == 1) {
    for (i64 k = 0; k < run; k += LANES) store(to + k, load_inside(row, x + k, width));
  } else if (stride == 2) {
    for (i64 k = 0; k < run; k += LANES)
      store(to + k, evens(load_inside(row, x + 2 * k, width),
                          load_inside(row, x + 2 * k + LANES, width)));
  } else {
    for (i64 k = 0; k < run; k++, x += stride) to[k] = x >= 0 && x < width ? row[x] : 0;
  }
}

// One row of a panel: the pixel that tap (i, j) meets for output pixels from (row, column) on. A
// run is what of them lies in one row.
INLINE void gather(float *to, const float *channel, const Geometry *g, i64 row, i64 column,
                   i64 lanes, i64 i, i64 j) {
  for (i64 lane = 0; lane < lanes; row++, column = 0) {
    const i64 y = row * g->stride_h - g->pad_h + i * g->dilation_h;
    const i64 x = column * g->stride_w - g->pad_w + j * g->dilation_w;
    const i64 run = least(g->out_width - column, lanes - lane);
    if (y >= 0 && y < g->height)
      gather_run(to + lane, channel + y * g->width, x, run, g->stride_w, g->width,
                 g->end);
    else
      for (i64 k = 0; k < run; k += LANES) store(to + lane + k, broadcast(0));
    lane += run;
  }
}

// The rows k0 .. k0 + depth of the panel of `lanes` output pixels from p on.
INLINE void panel(float *to, const float *x, const Geometry *g, i64 p, i64 lanes, i64 k0,
                  i64 depth) {
  const i64 taps = g->kernel_h * g->kernel_w;
  const i64 row = p / g->out_width, column = p % g->out_width;
  i64 c = k0 / taps, i = k0 % taps / g->kernel_w, j = k0 % g->kernel_w;
  for (i64 k = 0; k < depth; k++, to += PANEL) {
    // What the memory held might be denormal numbers, with which products take long.
    if (lanes % LANES) store(to + lanes / LANES * LANES, broadcast(0));
    gather(to, x + c * g->height * g->width, g, row, column, lanes, i, j);
    if (++j == g->kernel_w) {
      j = 0;
      if (++i == g->kernel_h) i = 0, c++;
    }
  }
}

// Where a product goes: to[r * stride + 0 .. lanes], for `rows` filters.
typedef struct {
  float *to;
  const float *bias;  // or none
  i64 rows, stride, lanes;
  int first, last, relu;
} Output;

// to[r][lane] (+)= sum over k of a[k][r] * b[k][lane], of VECTORS vectors; VECTORS is constant.
INLINE void product(const int VECTORS, const float *a, const float *b, i64 depth,
                    const Output *out) {
  vec c[TILE_ROWS][WIDE];
  for (int r = 0; r < TILE_ROWS; r++)
    for (int v = 0; v < VECTORS; v++) c[r][v] = broadcast(0);
#pragma clang loop unroll(disable)
  for (i64 k = 0; k < depth; k++, a += TILE_ROWS, b += PANEL) {
    vec pixels[WIDE];
    for (int v = 0; v < VECTORS; v++) pixels[v] = load(b + v * LANES);
#pragma clang loop unroll(full)
    for (int r = 0; r < TILE_ROWS; r++)
      for (int v = 0; v < VECTORS; v++) c[r][v] = broadcast(a[r]) * pixels[v] + c[r][v];
  }
  const i64 rest = out->lanes - (VECTORS - 1) * LANES;
#pragma clang loop unroll(full)
  for (int r = 0; r < TILE_ROWS; r++) {
    if (r >= out->rows) return;
    float *to = out->to + r * out->stride;
    const vec bias = broadcast(out->bias ? out->bias[r] : 0);
#pragma clang loop unroll(full)
    for (int v = 0; v < VECTORS; v++) {
      const int whole = v + 1 < VECTORS;
      vec sum = c[r][v];
      if (!out->first)
        sum += whole ? load(to + v * LANES) : load_inside(to + v * LANES, 0, rest);
      if (out->last) sum += bias;
      if (out->relu) sum = finish(sum, 1);
      if (whole)
        store(to + v * LANES, sum);
      else
        store_first(to + v * LANES, sum, rest);
    }
  }
}

static __attribute__((noinline)) void product_of(i64 vectors, const float *a, const float *b,
                                                 i64 depth, const Output *out) {
  switch (vectors) {
    case 1: return product(1, a, b, depth, out);
    case 2: return product(2, a, b, depth, out);
#if WIDE == 4
    case 3: return product(3, a, b, depth, out);
    case 4: return product(4, a, b, depth, out);
#endif
  }
}

// What is left of an output besides ReLU.
INLINE void activate_output(const Output *out, i64 activation) {
  for (i64 r = 0; r < out->rows; r++)
    for (i64 v = 0; v < out->lanes; v += LANES) {
      float *to = out->to + r * out->stride + v;
      store_first(to, finish(load_inside(to, 0, out->lanes - v), activation), out->lanes - v);
    }
}

KERNEL lemurc_conv(const float *x, i64 x_offset, const float *w, i64 w_offset, const float *bias,
                   i64 bias_offset, float *y, i64 y_offset, i64 channels, i64 height, i64 width,
                   i64 filters, i64 out_height, i64 out_width, i64 kernel_h, i64 kernel_w,
                   i64 stride_h, i64 stride_w, i64 pad_h, i64 pad_w, i64 dilation_h,
                   i64 dilation_w, i64 has_bias, i64 activation, i64 panels, i64 tiles,
                   i64 wg_pixels, i64 wg_filters, i64 image) {
  Geometry g = {height,   width,    out_width, out_height * out_width,
                kernel_h, kernel_w, stride_h,  stride_w,
                pad_h,    pad_w,    dilation_h, dilation_w,
                x + x_offset + (image + 1) * channels * height * width};
  // Where output pixels are the input's, an image is one row.
  if (kernel_h * kernel_w * stride_h * stride_w == 1 && pad_h + pad_w == 0)
    g.height = 1, g.width = g.out_width = g.pixels;
  x += x_offset + image * channels * height * width;
  w += w_offset;
  bias += bias_offset;
  y += y_offset + image * filters * g.pixels;
  const i64 k = channels * kernel_h * kernel_w;
  const i64 first_pixel = wg_pixels * panels * TILE_COLUMNS;
  const i64 end_pixel = least(first_pixel + panels * TILE_COLUMNS, g.pixels);
  const i64 first_filter = wg_filters * tiles * TILE_ROWS;
  const i64 end_filter = least(first_filter + tiles * TILE_ROWS, filters);
  const i64 blocks = (k + BLOCK - 1) / BLOCK;
  const i64 block = (k + blocks - 1) / blocks;
  // Panels of as equal widths as whole vectors allow.
  const i64 vectors = (end_pixel - first_pixel + LANES - 1) / LANES;
  const i64 parts = (vectors + 2 * WIDE - 1) / (2 * WIDE);

  float b[BLOCK * PANEL + LANES] __attribute__((aligned(64)));
  for (i64 part = 0; part < parts; part++) {
    const i64 begin = part * vectors / parts, count = (part + 1) * vectors / parts - begin;
    const i64 p = first_pixel + begin * LANES;
    const i64 lanes = least(count * LANES, end_pixel - p);
    const i64 half = count > WIDE ? (count + 1) / 2 : count;
    for (i64 k0 = 0; k0 < k; k0 += block) {
      const i64 depth = least(block, k - k0);
      const int first = k0 == 0, last = k0 + depth == k;
      panel(b, x, &g, p, lanes, k0, depth);
      for (i64 f = first_filter; f < end_filter; f += TILE_ROWS)
        for (i64 v = 0; v < count; v += half) {
          const i64 wide = least(half, count - v), at = v * LANES;
          const Output out = {y + f * g.pixels + p + at, last && has_bias ? bias + f : 0,
                              least(TILE_ROWS, end_filter - f), g.pixels,
                              least(wide * LANES, lanes - at), first, last,
                              last && activation == 1};
          product_of(wide, w + f * k + k0 * TILE_ROWS, b + at, depth, &out);
          if (last && activation > 1) activate_output(&out, activation);
        }
    }
  }
}
