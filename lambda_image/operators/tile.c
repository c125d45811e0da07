// The kernels of processors with dot products of bytes: AVX-512 VNNI, NEON (dotprod, i8mm). A tile of 8 rows and 3
// vectors of columns has 24 sums, of 32 registers. Compiled once for each: -DVNNI, -DDOT, -DI8MM.
#include <math.h>
#include <string.h>

#include "layer.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")
// Statements for each of a tile's R rows, and for each of its V vectors, written out: sums in an array that a loop indexes
// would be in memory. `r` and `j` are constants.
#define ROW(n, ...) { enum { r = n }; if (r < R) { __VA_ARGS__ } }
#define EACH_ROW(...) { ROW(0, __VA_ARGS__) ROW(1, __VA_ARGS__) ROW(2, __VA_ARGS__) ROW(3, __VA_ARGS__) \
  ROW(4, __VA_ARGS__) ROW(5, __VA_ARGS__) ROW(6, __VA_ARGS__) ROW(7, __VA_ARGS__) }
#define VECTOR(n, ...) { enum { j = n }; if (j < V) { __VA_ARGS__ } }
#define EACH_VECTOR(...) { VECTOR(0, __VA_ARGS__) VECTOR(1, __VA_ARGS__) VECTOR(2, __VA_ARGS__) }
enum { VECTORS = 3 };

