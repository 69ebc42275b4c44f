// y[b, h, i] = sum over j of softmax_j(scale q[b, h, i] . k[b, g, j] + mask[b, h, i, j]) v[b, g, j]
//
// Grouped queries: g = h * kv_heads / heads. With `causal` query i sees keys j <= i. A row
// that sees no key is zero, as in PyTorch. A workgroup does `rows` queries of one head.
//
// Keys pass by in blocks of KEYS, packed into panels for gemm.h; each query keeps the
// largest score and the sum so far, and its unfinished result in y is rescaled when the
// largest score grows. See Milakov and Gimelshein, "Online normalizer calculation for
// softmax" (2018), and Dao et al., "FlashAttention" (2022).
#include "gemm.h"

#define KEYS 64
#define MOST_ROWS 96
#define MOST_WIDTH 128
#define Q_STRIDE (MOST_WIDTH + 8)
#define S_STRIDE (KEYS + 8)

static const float infinity = __builtin_inff();

// Keys as columns: panels of 16 keys, [width][16]; missing keys are zero.
INLINE void pack_keys(const float *k, i64 keys, i64 width, float *to) {
  for (i64 panel = 0; panel < KEYS; panel += TILE_COLUMNS, to += width * TILE_COLUMNS)
    for (i64 j = 0; j < TILE_COLUMNS; j++) {
      const float *key = k + (panel + j) * width;
      const int present = panel + j < keys;
      for (i64 d = 0; d < width; d++) to[d * TILE_COLUMNS + j] = present ? key[d] : 0.0f;
    }
}

// Values as they are: panels of 16 columns, [KEYS][16]; what is missing is zero.
INLINE void pack_values(const float *v, i64 keys, i64 width, float *to) {
  for (i64 column = 0; column < width; column += TILE_COLUMNS)
    for (i64 j = 0; j < KEYS; j++, to += TILE_COLUMNS) {
      const i64 n = j < keys ? width - column : 0;
      const float *from = v + (j < keys ? j * width + column : 0);
      _mm256_storeu_ps(to, _mm256_maskload_ps(from, tail(n)));
      _mm256_storeu_ps(to + 8, _mm256_maskload_ps(from + (n > 8 ? 8 : 0), tail(n - 8)));
    }
}

// Scores of one query become weights; the sum so far is brought up to date. Returns what
// the unfinished result is to be multiplied with.
INLINE float weigh(float *s, i64 seen, const float *mask, float *largest, float *sum) {
  __m256 most = splat(-infinity);
  for (i64 j = 0; j < KEYS; j += 8) {
    const __m256i present = tail(seen - j);
    __m256 x = _mm256_loadu_ps(s + j);
    if (mask && seen > j) x = _mm256_add_ps(x, _mm256_maskload_ps(mask + j, present));
    x = _mm256_blendv_ps(splat(-infinity), x, _mm256_castsi256_ps(present));
    most = _mm256_max_ps(most, x);
    _mm256_storeu_ps(s + j, x);
  }
  const float found = max8(most), before = *largest;
  const float now = found > before ? found : before;
  const float reference = now == -infinity ? 0.0f : now;
  __m256 total = _mm256_setzero_ps();
  for (i64 j = 0; j < KEYS; j += 8) {
    const __m256 w = exp8(_mm256_sub_ps(_mm256_loadu_ps(s + j), splat(reference)));
    total = _mm256_add_ps(total, w);
    _mm256_storeu_ps(s + j, w);
  }
  const float scale = _mm256_cvtss_f32(exp8(splat(before - reference)));
  *largest = now;
  *sum = *sum * scale + sum8(total);
  return scale;
}

