// v = B' d B for the tiles of an image, see winograd.h: zero padding is read as zeros.
//
// Rows come first, eight pixels at a time; then up to seven tiles that lie side by side are
// taken apart into the n columns of each, one lane per tile. Workgroup (wg_channels, wg_chunk,
// image) does `share` channels of one chunk of `chunk` tiles.
#include "winograd.h"

// Seven tiles of four pixels and what they share with an eighth fill four vectors.
#define RUN 7
#define MOST_VECTORS 4
#define MOST_N 6

typedef struct {
  i64 lane, tiles, top, left;  // first tile's lane in the chunk, first pixel
  __m256i masks[MOST_VECTORS];
} Run;

INLINE __m256i inside(i64 x, i64 width) {
  const __m256i at = _mm256_add_epi32(_mm256_set1_epi32((int)x),
                                      _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_setzero_si256(), at),
                             _mm256_cmpgt_epi32(_mm256_set1_epi32((int)width), at));
}

INLINE i64 runs_of(Run *runs, const Winograd *g, i64 begin, i64 end) {
  i64 count = 0;
  for (i64 t = begin; t < end; t += runs[count++].tiles) {
    Run *run = runs + count;
    const i64 row = t / g->tile_columns, column = t % g->tile_columns;
    run->lane = t - begin;
    run->tiles = least(least(RUN, end - t), g->tile_columns - column);
    run->top = row * g->m - g->pad_h;
    run->left = column * g->m - g->pad_w;
    for (int k = 0; k < MOST_VECTORS; k++) run->masks[k] = inside(run->left + 8 * k, g->width);
  }
  return count;
}

// B' times a column of n vectors.
INLINE void transform(const int M, const __m256 *d, __m256 *v) {
  if (M == 2) {
    v[0] = _mm256_sub_ps(d[2], d[0]);
    v[1] = _mm256_add_ps(d[2], d[1]);
    v[2] = _mm256_sub_ps(d[2], d[1]);
    v[3] = _mm256_sub_ps(d[3], d[1]);
    return;
  }
  const __m256 near = splat(NEAR), far = splat(FAR);
  const __m256 near2 = splat(NEAR * NEAR), far2 = splat(FAR * FAR);
  const __m256 both = splat(NEAR * NEAR * FAR * FAR), sum = splat(NEAR * NEAR + FAR * FAR);
  const __m256 even_far = _mm256_fnmadd_ps(far2, d[2], d[4]);
  const __m256 odd_far = _mm256_fnmadd_ps(far2, d[1], d[3]);
  const __m256 even_near = _mm256_fnmadd_ps(near2, d[2], d[4]);
  const __m256 odd_near = _mm256_fnmadd_ps(near2, d[1], d[3]);
  v[0] = _mm256_fmadd_ps(both, d[0], _mm256_fnmadd_ps(sum, d[2], d[4]));
  v[1] = _mm256_fmadd_ps(near, odd_far, even_far);
  v[2] = _mm256_fnmadd_ps(near, odd_far, even_far);
  v[3] = _mm256_fmadd_ps(far, odd_near, even_near);
  v[4] = _mm256_fnmadd_ps(far, odd_near, even_near);
  v[5] = _mm256_fmadd_ps(both, d[1], _mm256_fnmadd_ps(sum, d[3], d[5]));
}

INLINE __m256 halves(const float *low, const float *high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

INLINE __m256 next_lane(__m256 v) {
  return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 7));
}

// d[j], lane t: row[M * t + j].
INLINE void columns_of(const int M, const float *row, __m256 *d) {
  if (M == 2) {
    const __m256 a = halves(row, row + 8), b = halves(row + 4, row + 12);
    d[0] = _mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0));
    d[1] = _mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1));
  } else {
    const __m256 a = halves(row, row + 16), b = halves(row + 4, row + 20);
    const __m256 c = halves(row + 8, row + 24), e = halves(row + 12, row + 28);
    const __m256 ab = _mm256_unpacklo_ps(a, b), ce = _mm256_unpacklo_ps(c, e);
    const __m256 ab_high = _mm256_unpackhi_ps(a, b), ce_high = _mm256_unpackhi_ps(c, e);
    d[0] = _mm256_shuffle_ps(ab, ce, _MM_SHUFFLE(1, 0, 1, 0));
    d[1] = _mm256_shuffle_ps(ab, ce, _MM_SHUFFLE(3, 2, 3, 2));
    d[2] = _mm256_shuffle_ps(ab_high, ce_high, _MM_SHUFFLE(1, 0, 1, 0));
    d[3] = _mm256_shuffle_ps(ab_high, ce_high, _MM_SHUFFLE(3, 2, 3, 2));
  }
  d[M] = next_lane(d[0]);
  d[M + 1] = next_lane(d[1]);
}

INLINE void transform_run(const int M, const float *channel, const Winograd *g, const Run *run,
                          float *v) {
  const int N = M + 2;
  float rows[MOST_N * 8 * MOST_VECTORS] __attribute__((aligned(32)));
  for (int k = 0; k < M; k++) {
    __m256 d[MOST_N], t[MOST_N];
    for (int i = 0; i < N; i++) {
      const i64 y = run->top + i;
      d[i] = _mm256_setzero_ps();
      if (y >= 0 && y < g->height)
        d[i] = _mm256_maskload_ps(channel + y * g->width + run->left + 8 * k, run->masks[k]);
    }
    transform(M, d, t);
    for (int i = 0; i < N; i++) _mm256_store_ps(rows + (i * M + k) * 8, t[i]);
  }
  const __m256i mask = tail(run->tiles);
  for (int i = 0; i < N; i++) {
    __m256 d[MOST_N], t[MOST_N];
    columns_of(M, rows + i * M * 8, d);
    transform(M, d, t);
    for (int j = 0; j < N; j++) {
      float *to = v + (i * N + j) * position_stride(g) + run->lane;
      // Lanes beyond the run belong to the next one, which comes later.
      if (run->lane + 8 <= g->lanes)
        _mm256_storeu_ps(to, t[j]);
      else
        _mm256_maskstore_ps(to, mask, t[j]);
    }
  }
}

void lemurc_winograd_input(const float *x, i64 x_offset, float *v, i64 v_offset, i64 channels,
                           i64 height, i64 width, i64 out_height, i64 out_width, i64 pad_h,
                           i64 pad_w, i64 m, i64 chunk, i64 share, i64 wg_channels, i64 wg_chunk,
                           i64 image) {
  const Winograd g = winograd(channels, height, width, out_height, out_width, pad_h, pad_w, m,
                              chunk);
  const i64 chunks = (g.tiles + chunk - 1) / chunk;
  x += x_offset + image * channels * height * width;
  v += v_offset + (image * chunks + wg_chunk) * chunk_stride(&g);
  Run runs[MOST_LANES];
  const i64 begin = wg_chunk * chunk;
  const i64 count = runs_of(runs, &g, begin, least(begin + chunk, g.tiles));
  const i64 end = least((wg_channels + 1) * share, channels);
  for (i64 c = wg_channels * share; c < end; c++) {
    const float *channel = x + c * height * width;
    for (i64 r = 0; r < count; r++) {
      if (m == 2)
        transform_run(2, channel, &g, runs + r, v + c * g.lanes);
      else
        transform_run(4, channel, &g, runs + r, v + c * g.lanes);
    }
  }
}