#ifdef VNNI
#include <immintrin.h>
#define KERNEL vnni_kernel
#define NAME "vnni"
enum { LANES = 16, DEPTH = 4 };
typedef __m512 Floats;
typedef __m128i Bytes;
INLINE Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
INLINE Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
// The first n values of a vector, then zeros.
INLINE Floats load_first(const float *p, size_t n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
// v times the value of row r, plus c; READ_ROWS first reads the values of the tile's rows.
#define READ_ROWS(values)
#define ROW_MUL_ADD(v, values, c) mul_add(v, all(values[r]), c)
#else
#include <arm_neon.h>
#ifdef DOT
#define KERNEL dot_kernel
#define NAME "dot"
enum { LANES = 4, DEPTH = 4 };
#else
#define KERNEL i8mm_kernel
#define NAME "i8mm"
enum { LANES = 4, DEPTH = 8 };
#endif
typedef float32x4_t Floats;
typedef int8x16_t Bytes;
INLINE Floats larger(Floats a, Floats b) { return vmaxnmq_f32(a, b); }
INLINE Floats smaller(Floats a, Floats b) { return vminnmq_f32(a, b); }
INLINE Floats load_first(const float *p, size_t n) {
  Floats v = {0};
  UNROLL for (size_t i = 0; i < 3; i++) if (i < n) v[i] = p[i];
  return v;
}
#define READ_ROWS(values) \
  Floats values##_of[2]; \
  values##_of[0] = load(values); \
  if (R > 4) values##_of[1] = load(values + 4);
#define ROW_MUL_ADD(v, values, c) vfmaq_laneq_f32(c, v, values##_of[r / 4], r % 4)
#endif
enum { PANEL = VECTORS * LANES, KEY_STEP = LANES > 8 ? LANES : 8 };
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Unsigned __attribute__((vector_size(4 * LANES)));
INLINE Floats load(const float *p) { Floats v; memcpy(&v, p, sizeof v); return v; }
INLINE Ints load_ints(const int32_t *p) { Ints v; memcpy(&v, p, sizeof v); return v; }
INLINE void store(float *p, Floats v) { memcpy(p, &v, sizeof v); }
INLINE Ints nearest(Floats v) {
#ifdef VNNI
  return (Ints)_mm512_cvtps_epi32(v);
#else
  return vcvtnq_s32_f32(v);
#endif
}
INLINE Floats all(float v) { return (Floats){0} + v; }
INLINE Floats mul_add(Floats a, Floats b, Floats c) { return __builtin_elementwise_fma(a, b, c); }

static size_t depth_of(const Layer *layer) { return rounded_up(layer->inner, DEPTH); }

// power · 2^whole, of which the result is a normal number, or 0.
INLINE Floats scaled(Floats power, Floats whole) {
#ifdef VNNI
  const Ints exponent = __builtin_convertvector(whole, Ints) << 23;
#else
  const Ints exponent = vcvtq_n_s32_f32(whole, 23);
#endif
  return (Floats)((Ints)power + exponent);
}

// 2^t, for t within ±LARGEST_EXPONENT.
INLINE Floats power_of_2(Floats t) {
  Floats whole = __builtin_elementwise_roundeven(t), f = t - whole;
  Floats power = mul_add(f, all(EXP2_5), all(EXP2_4));
  power = mul_add(f, power, all(EXP2_3)), power = mul_add(f, power, all(EXP2_2)), power = mul_add(f, power, all(EXP2_1));
  return scaled(mul_add(f, power, all(1)), whole);
}

// 2^t, for t from LOWEST_EXPONENT to 0.
INLINE Floats score_power(Floats t) {
  Floats whole = __builtin_elementwise_roundeven(t), f = t - whole;
  Floats power = mul_add(f, mul_add(f, all(SCORE_EXP2_3), all(SCORE_EXP2_2)), all(SCORE_EXP2_1));
  return scaled(mul_add(f, power, all(1)), whole);
}

INLINE Floats activated(Floats v, float linear, float cubic) {
  Floats t = v * mul_add(all(cubic), v * v, all(linear));
  t = smaller(larger(t, all(-LARGEST_EXPONENT)), all(LARGEST_EXPONENT));
  return v / (1 + power_of_2(t));
}

// --- Weights, packed: [panel][depth / DEPTH][column][DEPTH]. Beyond the last row are zeros; beyond the last column, any values.

// Adds to each sum four bytes.
INLINE Ints sum_fours(Ints sums, const int8_t *bytes) {
#ifdef VNNI
  return (Ints)_mm512_dpbusd_epi32((__m512i)sums, _mm512_set1_epi8(1), _mm512_loadu_si512(bytes));
#else
  return vdotq_s32(sums, vld1q_s8(bytes), vdupq_n_s8(1));
#endif
}

static void pack(const Layer *layer, Packed *packed, int32_t zero) {
  const size_t depth = depth_of(layer), columns = layer->columns, wide = rounded_up(columns, PANEL);
  // The processor multiplies unsigned rows (VNNI) or signed ones (NEON). q plus this is what `quantize` stores, and a sum
  // starts with what that adds.
#ifdef VNNI
  const int32_t offset = zero;
#else
  const int32_t offset = zero - 128;
#endif
  enum { READ = PANEL > 16 ? PANEL : 16 };
  int8_t edge[DEPTH][READ];
  int8_t *to = packed->weights;
  for (size_t first = 0; first < wide; first += PANEL) {
    const size_t real = columns - first < PANEL ? columns - first : PANEL;
    enum { PARTS = DEPTH * PANEL / (4 * LANES) };
    Ints sums[PARTS] = {{0}};
    for (size_t k = 0; k < depth; k += DEPTH, to += DEPTH * PANEL) {
      const int8_t *rows[DEPTH];
      // What is read beyond the last column is of the next row: no result.
      const int inside = (k + DEPTH - 1) * columns + first + READ <= layer->inner * columns;
      for (size_t d = 0; d < DEPTH; d++) {
        rows[d] = layer->weights + (k + d) * columns + first;
        if (inside) continue;
        memset(edge[d], 0, sizeof edge[d]);
        if (k + d < layer->inner) memcpy(edge[d], rows[d], real);
        rows[d] = edge[d];
      }
#ifdef VNNI
      for (size_t c = 0; c < PANEL; c++)
        for (size_t d = 0; d < DEPTH; d++) to[c * DEPTH + d] = rows[d][c];
#else
      int8_t four[DEPTH / 4][64];
      for (int half = 0; half < DEPTH / 4; half++) {
        const int8_t *const *part = rows + 4 * half;
        int8x16x4_t read = {{vld1q_s8(part[0]), vld1q_s8(part[1]), vld1q_s8(part[2]), vld1q_s8(part[3])}};
        vst4q_s8(four[half], read);
      }
#ifdef DOT
      memcpy(to, four[0], DEPTH * PANEL);
#else
      for (int j = 0; j < VECTORS; j++) {
        int32x4x2_t halves;
        memcpy(halves.val, four[0] + 16 * j, 16), memcpy(halves.val + 1, four[1] + 16 * j, 16);
        vst2q_s32((int32_t *)(to + 32 * j), halves);
      }
#endif
#endif
      UNROLL for (size_t i = 0; i < PARTS; i++) sums[i] = sum_fours(sums[i], to + 4 * LANES * i);
    }
#ifdef I8MM
    for (size_t j = 0; j < VECTORS; j++) sums[j] = vpaddq_s32(sums[2 * j], sums[2 * j + 1]);
#endif
    for (size_t j = 0; j < VECTORS; j++) sums[j] *= -offset;
    memcpy(packed->start + first, sums, PANEL * sizeof *packed->start);
  }
}

// --- Rows, quantized. VNNI: [row][depth], unsigned. NEON: [tile][depth / DEPTH][row of the tile][DEPTH], signed.

static size_t height_of(size_t rows_left) {
#ifdef VNNI
  if (rows_left == 1) return 1;
#endif
  return rows_left > 4 ? 8 : 4;
}

// The bits, with a mask, of a row's largest value that is not negative; those of an infinity or NaN are beyond
// 0x7f7fffff. With -1 for a mask, `lowest` are the largest as unsigned numbers: a negative one's are beyond 0xff7fffff.
INLINE int32_t largest_bits(const float *x, size_t count, int32_t mask, uint32_t *lowest) {
  Ints largest[4] = {{0}};
  Unsigned low[4] = {{0}};
  size_t k = 0;
#define LARGER(i, vector) { \
    Ints bits = (Ints)vector & mask; \
    largest[i] = __builtin_elementwise_max(largest[i], bits); \
    if (mask == -1) low[i] = __builtin_elementwise_max(low[i], (Unsigned)bits); }
  for (; k + 4 * LANES <= count; k += 4 * LANES) UNROLL for (int i = 0; i < 4; i++) LARGER(i, load(x + k + i * LANES))
  for (; k + LANES <= count; k += LANES) LARGER(0, load(x + k))
  if (k < count) LARGER(1, load_first(x + k, count - k))
  for (int i = 1; i < 4; i++) {
    largest[0] = __builtin_elementwise_max(largest[0], largest[i]);
    low[0] = __builtin_elementwise_max(low[0], low[i]);
  }
  *lowest = __builtin_reduce_max(low[0]);
  return __builtin_reduce_max(largest[0]);
}

