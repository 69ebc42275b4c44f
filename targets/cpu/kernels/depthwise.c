// y[f, p] = activation(sum over i, j of w[f, i, j] * x[f / multiplier, at(p, i, j)] + bias[f])
//
// for images in NCHW, with zero padding: each filter sees one channel, so time goes into reading
// and writing pixels. Lanes are pixels of a row; a block of rows shares what it reads.
//
// Workgroup wg does `share` of the images * filters planes.
#include "vector.h"

typedef struct {
  i64 height, width, out_height, out_width;
  i64 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
} Geometry;

typedef struct {
  const float *x, *w;
  float *y;
  float bias;
  i64 activation;
} Plane;

// Of a strip of outputs, as many rows of pixels as a band has room for are copied with their
// padding first, so that no pixel needs a look at the edges, and none is read just after it was
// written. The room is enough for ROWS rows of outputs at step 2 with 7 taps.
#define ROWS 4
#define STRIP 256
#define ROOM 8192

// Pixels x, x + stride, ... of a row; zeros beyond its ends.
INLINE vec pixels(const float *row, i64 x, i64 stride, i64 width) {
  if (stride == 1) return load_inside(row, x, width);
  if (stride == 2) return evens(load_inside(row, x, width), load_inside(row, x + LANES, width));
  vec v = broadcast(0);
  for (i64 k = 0; k < LANES; k++, x += stride)
    if (x >= 0 && x < width) v[k] = row[x];
  return v;
}

// Pixels from (top, left) on with the padding.
INLINE void copy_band(const Geometry *g, const float *x, i64 top, i64 left, i64 rows, i64 width,
                      float *band) {
  for (i64 y = top; y < top + rows; y++, band += width)
    for (i64 k = 0; k < width; k += LANES)
      store(band + k, y >= 0 && y < g->height ? load_inside(x + y * g->width, left + k, g->width)
                                              : broadcast(0));
}

// LANES outputs of ROWS rows, of TAPS x TAPS taps, STEP apart.
INLINE void block(const int TAPS, const int STEP, const float *band, i64 width, const float *w,
                  vec *sums) {
#pragma clang loop unroll(full)
  for (int r = 0; r < (ROWS - 1) * STEP + TAPS; r++, band += width)
#pragma clang loop unroll(full)
    for (int j = 0; j < TAPS; j++) {
      const vec v = STEP == 1 ? load(band + j) : evens(load(band + j), load(band + j + LANES));
#pragma clang loop unroll(full)
      for (int p = 0; p < ROWS; p++) {
        const int i = r - p * STEP;
        if (i >= 0 && i < TAPS) sums[p] = broadcast(w[i * TAPS + j]) * v + sums[p];
      }
    }
}

INLINE void by_bands(const int TAPS, const int STEP, const Geometry *g, const Plane *plane) {
  float band[ROOM] __attribute__((aligned(64)));
  for (i64 strip = 0; strip < g->out_width; strip += STRIP) {
    const i64 count = least(STRIP, g->out_width - strip);
    const i64 vectors = (count + LANES - 1) / LANES;
    const i64 width = (vectors + 1) * LANES * STEP;
    const i64 fitting = ((ROOM / width - TAPS) / STEP + 1) / ROWS * ROWS;
    for (i64 row = 0; row < g->out_height; row += fitting) {
      const i64 end = least(row + fitting, g->out_height);
      const i64 left = strip * STEP - g->pad_w;
      const i64 blocks = (end - row + ROWS - 1) / ROWS;
      copy_band(g, plane->x, row * STEP - g->pad_h, left, (blocks * ROWS - 1) * STEP + TAPS, width,
                band);
      for (i64 r = row; r < end; r += ROWS)
        for (i64 k = 0; k < count; k += LANES) {
          vec sums[ROWS];
          for (int p = 0; p < ROWS; p++) sums[p] = broadcast(plane->bias);
          block(TAPS, STEP, band + (r - row) * STEP * width + k * STEP, width, plane->w, sums);
          for (int p = 0; p < ROWS && p < end - r; p++)
            store_first(plane->y + (r + p) * g->out_width + strip + k,
                        finish(sums[p], plane->activation), count - k);
        }
    }
  }
}

// Any kernel, stride and dilation.
static void by_rows(const Geometry *g, const Plane *plane) {
  for (i64 row = 0; row < g->out_height; row++)
    for (i64 column = 0; column < g->out_width; column += LANES) {
      vec sum = broadcast(plane->bias);
      for (i64 i = 0; i < g->kernel_h; i++) {
        const i64 y = row * g->stride_h - g->pad_h + i * g->dilation_h;
        if (y < 0 || y >= g->height) continue;
        for (i64 j = 0; j < g->kernel_w; j++) {
          const i64 x = column * g->stride_w - g->pad_w + j * g->dilation_w;
          const vec v = pixels(plane->x + y * g->width, x, g->stride_w, g->width);
          sum = broadcast(plane->w[i * g->kernel_w + j]) * v + sum;
        }
      }
      store_first(plane->y + row * g->out_width + column, finish(sum, plane->activation),
                  g->out_width - column);
    }
}

static void compute(const Geometry *g, const Plane *plane) {
  const int square = g->kernel_h == g->kernel_w && g->stride_h == g->stride_w;
  if (square && g->dilation_h == 1 && g->dilation_w == 1) {
    const i64 k = g->kernel_h, step = g->stride_h;
    if (k == 3 && step == 1) return by_bands(3, 1, g, plane);
    if (k == 3 && step == 2) return by_bands(3, 2, g, plane);
    if (k == 5 && step == 1) return by_bands(5, 1, g, plane);
    if (k == 5 && step == 2) return by_bands(5, 2, g, plane);
    if (k == 7 && step == 1) return by_bands(7, 1, g, plane);
  }
  by_rows(g, plane);
}

KERNEL lemurc_depthwise(const float *x, i64 x_offset, const float *w, i64 w_offset,
                        const float *bias, i64 bias_offset, float *y, i64 y_offset, i64 planes,
                        i64 channels, i64 height, i64 width, i64 filters, i64 out_height,
                        i64 out_width, i64 kernel_h, i64 kernel_w, i64 stride_h, i64 stride_w,
                        i64 pad_h, i64 pad_w, i64 dilation_h, i64 dilation_w, i64 has_bias,
                        i64 activation, i64 share, i64 wg) {
  const Geometry g = {height,   width,    out_height, out_width, kernel_h,   kernel_w,
                      stride_h, stride_w, pad_h,      pad_w,     dilation_h, dilation_w};
  const i64 end = least((wg + 1) * share, planes);
  for (i64 n = wg * share; n < end; n++) {
    const i64 image = n / filters, f = n % filters, channel = f / (filters / channels);
    const Plane plane = {x + x_offset + (image * channels + channel) * height * width,
                         w + w_offset + f * kernel_h * kernel_w,
                         y + y_offset + n * out_height * out_width,
                         has_bias ? bias[bias_offset + f] : 0, activation};
    compute(&g, &plane);
  }
}
