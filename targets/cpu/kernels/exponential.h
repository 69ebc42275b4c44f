// The exponential of a vector of floats.
#pragma once

#include "vector.h"

typedef int ivec __attribute__((vector_size(4 * LANES)));

// v where `chosen` is set, else w.
INLINE vec choose(ivec chosen, vec v, vec w) {
  return (vec)((chosen & (ivec)v) | (~chosen & (ivec)w));
}

// exp within 2 ulp; 0 below -104, infinity above 88.8, NaN stays NaN. Cody and Waite's reduction
// to |r| <= log(2) / 2, and the polynomial of Cephes' expf.
INLINE vec exponential(vec x) {
  const vec most = broadcast(89.0f), least_ = broadcast(-105.0f), zero = {};
  vec c = choose(x > most, most, x);
  c = choose(c < least_, least_, c);
  const vec n = __builtin_elementwise_roundeven(c * 1.44269504088896341f);
  vec r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  vec p = broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + (r + 1.0f);
  // 2^n in two factors, since n reaches from -152 to 128; a NaN is no number to convert.
  const ivec k = __builtin_convertvector(choose(n == n, n, zero), ivec);
  const ivec half = k >> 1;
  const vec a = (vec)((half + 127) << 23), b = (vec)((k - half + 127) << 23);
  return p * a * b;
}