// The scale of a row; NaN if it is not finite.
INLINE float scale_of(const float *x, size_t inner, int32_t zero_point, float least) {
  uint32_t lowest;
  const float zero = (float)zero_point;
  const int32_t bits = zero_point ? largest_bits(x, inner, -1, &lowest) : largest_bits(x, inner, INT32_MAX, &lowest);
  if (bits > 0x7f7fffff || lowest > 0xff7fffff) return NAN;
  float largest;
  memcpy(&largest, &bits, sizeof largest);
  return fmaxf(largest * (1 / (zero_point ? 255 - zero : 127)), least);
}

// Stores 16 bytes of a row, of which `left` are in it: DEPTH of them are together, and `step` bytes from the next.
INLINE void store_16(int8_t *to, size_t step, size_t left, Bytes bytes) {
#ifdef VNNI
  if (step == DEPTH) {
    _mm_mask_storeu_epi8(to, left < 16 ? (__mmask16)((1u << left) - 1) : (__mmask16)-1, bytes);
    return;
  }
  typedef int32_t Word __attribute__((aligned(1), may_alias));
#define STORE(n) if (left > n * DEPTH) *(Word *)(to + n * step) = _mm_extract_epi32(bytes, n);
  STORE(0) STORE(1) STORE(2) STORE(3)
#elif defined DOT
#define STORE(n) if (left > n * DEPTH) vst1q_lane_s32((int32_t *)to, vreinterpretq_s32_s8(bytes), n), to += step;
  STORE(0) STORE(1) STORE(2) STORE(3)
#else
#define STORE(n) if (left > n * DEPTH) vst1q_lane_s64((int64_t *)to, vreinterpretq_s64_s8(bytes), n), to += step;
  STORE(0) STORE(1)
#endif
}

