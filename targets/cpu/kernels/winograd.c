// y = activation(A' M A + bias), M = sum over channels of (G g G') * v, see winograd.h.
//
// The weight comes as w[filters / 16][channels][9][16] with the last panel padded. Lanes are
// filters here and rows are tiles. The weight of a whole layer, transformed, would be four times as
// large, in the artifact, in memory and to read: it is transformed here, a row of G g G' and some
// channels at a time.
//
// The transforms add what a plain convolution keeps apart, so one infinity or NaN in the image
// or the weight, or a sum beyond the range of f32, would spoil a whole tile. It always spoils the
// outputs that it must: a tile of outputs that are not all finite is computed again, plainly.
//
// Workgroup (wg_panels, wg_chunk, image) does `panels` panels of 16 filters, an even number, of a
// chunk of `chunk` tiles.
#include "vector.h"
#include "winograd.h"

#define STORED 16
#define PANEL (2 * LANES)
// Rows that have registers, and channels whose transformed weights stay in the first cache.
#if LANES == 16
#define MOST_ROWS 8
#define DEEP 16
#else
#define MOST_ROWS 6
#define DEEP 24
#endif

// What a block of rows is multiplied with: for each position, m[row][PANEL] (+)= sum over k of
// v[k][row] * u[k][PANEL].
typedef struct {
  const float *v, *u;
  float *m;
  i64 lanes, positions, v_stride, u_stride, m_stride, depth;
  int first;
} Products;

// For ROWS rows, a constant. Where rows are few, sums are split in SPLIT for the multipliers to
// have enough to do.
INLINE void products(const int ROWS, const int SPLIT, const Products *p) {
  const float *from = p->v, *weights = p->u;
  float *m = p->m;
  const i64 lanes = p->lanes;
  for (i64 n = 0; n < p->positions; n++) {
    const float *a = from, *b = weights;
    vec c[4][MOST_ROWS][2];
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS; i++)
      for (int h = 0; h < 2; h++) {
        c[0][i][h] = p->first ? broadcast(0) : load(m + i * PANEL + h * LANES);
        for (int s = 1; s < SPLIT; s++) c[s][i][h] = broadcast(0);
      }
#define STEP(s)                                                        \
  for (int h = 0; h < 2; h++) {                                  \
    const vec w = load(b + (s) * PANEL + h * LANES);                   \
    _Pragma("clang loop unroll(full)") for (int i = 0; i < ROWS; i++)  \
        c[s][i][h] = broadcast(a[(s) * lanes + i]) * w + c[s][i][h];   \
  }
    i64 k = 0;
#pragma clang loop unroll_count(2)
    for (; k + SPLIT <= p->depth; k += SPLIT, a += SPLIT * lanes, b += SPLIT * PANEL)
#pragma clang loop unroll(full)
      for (int s = 0; s < SPLIT; s++) STEP(s)
#pragma clang loop unroll(disable)
    for (; k < p->depth; k++, a += lanes, b += PANEL) STEP(0)
#undef STEP
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS; i++)
      for (int h = 0; h < 2; h++) {
        for (int s = 1; s < SPLIT; s++) c[0][i][h] += c[s][i][h];
        store(m + i * PANEL + h * LANES, c[0][i][h]);
      }
    from += p->v_stride, weights += p->u_stride, m += p->m_stride;
  }
}

static void products_of(i64 rows, const Products *p) {
#define CASE(n, split) case n: products(n, split, p); return;
  switch (rows) {
#if LANES == 16
    CASE(1, 4) CASE(2, 4) CASE(3, 2) CASE(4, 2) CASE(5, 2) CASE(6, 1) CASE(7, 1)
    CASE(8, 1)
#else
    CASE(1, 4) CASE(2, 2) CASE(3, 2) CASE(4, 1) CASE(5, 1) CASE(6, 1)
#endif
  }
#undef CASE
}

// Row i of G, but for what it lacks, see `transform`.
INLINE void interpolation(const int M, i64 i, float *row) {
  const float points[] = {0, M == 2 ? 1 : NEAR, M == 2 ? -1 : -NEAR, FAR, -FAR};
  const float point = i <= M ? points[i] : 0;
  row[0] = i <= M;
  row[1] = point;
  row[2] = i <= M ? point * point : 1;
}

