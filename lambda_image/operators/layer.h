// A linear layer whose input is quantized to int8 row by row: what the operator and its kernels share.
//
//   y[row, column] = act(row_scale · scale[column] · Σ q[row, k] · weights[k, column]
//                        + bias[column] + Σ input[row, inner + o] · outlier_weights[o, column]
//                        + residual[row, column] · gain[column])
//
// q is the row divided by its scale and rounded. A row with a NaN or an infinity among its first `inner` values has NaN in
// all columns of y. Every kernel gives the same bits, but those of a NaN, whatever other rows there are.
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
  OUTPUTS = 3,          // most outputs of a node
  WIDTH_STEP = 16,      // an output's columns are a multiple of this, so that no vector is in two of them
  LARGEST_INNER = 65536,  // 255 · 128 · this is the most that 32 bits hold
  TILE_ROWS = 8,        // the rows that a kernel computes together
  GROUP = 16,           // partial sums of a row's powers, each of every 16th
};

typedef struct Layer {
  size_t inner, outliers, columns;  // the input has `inner` columns to quantize, then `outliers` that stay in float
  const int8_t *weights;            // [inner, columns]
  const float *scale;               // [columns]
  const float *outlier_weights;     // [outliers, columns]
  const float *bias, *gain;         // [columns], or null: zeros, ones
  size_t output_count, width[OUTPUTS];
  float least_scale;                // of a row
  int32_t zero_point;               // 0: q within ±127, by the largest magnitude; z: within [-z, 255 - z], by the largest value
  int32_t scaled;                   // 0: row_scale counts as 1; a normalization that follows cancels it
  int32_t activation;               // 0: none, 1: GELU by tanh, 2: SiLU
  int32_t product;                  // 1: the residual is a factor of the activation's result, in place of an addend before
  int32_t halves;                   // 1: y = row_scale · Σ (256 · high + low)[row, k] · weights[k, column]; high and low are
                                    // two quantized rows, whose place is up to the kernel
} Layer;

// What a kernel reads besides the rows: columns padded to whole panels, in one block of memory.
typedef struct Packed {
  int8_t *weights;                  // in the kernel's order; plain C reads the layer's
  int32_t *start;                   // what a sum starts with
  float *scale, *bias, *gain, *outlier_weights;
} Packed;

// One run of a layer. Rows are in tiles of TILE_ROWS; the last may have fewer.
typedef struct Run {
  const Layer *layer;
  const Packed *packed;
  size_t rows;
  const float *input, *residual;    // [rows, inner + outliers], [rows, columns] or null
  float *outputs[OUTPUTS];          // [rows, width]
  size_t input_step, output_step[OUTPUTS];  // from a row to the next
  int8_t *values;                   // the quantized rows, and of each row the scale and the outliers: in the kernel's order
  float *scales, *outliers;
} Run;

// Columns of weights, of layer->inner values each, to be quantized to within ±127.
typedef struct Columns {
  size_t count;
  const float *input;
  size_t input_step;                // from a column to the next
  int8_t *to;                       // `depth` values of a column are together
  size_t to_step, depth_step;       // bytes to the next column, to the next values of a column
  float *scales;                    // [count]; NaN where a column is not finite
  int32_t *start;                   // [count], of the Packed; or null
} Columns;

// A block of rows of scores, which become the rows of a product with `halves`: p = 2^(score - the row's largest),
// 256 · high + low = p · factor, rounded.
typedef struct Softmax {
  size_t rows, keys, columns;       // columns: the keys, and what pads them to a multiple of the kernel's key_step
  float *scores;                    // [rows, columns], logarithms to the base 2
  const float *bias;                // [rows, keys], natural logarithms, added to the scores; or null
  size_t bias_step;                 // from a row to the next
  const float *factor, *share;      // [columns]; 0 where there is no key
  int8_t *values;                   // in the kernel's order
  float *scales;                    // [rows]: 1 / (LARGEST_PAIR · Σ p · share)
} Softmax;

typedef struct Kernel {
  const char *name;
  size_t panel;                     // columns that are computed together
  size_t depth;                     // consecutive values of a row that one instruction multiplies
  size_t value_bytes;               // of a quantized value
  size_t key_step;                  // of Softmax
  // Packs weights for rows of bytes 0 to 255 less `zero`. Null: the weights are not packed.
  void (*pack)(const Layer *, Packed *, int32_t zero);
  void (*quantize)(const Run *, size_t first_row, size_t end_row);
  void (*quantize_columns)(const Layer *, const Columns *);
  void (*weigh)(const Softmax *);
  void (*multiply)(const Run *, size_t first_panel, size_t end_panel, size_t first_row, size_t end_row);
} Kernel;

#if defined __aarch64__
extern const Kernel dot_kernel, i8mm_kernel;
#else
extern const Kernel vnni_kernel;
#endif
extern const Kernel plain_kernel;

static inline size_t rounded_up(size_t value, size_t step) { return (value + step - 1) / step * step; }

// An activation is v / (1 + 2^t), t = v · (cubic · v² + linear).
static inline float linear_of(const Layer *layer) {
  // GELU by tanh: -2 · √(2/π) · log2(e). SiLU: -log2(e).
  return layer->activation == 1 ? -2.302208198f : -1.442695041f;
}
static inline float cubic_of(const Layer *layer) { return layer->activation == 1 ? -0.1029432397f : 0; }  // · 0.044715

#define LARGEST_EXPONENT 126.0f
// 2^f for f in [-0.5, 0.5], relative error at most 9.2e-8: a polynomial by least squares, with weights for the least
// largest error.
#define EXP2_1 0.6931469776f
#define EXP2_2 0.2402224208f
#define EXP2_3 0.0555073374f
#define EXP2_4 0.0096715127f
#define EXP2_5 0.0013264727f

// Of Softmax: another with a relative error of at most 1.1e-4, a fraction of that of values in 8 bits.
#define SCORE_EXP2_1 0.6932829f
#define SCORE_EXP2_2 0.2422110f
#define SCORE_EXP2_3 0.0550091f
#define LOG2_E 1.442695041f
#define LOWEST_SCORE -1e38f      // of a key that is masked
#define LOWEST_EXPONENT -127.0f  // of a power that is 0
#define LARGEST_PAIR 65535.0f

// The sum of a row's partial sums, which are overwritten.
static inline float sum_of(float *partial) {
  for (int half = GROUP / 2; half; half /= 2)
    for (int i = 0; i < half; i++) partial[i] += partial[i + half];
  return partial[0];
}