// 16 values of a row, of which `real` are in it, quantized; without zero, within ±127. Where a row is not finite, any
// values do.
INLINE Bytes quantized_16(const float *x, size_t real, float inverse, int32_t zero) {
  Floats v[16 / LANES];
  if (real >= 16) UNROLL for (size_t i = 0; i < 16; i += LANES) v[i / LANES] = load(x + i) * inverse;
  else UNROLL for (size_t i = 0; i < 16; i += LANES)
    v[i / LANES] = (i + LANES <= real ? load(x + i) : i < real ? load_first(x + i, real - i) : all(0)) * inverse;
#ifdef VNNI
  if (!zero) return _mm512_cvtepi32_epi8((__m512i)nearest(v[0]));
  return _mm512_cvtusepi32_epi8((__m512i)__builtin_elementwise_max(nearest(v[0]) + zero, (Ints){0}));
#else
  int32x4_t q[4];
  UNROLL for (int i = 0; i < 4; i++) q[i] = nearest(v[i]);
  if (!zero) return vuzp1q_s8(vuzp1q_s16(q[0], q[1]), vuzp1q_s16(q[2], q[3]));
  int16x8_t low = vqmovn_high_s32(vqmovn_s32(q[0]), q[1]), high = vqmovn_high_s32(vqmovn_s32(q[2]), q[3]);
  int16x8_t offset = vdupq_n_s16((int16_t)(zero - 128));
  low = vqaddq_s16(low, offset), high = vqaddq_s16(high, offset);
  return vqmovn_high_s16(vqmovn_s16(low), high);
#endif
}

// Quantizes a row and returns its scale. With `start`, it is a column of weights, which are signed.
INLINE float quantize_row(const float *x, size_t inner, int32_t zero, float least, int8_t *to, size_t step, int32_t *start) {
  const float scale = scale_of(x, inner, zero, least), inverse = 1 / scale;
  typedef int32_t Fours __attribute__((vector_size(16)));
  Fours sums = {0};
#ifdef VNNI  // `multiply` multiplies rows that are 128 too large
#define STORED(bytes) \
    if (start) sums = (Fours)_mm_dpbusd_epi32((__m128i)sums, _mm_set1_epi8(1), bytes); \
    else if (!zero) bytes ^= _mm_set1_epi8(-128);
#else
#define STORED(bytes)
#endif
#define QUANTIZE(real) { \
    Bytes bytes = quantized_16(x + k, real, inverse, zero); \
    STORED(bytes) \
    store_16(to, step, rounded_up(real, DEPTH), bytes); }
  size_t k = 0;
  for (; k + 16 <= inner; k += 16, to += 16 / DEPTH * step) QUANTIZE(16)
  if (k < inner) QUANTIZE(inner - k)
  if (start) *start = -128 * __builtin_reduce_add(sums);
  return scale;
}

static void quantize_columns(const Layer *layer, const Columns *columns) {
  const Columns c = *columns;
  const size_t inner = layer->inner;
  const float least = layer->least_scale;
  int32_t unused;
  for (size_t i = 0; i < c.count; i++)
    c.scales[i] = quantize_row(c.input + i * c.input_step, inner, 0, least, c.to + i * c.to_step, c.depth_step,
                               c.start ? c.start + i : &unused);
}

static void quantize(const Run *run, size_t first_row, size_t end_row) {
  const Layer *layer = run->layer;
  const size_t inner = layer->inner, depth = depth_of(layer), outliers = layer->outliers;
  const int32_t zero = layer->zero_point, scaled = layer->scaled;
  const float least = layer->least_scale;
  for (size_t row = first_row; row < end_row;) {
    const size_t height = height_of(run->rows - row);
#ifdef VNNI
    const size_t row_step = depth, step = DEPTH;
#else
    const size_t row_step = DEPTH, step = height * DEPTH;
#endif
    for (size_t r = 0; r < height; r++) {
      const size_t source = row + r < run->rows ? row + r : run->rows - 1;  // rows beyond the last repeat it
      const float *x = run->input + source * run->input_step;
      int8_t *to = run->values + row * depth + r * row_step;
      const float scale = quantize_row(x, inner, zero, least, to, step, NULL);
      run->scales[row + r] = scaled || isnan(scale) ? scale : 1;
      for (size_t o = 0; o < outliers; o++) run->outliers[row * outliers + o * height + r] = x[inner + o];
    }
    row += height;
  }
}

// --- Scores, as quantized rows of their powers