// u[N][depth + 1][PANEL] = row i of G g G'; one more for the cache's sake, see winograd.h.
INLINE void transform_weights(const int M, i64 i, const float *w, i64 panel_stride, i64 depth,
                              float *u) {
  float row[3];
  interpolation(M, i, row);
  const i64 stride = (depth + 1) * PANEL;
  for (i64 k = 0; k < depth; k++, w += 9 * STORED, u += PANEL)
    for (int h = 0; h < PANEL; h += LANES) {
      const float *from = w + h / STORED * panel_stride + h % STORED;
      vec g[3];
#pragma clang loop unroll(full)
      for (int j = 0; j < 3; j++)
        g[j] = row[0] * load(from + j * STORED) + (row[1] * load(from + (3 + j) * STORED) +
                                                   row[2] * load(from + (6 + j) * STORED));
      float *to = u + h;
      store(to, g[0]);
      store(to + (M + 1) * stride, g[2]);
      if (M == 2) {
        store(to + stride, g[0] + g[2] + g[1]);
        store(to + 2 * stride, g[0] + g[2] - g[1]);
      } else {
        const vec near = NEAR * NEAR * g[2] + g[0], far = FAR * FAR * g[2] + g[0];
        store(to + stride, NEAR * g[1] + near);
        store(to + 2 * stride, -NEAR * g[1] + near);
        store(to + 3 * stride, FAR * g[1] + far);
        store(to + 4 * stride, -FAR * g[1] + far);
      }
    }
}

// A' times a column of n vectors. What B and G lack is divided by here.
INLINE void transform(const int M, const vec *m, vec *y) {
  if (M == 2) {
    y[0] = 0.5f * (m[1] + m[2]) - m[0];
    y[1] = 0.5f * (m[1] - m[2]) + m[3];
    return;
  }
  const float zero_share = 1 / (NEAR * NEAR * FAR * FAR);
  const float near_share = 1 / (2 * NEAR * NEAR * (NEAR * NEAR - FAR * FAR));
  const float far_share = 1 / (2 * FAR * FAR * (FAR * FAR - NEAR * NEAR));
  const vec near_sum = m[1] + m[2], near_difference = m[1] - m[2];
  const vec far_sum = m[3] + m[4], far_difference = m[3] - m[4];
  y[0] = zero_share * m[0] + (near_share * near_sum + far_share * far_sum);
  y[1] = near_share * NEAR * near_difference + far_share * FAR * far_difference;
  y[2] = near_share * NEAR * NEAR * near_sum + far_share * FAR * FAR * far_sum;
  y[3] = near_share * NEAR * NEAR * NEAR * near_difference +
         (far_share * FAR * FAR * FAR * far_difference + m[5]);
}

// The outputs of a tile, LANES filters side by side: y[M * M], and whether all are finite.
INLINE int outputs(const int M, const float *m, i64 stride, vec *y) {
  const int N = M + 2;
  vec t[6][4];
#pragma clang loop unroll(full)
  for (int j = 0; j < N; j++) {
    vec column[6], sums[4];
    for (int i = 0; i < N; i++) column[i] = load(m + (i * N + j) * stride);
    transform(M, column, sums);
    for (int p = 0; p < M; p++) t[j][p] = sums[p];
  }
  vec total = broadcast(0);
#pragma clang loop unroll(full)
  for (int p = 0; p < M; p++) {
    vec row[6];
    for (int j = 0; j < N; j++) row[j] = t[j][p];
    transform(M, row, y + p * M);
    for (int q = 0; q < M; q++) total += y[p * M + q];
  }
  return all_finite(total);
}

typedef struct {
  i64 top, left, rows, columns;  // of the outputs, where they are inside the image
} Place;

// The same as a plain convolution; `w` is of this panel and these lanes.
static void outputs_plainly(const Winograd *g, const Place *place, const float *x, const float *w,
                            float *y) {
  for (i64 p = 0; p < place->rows; p++)
    for (i64 q = 0; q < place->columns; q++) {
      vec sum = broadcast(0);
      for (i64 c = 0; c < g->channels; c++)
        for (i64 i = 0; i < 3; i++)
          for (i64 j = 0; j < 3; j++) {
            const i64 row = place->top + p + i - g->pad_h;
            const i64 column = place->left + q + j - g->pad_w;
            if (row < 0 || row >= g->height || column < 0 || column >= g->width) continue;
            const float at = x[(c * g->height + row) * g->width + column];
            sum = broadcast(at) * load(w + ((c * 3 + i) * 3 + j) * STORED) + sum;
          }
      store(y + (p * g->m + q) * LANES, sum);
    }
}

// Writes y[M * M][LANES], of which `lanes` filters count, to images in NCHW.
INLINE void scatter(const int M, const Winograd *g, const Place *place, const float *y, i64 lanes,
                    float *to) {
  const i64 pixels = g->out_height * g->out_width;
  to += place->top * g->out_width + place->left;
  if (M == 4 && place->columns == 4) {
    for (i64 f = 0; f < lanes; f += 4, to += 4 * pixels)
      for (i64 p = 0; p < place->rows; p++) {
        const float *from = y + p * 4 * LANES + f;
        __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + LANES);
        __m128 c = _mm_loadu_ps(from + 2 * LANES), d = _mm_loadu_ps(from + 3 * LANES);
        _MM_TRANSPOSE4_PS(a, b, c, d);
        float *row = to + p * g->out_width;
        _mm_storeu_ps(row, a);
        if (f + 1 < lanes) _mm_storeu_ps(row + pixels, b);
        if (f + 2 < lanes) _mm_storeu_ps(row + 2 * pixels, c);
        if (f + 3 < lanes) _mm_storeu_ps(row + 3 * pixels, d);
      }
    return;
  }
  for (i64 f = 0; f < lanes; f++, to += pixels)
    for (i64 p = 0; p < place->rows; p++)
      for (i64 q = 0; q < place->columns; q++)
        to[p * g->out_width + q] = y[(p * M + q) * LANES + f];
}

