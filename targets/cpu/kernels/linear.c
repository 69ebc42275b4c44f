// y[m, n] = activation(sum over k of x[m, k] * w[n / 16][k][n % 16] + bias[n])
//
// The weight comes packed: panels of 16 columns, the last one padded. A workgroup
// (wg_columns, wg_rows) makes `panels` panels of `tiles` groups of six rows. The depth is
// cut into blocks of at most DEPTH, so that a panel's block stays in the cache while all
// rows pass by; partial sums wait in y.
//
// Without `has_bias` the bias is not read.
#include "gemm.h"

void lemurc_linear(const float *x, i64 x_offset, const float *w, i64 w_offset, const float *bias,
                   i64 bias_offset, float *y, i64 y_offset, i64 m, i64 n, i64 k, i64 has_bias,
                   i64 activation, i64 panels, i64 tiles, i64 wg_columns, i64 wg_rows) {
  x += x_offset;
  w += w_offset;
  bias += bias_offset;
  y += y_offset;
  const i64 all_panels = (n + TILE_COLUMNS - 1) / TILE_COLUMNS;
  const i64 first_panel = wg_columns * panels;
  const i64 end_panel = first_panel + panels < all_panels ? first_panel + panels : all_panels;
  const i64 first_row = wg_rows * tiles * TILE_ROWS;
  const i64 end_row = first_row + tiles * TILE_ROWS < m ? first_row + tiles * TILE_ROWS : m;
  const i64 blocks = (k + DEPTH - 1) / DEPTH;
  const i64 block = (k + blocks - 1) / blocks;

  float a[TILE_ROWS * A_STRIDE] __attribute__((aligned(64)));
  float acc[TILE_ROWS * TILE_COLUMNS] __attribute__((aligned(64)));
  for (i64 k0 = 0; k0 < k; k0 += block) {
    const i64 depth = k0 + block < k ? block : k - k0;
    const int first = k0 == 0, last = k0 + depth == k;
    for (i64 row = first_row; row < end_row; row += TILE_ROWS) {
      const i64 rows = end_row - row < TILE_ROWS ? end_row - row : TILE_ROWS;
      for (i64 i = 0; i < rows; i++) copy(a + i * A_STRIDE, x + (row + i) * k + k0, depth);
      for (i64 p = first_panel; p < end_panel; p++) {
        tile_of(rows, a, w + (p * k + k0) * TILE_COLUMNS, depth, acc);
        const i64 column = p * TILE_COLUMNS;
        for (int half = 0; half < 2 && column + 8 * half < n; half++) {
          const i64 at = column + 8 * half;
          const __m256i mask = tail(n - at);
          const __m256 b = last && has_bias ? _mm256_maskload_ps(bias + at, mask)
                                            : _mm256_setzero_ps();
          for (i64 i = 0; i < rows; i++) {
            float *to = y + (row + i) * n + at;
            __m256 v = _mm256_load_ps(acc + i * TILE_COLUMNS + 8 * half);
            if (!first) v = _mm256_add_ps(v, _mm256_maskload_ps(to, mask));
            if (last) v = activate(_mm256_add_ps(v, b), activation);
            _mm256_maskstore_ps(to, mask, v);
          }
        }
      }
    }
  }
}