INLINE float largest_of(const float *scores, size_t count) {
  Floats most[4];
  UNROLL for (int i = 0; i < 4; i++) most[i] = all(LOWEST_SCORE);
  size_t k = 0;
  for (; k + 4 * LANES <= count; k += 4 * LANES)
    UNROLL for (int i = 0; i < 4; i++) most[i] = larger(load(scores + k + i * LANES), most[i]);
  for (; k < count; k += LANES) most[0] = larger(load(scores + k), most[0]);
  most[0] = larger(larger(most[0], most[1]), larger(most[2], most[3]));
#ifdef VNNI
  return _mm512_reduce_max_ps(most[0]);
#else
  return vmaxnmvq_f32(most[0]);
#endif
}

// Stores the high and the low bytes of n vectors of numbers below 2^16: n is 4, or for KEY_STEP of them.
INLINE void store_halves(const Ints *q, const int n, int8_t *high, int8_t *low, size_t step) {
#ifdef VNNI
  (void)step;
  if (n == 1) {
    // Of each four numbers the low bytes, then the high ones; of these, the low ones together.
    const __m512i bytes = _mm512_set4_epi32(-1, -1, 0x0d090501, 0x0c080400);
    const __m512i together = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i pairs = _mm512_permutexvar_epi32(together, _mm512_shuffle_epi8((__m512i)q[0], bytes));
    _mm_storeu_si128((void *)low, _mm512_castsi512_si128(pairs));
    _mm_storeu_si128((void *)high, _mm512_extracti32x4_epi32(pairs, 1));
    return;
  }
  const __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i low_byte = _mm512_set1_epi16(255);
  const __m512i left = _mm512_packus_epi32((__m512i)q[0], (__m512i)q[1]);
  const __m512i right = _mm512_packus_epi32((__m512i)q[2], (__m512i)q[3]);
  const __m512i highs = _mm512_packus_epi16(_mm512_srli_epi16(left, 8), _mm512_srli_epi16(right, 8));
  const __m512i lows = _mm512_packus_epi16(_mm512_and_si512(left, low_byte), _mm512_and_si512(right, low_byte));
  _mm512_storeu_si512(high, _mm512_permutexvar_epi32(in_order, highs));
  _mm512_storeu_si512(low, _mm512_permutexvar_epi32(in_order, lows));
#else
  const int8x16_t less = vdupq_n_s8(-128), first = vuzp1q_s16(q[0], q[1]), second = vuzp1q_s16(q[n - 2], q[n - 1]);
  store_16(high, step, 4 * n, vuzp2q_s8(first, second) ^ less);
  store_16(low, step, 4 * n, vuzp1q_s8(first, second) ^ less);
#endif
}

INLINE float powers(const Softmax *block, const float *scores, const float largest, int8_t *high, int8_t *low, size_t step) {
  const float *factor = block->factor, *share = block->share;
  const size_t columns = block->columns;
  float partial[GROUP];
  Floats sum[GROUP / LANES];
  UNROLL for (int i = 0; i < GROUP / LANES; i++) sum[i] = all(0);
#define POWERS(n) { \
    Ints q[n]; \
    UNROLL for (int i = 0; i < n; i++) { \
      const size_t key = k + i * LANES; \
      const Floats p = score_power(larger(load(scores + key) - largest, all(LOWEST_EXPONENT))); \
      sum[i % (GROUP / LANES)] = mul_add(p, load(share + key), sum[i % (GROUP / LANES)]); \
      q[i] = nearest(p * load(factor + key)); \
    } \
    store_halves(q, n, high + k / DEPTH * step, low + k / DEPTH * step, step); }
  size_t k = 0;
  for (; k + 4 * LANES <= columns; k += 4 * LANES) POWERS(4)
  for (; k < columns; k += KEY_STEP) POWERS(KEY_STEP / LANES)
  UNROLL for (int i = 0; i < GROUP / LANES; i++) store(partial + i * LANES, sum[i]);
  return 1 / (LARGEST_PAIR * sum_of(partial));
}