typedef struct {
  Winograd g;
  const float *x, *w, *bias;
  float *y;
  i64 filters, has_bias, activation;
} Layer;

// Tiles from `tile` on, in chunks of `chunk`, by the panel of filters from `f` on.
INLINE void tiles_by_panel(const int M, const Layer *layer, const float *v, i64 tile, i64 tiles,
                           i64 f) {
  const Winograd *g = &layer->g;
  const int N = M + 2;
  const float *w = layer->w + f * g->channels * 9;
  // The second half of the last panel may not be stored; what it computes is not used.
  const i64 panel_stride = f + STORED < layer->filters ? g->channels * 9 * STORED : 0;
  float m[MOST_LANES * MOST_POSITIONS * PANEL] __attribute__((aligned(64)));
  float u[6 * (DEEP + 1) * PANEL] __attribute__((aligned(64)));
  const i64 blocks = (tiles + MOST_ROWS - 1) / MOST_ROWS;
  for (i64 c = 0; c < g->channels; c += DEEP)
    for (i64 i = 0; i < N; i++) {
      const i64 depth = least(DEEP, g->channels - c);
      transform_weights(M, i, w + c * 9 * STORED, panel_stride, depth, u);
      const float *at = v + i * N * position_stride(g) + c * g->lanes;
      for (i64 block = 0; block < blocks; block++) {
        const i64 row = block * tiles / blocks;
        const Products part = {at + row,
                               u,
                               m + (i * N * tiles + row) * PANEL,
                               g->lanes,
                               N,
                               position_stride(g),
                               (depth + 1) * PANEL,
                               tiles * PANEL,
                               depth,
                               c == 0};
        products_of((block + 1) * tiles / blocks - row, &part);
      }
    }
  for (i64 t = 0; t < tiles; t++) {
    const i64 top = (tile + t) / g->tile_columns * M, left = (tile + t) % g->tile_columns * M;
    const Place place = {top, left, least(M, g->out_height - top), least(M, g->out_width - left)};
    for (i64 lane = 0; lane < PANEL && f + lane < layer->filters; lane += LANES) {
      const i64 filter = f + lane, lanes = least(LANES, layer->filters - filter);
      vec result[16];
      float scratch[16 * LANES] __attribute__((aligned(64)));
      if (!outputs(M, m + t * PANEL + lane, tiles * PANEL, result)) {
        outputs_plainly(g, &place, layer->x, w + lane / STORED * panel_stride + lane % STORED,
                        scratch);
        for (int k = 0; k < M * M; k++) result[k] = load(scratch + k * LANES);
      }
      vec bias = broadcast(0);
      if (layer->has_bias)
        for (i64 k = 0; k < lanes; k++) bias[k] = layer->bias[filter + k];
      for (int k = 0; k < M * M; k++)
        store(scratch + k * LANES, finish(result[k] + bias, layer->activation));
      scatter(M, g, &place, scratch, lanes, layer->y + filter * g->out_height * g->out_width);
    }
  }
}

KERNEL lemurc_winograd(const float *v, i64 v_offset, const float *w, i64 w_offset, const float *x,
                       i64 x_offset, const float *bias, i64 bias_offset, float *y, i64 y_offset,
                       i64 channels, i64 height, i64 width, i64 filters, i64 out_height,
                       i64 out_width, i64 pad_h, i64 pad_w, i64 m, i64 has_bias, i64 activation,
                       i64 chunk, i64 panels, i64 wg_panels, i64 wg_chunk,
                       i64 image) {
  const Winograd g = winograd(channels, height, width, out_height, out_width, pad_h, pad_w, m,
                              chunk);
  const i64 chunks = (g.tiles + chunk - 1) / chunk;
  const Layer layer = {g,
                       x + x_offset + image * channels * height * width,
                       w + w_offset,
                       bias + bias_offset,
                       y + y_offset + image * filters * out_height * out_width,
                       filters,
                       has_bias,
                       activation};
  v += v_offset + (image * chunks + wg_chunk) * chunk_stride(&g);
  const i64 tile = wg_chunk * chunk, tiles = least(chunk, g.tiles - tile);
  const i64 end = least((wg_panels + 1) * panels * STORED, filters);
  for (i64 f = wg_panels * panels * STORED; f < end; f += PANEL) {
    if (m == 2)
      tiles_by_panel(2, &layer, v, tile, tiles, f);
    else
      tiles_by_panel(4, &layer, v, tile, tiles, f);
  }
}
