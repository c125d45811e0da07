// The kernel in plain C, one value at a time: for any processor, and the reference of the other kernels' bits.
#include <math.h>
#include <string.h>

#include "layer.h"

// power · 2^whole, of which the result is a normal number, or 0.
static float scaled(float power, float whole) {
  int32_t bits;
  memcpy(&bits, &power, sizeof bits);
  bits += (int32_t)whole * (1 << 23);
  memcpy(&power, &bits, sizeof power);
  return power;
}

// 2^t, for t within ±LARGEST_EXPONENT.
static float power_of_2(float t) {
  float whole = rintf(t), f = t - whole;
  float power = fmaf(f, EXP2_5, EXP2_4);
  power = fmaf(f, power, EXP2_3), power = fmaf(f, power, EXP2_2), power = fmaf(f, power, EXP2_1);
  return scaled(fmaf(f, power, 1), whole);
}

// 2^t, for t from LOWEST_EXPONENT to 0.
static float score_power(float t) {
  float whole = rintf(t), f = t - whole;
  return scaled(fmaf(f, fmaf(f, fmaf(f, SCORE_EXP2_3, SCORE_EXP2_2), SCORE_EXP2_1), 1), whole);
}

static float activated(const Layer *layer, float v) {
  float t = v * fmaf(cubic_of(layer), v * v, linear_of(layer));
  t = fminf(fmaxf(t, -LARGEST_EXPONENT), LARGEST_EXPONENT);
  return v / (1 + power_of_2(t));
}

static void quantize(const Run *run, size_t first_row, size_t end_row) {
  const Layer *layer = run->layer;
  const int32_t zero = layer->zero_point;
  const float steps = zero ? 255 - (float)zero : 127;
  for (size_t row = first_row; row < end_row; row++) {
    const float *x = run->input + row * run->input_step;
    int16_t *q = (int16_t *)run->values + row * layer->inner;
    float largest = 0;
    int finite = 1;
    for (size_t k = 0; k < layer->inner; k++) {
      finite &= isfinite(x[k]) != 0;
      largest = fmaxf(largest, zero ? x[k] : fabsf(x[k]));
    }
    const float scale = fmaxf(largest * (1 / steps), layer->least_scale), inverse = 1 / scale;
    for (size_t k = 0; k < layer->inner; k++) {
      float value = finite ? rintf(x[k] * inverse) : 0;
      q[k] = (int16_t)(zero ? fminf(fmaxf(value, (float)-zero), steps) : value);
    }
    run->scales[row] = !finite ? NAN : layer->scaled ? scale : 1;
    memcpy(run->outliers + row * layer->outliers, x + layer->inner, layer->outliers * sizeof *x);
  }
}

static void quantize_columns(const Layer *layer, const Columns *columns) {
  for (size_t c = 0; c < columns->count; c++) {
    const float *x = columns->input + c * columns->input_step;
    float largest = 0;
    int finite = 1;
    for (size_t k = 0; k < layer->inner; k++) finite &= isfinite(x[k]) != 0, largest = fmaxf(largest, fabsf(x[k]));
    const float scale = fmaxf(largest * (1 / 127.0f), layer->least_scale), inverse = 1 / scale;
    for (size_t k = 0; k < layer->inner; k++)
      columns->to[c * columns->to_step + k * columns->depth_step] = finite ? (int8_t)rintf(x[k] * inverse) : 0;
    columns->scales[c] = finite ? scale : NAN;
    if (columns->start) columns->start[c] = 0;
  }
}

static void weigh(const Softmax *block) {
  const size_t columns = block->columns;
  for (size_t row = 0; row < block->rows; row++) {
    float *scores = block->scores + row * columns, partial[GROUP] = {0}, largest = LOWEST_SCORE;
    int16_t *high = (int16_t *)block->values + 2 * row * columns, *low = high + columns;
    for (size_t k = 0; k < columns; k++) {
      if (block->bias && k < block->keys) scores[k] += fmaxf(block->bias[row * block->bias_step + k] * LOG2_E, LOWEST_SCORE);
      largest = fmaxf(largest, scores[k]);
    }
    for (size_t k = 0; k < columns; k++) {
      const float p = score_power(fmaxf(scores[k] - largest, LOWEST_EXPONENT));
      partial[k % GROUP] = fmaf(p, block->share[k], partial[k % GROUP]);
      const int32_t pair = (int32_t)rintf(p * block->factor[k]);
      high[k] = (int16_t)(pair >> 8), low[k] = pair & 255;
    }
    block->scales[row] = 1 / (LARGEST_PAIR * sum_of(partial));
  }
}

static int32_t sum_of_products(const Layer *layer, const int16_t *q, size_t column) {
  int32_t sum = 0;
  for (size_t k = 0; k < layer->inner; k++) sum += q[k] * layer->weights[k * layer->columns + column];
  return sum;
}

static float output_of(const Run *run, size_t row, size_t column) {
  const Layer *layer = run->layer;
  const Packed *packed = run->packed;
  const int16_t *q = (const int16_t *)run->values + row * layer->inner;
  if (layer->halves) {
    q += row * layer->inner;
    const float low = (float)sum_of_products(layer, q + layer->inner, column);
    return fmaf((float)sum_of_products(layer, q, column), 256, low) * run->scales[row];
  }
  int32_t sum = sum_of_products(layer, q, column);
  float y = fmaf((float)sum * packed->scale[column], run->scales[row], packed->bias[column]);
  const size_t wide = rounded_up(layer->columns, plain_kernel.panel);
  for (size_t o = 0; o < layer->outliers; o++)
    y = fmaf(run->outliers[row * layer->outliers + o], packed->outlier_weights[o * wide + column], y);
  const float residual = run->residual ? run->residual[row * layer->columns + column] : 0;
  if (run->residual && !layer->product) y = fmaf(residual, packed->gain[column], y);
  if (layer->activation) y = activated(layer, y);
  return layer->product ? y * residual : y;
}

static void multiply(const Run *run, size_t first_panel, size_t end_panel, size_t first_row, size_t end_row) {
  const Layer *layer = run->layer;
  const size_t panel = plain_kernel.panel;
  for (size_t column = first_panel * panel; column < end_panel * panel && column < layer->columns; column++) {
    size_t output = 0, within = column;
    while (within >= layer->width[output]) within -= layer->width[output++];
    for (size_t row = first_row; row < end_row >> layer->halves; row++)
      run->outputs[output][row * run->output_step[output] + within] = output_of(run, row, column);
  }
}

const Kernel plain_kernel = {"plain", WIDTH_STEP, 1, sizeof(int16_t), 1, NULL, quantize, quantize_columns, weigh, multiply};