static void weigh(const Softmax *block) {
  const size_t keys = block->keys, columns = block->columns;
  for (size_t row = 0; row < block->rows;) {
    const size_t height = height_of(2 * (block->rows - row)), left = block->rows - row;
    const size_t rows = left < height / 2 ? left : height / 2;
    float *scores = block->scores + row * columns, largest[TILE_ROWS / 2];
    for (size_t r = 0; r < rows; r++) {
      if (block->bias) {
        const float *bias = block->bias + (row + r) * block->bias_step;
        float *sums = scores + r * columns;
        for (size_t k = 0; k < keys; k += LANES) {
          Floats added = k + LANES <= keys ? load(bias + k) : load_first(bias + k, keys - k);
          store(sums + k, load(sums + k) + larger(added * LOG2_E, all(LOWEST_SCORE)));
        }
      }
      largest[r] = largest_of(scores + r * columns, columns);
    }
#ifdef VNNI
    const size_t tile_step = columns, step = DEPTH;
#else
    const size_t tile_step = DEPTH, step = height * DEPTH;
#endif
    int8_t *high = block->values + 2 * row * columns;
    for (size_t r = 0; r < rows; r++, high += tile_step)
      block->scales[row + r] = powers(block, scores + r * columns, largest[r], high, high + height / 2 * tile_step, step);
    row += height / 2;
  }
}

// --- The product of a tile's R rows and a panel: sum[r][j], which starts with `start`. `a` are the rows, `b` the weights. Of
// intrinsics, the compiler would move operands between registers, and read them again from memory.
#ifdef VNNI
#define MULTIPLY \
  EACH_ROW(EACH_VECTOR(sum[r][j] = load_ints(start + j * LANES);)) \
  for (size_t k = 0; k < depth; k += DEPTH, b += DEPTH * PANEL) { \
    Ints w[VECTORS]; \
    EACH_VECTOR(w[j] = load_ints((const int32_t *)b + j * LANES);) \
    EACH_ROW(int32_t four; memcpy(&four, a + r * depth + k, sizeof four); Ints x = (Ints){0} + four; \
             EACH_VECTOR(__asm__("vpdpbusd %2, %1, %0" : "+v"(sum[r][j]) : "v"(x), "v"(w[j]));)) \
  }
#elif defined DOT
#define STEP { \
    int8x16_t w[VECTORS], x[2]; \
    EACH_VECTOR(w[j] = vld1q_s8(b + 16 * j);) \
    x[0] = vld1q_s8(a); \
    if (R > 4) x[1] = vld1q_s8(a + 16); \
    EACH_ROW(EACH_VECTOR(__asm__("sdot %0.4s, %1.16b, %2.4b[%3]" : "+w"(sum[r][j]) : "w"(w[j]), "w"(x[r / 4]), "i"(r % 4));)) \
    a += DEPTH * R, b += DEPTH * PANEL; }
#define MULTIPLY \
  EACH_ROW(EACH_VECTOR(sum[r][j] = load_ints(start + j * LANES);)) \
  size_t k = depth; \
  for (; k >= 4 * DEPTH; k -= 4 * DEPTH) { STEP STEP STEP STEP } \
  for (; k; k -= DEPTH) STEP
#else
// A product of i8mm is of two rows and two columns: `pair` has them row by row.
#define PAIR(n, ...) { enum { c = n }; if (c < 2 * V) { __VA_ARGS__ } }
#define EACH_PAIR(...) PAIR(0, __VA_ARGS__) PAIR(1, __VA_ARGS__) PAIR(2, __VA_ARGS__) \
  PAIR(3, __VA_ARGS__) PAIR(4, __VA_ARGS__) PAIR(5, __VA_ARGS__)
#define EACH_OTHER_ROW(...) EACH_ROW(if (r % 2 == 0) { __VA_ARGS__ })
#define STEP { \
    int8x16_t x[TILE_ROWS / 2]; \
    EACH_OTHER_ROW(x[r / 2] = vld1q_s8(a + DEPTH * r);) \
    EACH_PAIR(int8x16_t w = vld1q_s8(b + 16 * c); \
              EACH_OTHER_ROW(__asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(pair[r / 2][c]) : "w"(x[r / 2]), "w"(w));)) \
    a += DEPTH * R, b += DEPTH * PANEL; }