void lemurc_attention(const float *q, i64 q_offset, const float *k, i64 k_offset, const float *v,
                      i64 v_offset, const float *mask, i64 mask_offset, float *y, i64 y_offset,
                      double scale, i64 heads, i64 kv_heads, i64 queries, i64 keys, i64 width,
                      i64 v_width, i64 causal, i64 has_mask, i64 mask_batch, i64 mask_head,
                      i64 mask_query, i64 rows, i64 wg_head, i64 wg_rows) {
  const i64 batch = wg_head / heads, head = wg_head % heads;
  const i64 group = batch * kv_heads + head * kv_heads / heads;
  q += q_offset + wg_head * queries * width;
  k += k_offset + group * keys * width;
  v += v_offset + group * keys * v_width;
  y += y_offset + wg_head * queries * v_width;
  mask += mask_offset + batch * mask_batch + head * mask_head;
  const i64 first = wg_rows * rows, end = first + rows < queries ? first + rows : queries;

  float packed_k[KEYS * MOST_WIDTH] __attribute__((aligned(64)));
  float packed_v[KEYS * MOST_WIDTH] __attribute__((aligned(64)));
  float a[TILE_ROWS * Q_STRIDE], s[TILE_ROWS * S_STRIDE], acc[TILE_ROWS * TILE_COLUMNS];
  float largest[MOST_ROWS], sums[MOST_ROWS];
  for (i64 i = 0; i < end - first; i++) largest[i] = -infinity, sums[i] = 0.0f;

  const i64 end_key = causal && end < keys ? end : keys;
  for (i64 key = 0; key < end_key; key += KEYS) {
    const i64 count = end_key - key < KEYS ? end_key - key : KEYS;
    pack_keys(k + key * width, count, width, packed_k);
    pack_values(v + key * v_width, count, v_width, packed_v);
    for (i64 row = first; row < end; row += TILE_ROWS) {
      const i64 used = end - row < TILE_ROWS ? end - row : TILE_ROWS;
      for (i64 i = 0; i < TILE_ROWS; i++) {
        const float *from = q + (row + (i < used ? i : used - 1)) * width;
        for (i64 d = 0; d < width; d++) a[i * Q_STRIDE + d] = from[d] * (float)scale;
      }
      for (i64 p = 0; p < KEYS / TILE_COLUMNS; p++) {
        tile(TILE_ROWS, Q_STRIDE, 1, a, packed_k + p * width * TILE_COLUMNS, width, acc);
        for (i64 i = 0; i < TILE_ROWS; i++)
          copy(s + i * S_STRIDE + p * TILE_COLUMNS, acc + i * TILE_COLUMNS, TILE_COLUMNS);
      }
      float rescale[TILE_ROWS];
      for (i64 i = 0; i < used; i++) {
        const i64 query = row + i, visible = causal ? query + 1 - key : count;
        const float *line = has_mask ? mask + query * mask_query + key : 0;
        rescale[i] = weigh(s + i * S_STRIDE, visible < count ? visible : count, line,
                           largest + query - first, sums + query - first);
      }
      for (i64 p = 0; p * TILE_COLUMNS < v_width; p++) {
        tile(TILE_ROWS, S_STRIDE, 1, s, packed_v + p * KEYS * TILE_COLUMNS, KEYS, acc);
        for (i64 i = 0; i < used; i++)
          for (int half = 0; half < 2; half++) {
            const i64 column = p * TILE_COLUMNS + 8 * half;
            if (column >= v_width) break;
            const __m256i present = tail(v_width - column);
            float *to = y + (row + i) * v_width + column;
            __m256 x = _mm256_loadu_ps(acc + i * TILE_COLUMNS + 8 * half);
            if (key > 0)
              x = _mm256_fmadd_ps(_mm256_maskload_ps(to, present), splat(rescale[i]), x);
            _mm256_maskstore_ps(to, present, x);
          }
      }
    }
  }
  for (i64 row = first; row < end; row++) {
    const float sum = sums[row - first];
    const __m256 inverse = splat(sum == 0.0f ? 0.0f : 1.0f / sum);
    for (i64 column = 0; column < v_width; column += 8) {
      float *to = y + row * v_width + column;
      const __m256i present = tail(v_width - column);
      _mm256_maskstore_ps(to, present, _mm256_mul_ps(_mm256_maskload_ps(to, present), inverse));
    }
  }
}