#define MULTIPLY \
  Ints pair[TILE_ROWS / 2][2 * VECTORS]; \
  EACH_PAIR(int32x2_t s = vld1_s32(start + 2 * c); EACH_OTHER_ROW(pair[r / 2][c] = vcombine_s32(s, s);)) \
  size_t k = depth; \
  for (; k >= 4 * DEPTH; k -= 4 * DEPTH) { STEP STEP STEP STEP } \
  for (; k; k -= DEPTH) STEP \
  EACH_ROW(EACH_VECTOR( \
    int64x2_t left = vreinterpretq_s64_s32(pair[r / 2][2 * j]), right = vreinterpretq_s64_s32(pair[r / 2][2 * j + 1]); \
    sum[r][j] = vreinterpretq_s32_s64(r % 2 ? vzip2q_s64(left, right) : vzip1q_s64(left, right));))
#endif

// Where a panel's vectors go.
typedef struct Target {
  size_t first;            // the panel's first column
  int vectors, whole;      // with columns; all its columns are of one output
  float *to[VECTORS];      // each vector's place in row 0 of its output
  size_t step[VECTORS];    // columns of that output
} Target;

static Target target_of(const Run *run, size_t panel) {
  const Layer *layer = run->layer;
  Target target = {.first = panel * PANEL};
  const size_t vectors = (layer->columns - target.first + LANES - 1) / LANES;
  target.vectors = vectors < VECTORS ? (int)vectors : VECTORS;
  size_t column = target.first, o = 0;
  while (column >= layer->width[o]) column -= layer->width[o++];
  target.whole = column + ((size_t)target.vectors - 1) * LANES < layer->width[o];
  for (int j = 0; j < target.vectors; j++) {
    target.to[j] = run->outputs[o] + column, target.step[j] = run->output_step[o];
    if ((column += LANES) >= layer->width[o]) column = 0, o++;
  }
  return target;
}

// Writes R / 2 rows of a layer with `halves`, of which `real` are in the input; `high` are the sums of both halves.
INLINE void write_halves(const size_t R, const size_t V, const Run *run, const Target *target, size_t row, size_t real,
                         Ints (*high)[VECTORS]) {
  Ints (*low)[VECTORS] = high + R / 2;
  float out[TILE_ROWS / 2 * PANEL];
  const size_t columns = run->layer->columns - target->first;
  const int direct = columns >= V * LANES && real == R / 2;
  float *to = direct ? target->to[0] + row * target->step[0] : out;
  const size_t step = direct ? target->step[0] : PANEL;
  const float *scales = run->scales + row;
  EACH_ROW(if (r < R / 2) EACH_VECTOR(
    Floats y = mul_add(__builtin_convertvector(high[r][j], Floats), all(256), __builtin_convertvector(low[r][j], Floats));
    store(to + r * step + j * LANES, y * (r < real ? scales[r] : 0));))
  if (direct) return;
  const size_t bytes = (columns < V * LANES ? columns : V * LANES) * sizeof *out;
  for (size_t r = 0; r < real; r++) memcpy(target->to[0] + (row + r) * target->step[0], out + r * PANEL, bytes);
}

// Writes the outputs of R rows from `row` on, of which `real` are in the input.
INLINE void tile(const size_t R, const size_t V, const Run *run, const Target *target, size_t row, size_t real) {
  const Layer *layer = run->layer;
  const Packed *packed = run->packed;
  const size_t depth = depth_of(layer), wide = rounded_up(layer->columns, PANEL), first = target->first;
  const int8_t *a = run->values + row * depth, *b = packed->weights + first * depth;
  const int32_t *start = packed->start + first;
  Ints sum[TILE_ROWS][VECTORS];
  MULTIPLY
  if (layer->halves) {
    write_halves(R, V, run, target, row / 2, real / 2, sum);
    return;
  }
  Floats y[TILE_ROWS][VECTORS];
  const float *scales = run->scales + row, *outliers = run->outliers + row * layer->outliers;
  READ_ROWS(scales)
  EACH_VECTOR(Floats scale = load(packed->scale + first + j * LANES); Floats bias = load(packed->bias + first + j * LANES);
              EACH_ROW(y[r][j] = ROW_MUL_ADD(__builtin_convertvector(sum[r][j], Floats) * scale, scales, bias);))
  for (size_t o = 0; o < layer->outliers; o++, outliers += R) {
    const float *weights = packed->outlier_weights + o * wide + first;
    Floats w[VECTORS];
    EACH_VECTOR(w[j] = load(weights + j * LANES);)
    READ_ROWS(outliers)
    EACH_ROW(EACH_VECTOR(y[r][j] = ROW_MUL_ADD(w[j], outliers, y[r][j]);))
  }
  // A tile that is not all inside one output goes through memory of its own.
  float out[TILE_ROWS * PANEL], in[TILE_ROWS * PANEL];
  const int direct = target->whole && real == R;
  float *to = direct ? target->to[0] + row * target->step[0] : out;
  const size_t step = direct ? target->step[0] : PANEL;
  const float *residual = run->residual ? run->residual + row * layer->columns + first : NULL;
  size_t residual_step = layer->columns;
  if (residual && !direct) {
    const size_t count = layer->columns - first < PANEL ? layer->columns - first : PANEL;
    memset(in, 0, sizeof in);
    for (size_t i = 0; i < real; i++) memcpy(in + i * PANEL, residual + i * residual_step, count * sizeof *in);
    residual = in, residual_step = PANEL;
  }
  if (residual && !layer->product) {
    Floats gain[VECTORS];
    EACH_VECTOR(gain[j] = load(packed->gain + first + j * LANES);)
    EACH_ROW(EACH_VECTOR(y[r][j] = mul_add(load(residual + r * residual_step + j * LANES), gain[j], y[r][j]);))
  }
  EACH_ROW(EACH_VECTOR(store(to + r * step + j * LANES, y[r][j]);))
  if (layer->activation) {
    const float linear = linear_of(layer), cubic = cubic_of(layer);
    for (size_t i = 0; i < R; i++)
      EACH_VECTOR(float *p = to + i * step + j * LANES; store(p, activated(load(p), linear, cubic));)
  }
  if (layer->product)
    for (size_t i = 0; i < R; i++)
      EACH_VECTOR(float *p = to + i * step + j * LANES; store(p, load(p) * load(residual + i * residual_step + j * LANES));)
  if (direct) return;
  for (size_t i = 0; i < real; i++)
    EACH_VECTOR(store(target->to[j] + (row + i) * target->step[j], load(out + i * PANEL + j * LANES));)
}

typedef void Tile(const Run *, const Target *, size_t row, size_t real);
#define TILE(R, V) \
  static __attribute__((noinline)) void tile_##R##_##V(const Run *run, const Target *target, size_t row, size_t real) { \
    tile(R, V, run, target, row, real); \
  }
#define TILES(R) TILE(R, 1) TILE(R, 2) TILE(R, 3)
TILES(8)
TILES(4)
#ifdef VNNI
TILES(1)
#else
#define tile_1_1 tile_4_1
#define tile_1_2 tile_4_2
#define tile_1_3 tile_4_3
#endif
static Tile *const tiles[3][VECTORS] = {
  {tile_1_1, tile_1_2, tile_1_3}, {tile_4_1, tile_4_2, tile_4_3}, {tile_8_1, tile_8_2, tile_8_3}};

static void multiply(const Run *run, size_t first_panel, size_t end_panel, size_t first_row, size_t end_row) {
  for (size_t panel = first_panel; panel < end_panel; panel++) {
    const Target target = target_of(run, panel);
    for (size_t row = first_row; row < end_row;) {
      const size_t height = height_of(run->rows - row), left = run->rows - row;
#ifdef VNNI  // A tile reads its share of the next panel ahead, where a panel fits in the first cache.
      const size_t depth = depth_of(run->layer), rows = end_row - first_row, bytes = PANEL * depth;
      if (target.first + PANEL < run->layer->columns && depth <= 512 && rows >= 32) {
        const int8_t *next = run->packed->weights + bytes * (panel + 1) + bytes * (row - first_row) / rows / 64 * 64;
        for (size_t i = 0; i < bytes * height / rows; i += 64) _mm_prefetch((const void *)(next + i), _MM_HINT_T0);
      }
#endif
      tiles[height / 4][target.vectors - 1](run, &target, row, left < height ? left : height);
      row += height;
    }
  }
}

const Kernel KERNEL = {NAME, PANEL, DEPTH, 1, KEY_STEP, pack, quantize, quantize_columns, weigh, multiply};
