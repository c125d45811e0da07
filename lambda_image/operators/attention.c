// The operator AttentionRows: softmax(QUERY · KEYᵀ · factor + BIAS) · VALUE of each head, as two products in int8. The keys
// of a head are the weights of a layer whose rows are the queries; its values are those of a layer whose rows are the
// powers of the scores, p. A value's scale is 2^exponent · mantissa. The exponent is added to the score, so the largest
// p · mantissa of a row, which the product multiplies, is between 1/2 and 1. In the sum that divides, p counts p · 2^-exponent.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

enum { QUERY, KEY, VALUE, BIAS, INPUTS };
enum {
  BLOCK = 32,                  // rows whose scores are in memory at a time
  TASK_VALUES = 1 << 16,       // a task packs about so many or more
};
static const char *const input_names[INPUTS] = {"QUERY", "KEY", "VALUE", "BIAS"};

typedef struct Node {
  Operator operator;
  const Kernel *kernel;
  int32_t heads, kv_heads, has_bias;
  float factor;                // NaN: 1 / √width
} Node;

// A run. A text is what has keys of its own: one of the leading dimensions' product.
typedef struct Attention {
  const Kernel *kernel;
  size_t texts, heads, kv_heads, rows, key_count, width;
  float factor;
  const float *query, *key, *value;  // [texts, rows, heads, width], twice [texts, key_count, kv_heads, width]
  const float *bias;                 // or null; dimensions of 1 have a step of 0
  size_t text_rank, text_shape[MOST_RANK], text_step[MOST_RANK], head_step, row_step;
  float *output;                     // [texts, rows, heads, width]
  Layer keys, values;                // without weights
  uintptr_t memory;                  // of the packed heads
  size_t head_size;                  // in bytes
  size_t blocks, units_of_task, tasks_of_text;
  int lacks_memory;
} Attention;

// The packed keys and values of a head of a text.
typedef struct Head {
  Packed keys, values;
  int8_t *rows;                      // the quantized values; a row is written up to a whole vector
  float *factor, *share, *finite;    // see Softmax; 0, or NaN if a key or value is not finite
  uintptr_t end;
} Head;

static void *cut(uintptr_t *memory, size_t size) {
  void *piece = (void *)*memory;
  *memory += rounded_up(size, 64);
  return piece;
}

static Head head_at(const Attention *attention, uintptr_t at) {
  const Kernel *kernel = attention->kernel;
  const size_t keys = attention->keys.columns, width = attention->width;
  const size_t columns = rounded_up(keys, kernel->panel), wide = rounded_up(width, kernel->panel);
  Head head = {.rows = cut(&at, keys * width + 16), .factor = cut(&at, keys * 4), .share = cut(&at, keys * 4)};
  head.keys.weights = cut(&at, columns * rounded_up(width, kernel->depth)), head.keys.start = cut(&at, columns * 4);
  head.keys.scale = cut(&at, columns * 4), head.keys.bias = cut(&at, columns * 4), head.finite = cut(&at, 4);
  head.values.weights = cut(&at, kernel->pack ? keys * wide : 0), head.values.start = cut(&at, wide * 4);
  head.end = at;
  return head;
}

static Head packed_head(const Attention *attention, size_t text, size_t head) {
  return head_at(attention, attention->memory + (text * attention->kv_heads + head) * attention->head_size);
}

// A task's memory: of a block of rows.
typedef struct Scratch {
  int8_t *queries, *powers;          // quantized
  float *query_scales, *power_scales, *scores;
  uintptr_t end;
} Scratch;

static Scratch scratch_at(const Attention *attention, uintptr_t at) {
  const size_t value = attention->kernel->value_bytes, depth = rounded_up(attention->width, attention->kernel->depth);
  const size_t rows = rounded_up(attention->rows < BLOCK ? attention->rows : BLOCK, TILE_ROWS);
  const size_t keys = attention->keys.columns;
  Scratch scratch = {cut(&at, rows * depth * value), cut(&at, 2 * rows * keys * value), cut(&at, rows * 4),
                     cut(&at, rows * 4), cut(&at, rows * keys * 4), 0};
  scratch.end = at;
  return scratch;
}

static const float *bias_of(const Attention *attention, size_t text, size_t head, size_t row) {
  const float *bias = attention->bias + head * attention->head_step + row * attention->row_step;
  for (size_t d = attention->text_rank; d--; text /= attention->text_shape[d])
    bias += text % attention->text_shape[d] * attention->text_step[d];
  return bias;
}

// Whether all scores of a key have the same bias.
static int bias_is_of_keys(const Attention *attention) {
  return attention->bias && !attention->head_step && !attention->row_step;
}

// Makes of the scales of keys and values what the scores and their powers are multiplied by.
static void set_scales(const Head *head, size_t first, size_t end, float factor, const float *bias) {
  float finite = *head->finite;
  for (size_t k = first; k < end; k++) {
    finite += head->keys.scale[k] * 0 + head->factor[k] * 0;
    head->keys.scale[k] *= factor;
    // The scale of a value, a normal number.
    uint32_t scale;
    memcpy(&scale, &head->factor[k], sizeof scale);
    const uint32_t exponent = scale >> 23, mantissa = (scale & 0x7fffff) | 126 << 23;
    const uint32_t share = (127 + 126 - exponent) << 23;
    memcpy(&head->factor[k], &mantissa, sizeof mantissa), memcpy(&head->share[k], &share, sizeof share);
    head->factor[k] *= LARGEST_PAIR;
    head->keys.bias[k] = (float)((int32_t)exponent - 126) + (bias ? fmaxf(bias[k] * LOG2_E, LOWEST_SCORE) : 0);
  }
  *head->finite = finite;
}

// Packs some heads of a text, row by row, as they are in memory.
static void pack_heads(const Attention *attention, size_t text, size_t first, size_t end) {
  const Kernel *kernel = attention->kernel;
  const Layer *layer = &attention->keys;
  const size_t keys = attention->key_count, width = attention->width, row_size = attention->kv_heads * width;
  // Plain C's weights are one panel.
  const size_t panel = kernel->pack ? kernel->panel : layer->columns, panel_size = panel * rounded_up(width, kernel->depth);
  const size_t whole = keys / panel, panels = (layer->columns + panel - 1) / panel;
  const float *bias = bias_is_of_keys(attention) ? bias_of(attention, text, 0, 0) : NULL;
  for (size_t h = first; h < end; h++) {
    const Head head = packed_head(attention, text, h);
    memset(head.keys.weights + whole * panel_size, 0, (panels - whole) * panel_size);
    memset(head.rows + keys * width, 0, (layer->columns - keys) * width);
    for (size_t k = keys; k < layer->columns; k++) {
      head.keys.start[k] = 0, head.keys.bias[k] = LOWEST_SCORE;
      head.keys.scale[k] = head.factor[k] = head.share[k] = 0;
    }
    *head.finite = 0;
  }
  for (size_t k = 0; k < keys; k += panel)
    for (size_t h = first; h < end; h++) {
      const Head head = packed_head(attention, text, h);
      const size_t from = (text * keys + k) * row_size + h * width, count = keys - k < panel ? keys - k : panel;
      const Columns key = {count, attention->key + from, row_size, head.keys.weights + k / panel * panel_size,
                           kernel->depth, panel * kernel->depth, head.keys.scale + k, head.keys.start + k};
      const Columns value = {count, attention->value + from, row_size, head.rows + k * width,
                             width, kernel->depth, head.factor + k, NULL};
      kernel->quantize_columns(layer, &key);
      kernel->quantize_columns(layer, &value);
      set_scales(&head, k, k + count, attention->factor, bias);
    }
  for (size_t h = first; kernel->pack && h < end; h++) {
    Head head = packed_head(attention, text, h);
    Layer values = attention->values;
    values.weights = head.rows;
    kernel->pack(&values, &head.values, 0);
  }
}

static void pack_task(void *data, size_t task) {
  const Attention *attention = data;
  const size_t of_text = attention->tasks_of_text, first = task % of_text * attention->units_of_task;
  const size_t end = first + attention->units_of_task, heads = attention->kv_heads;
  pack_heads(attention, task / of_text, first, end < heads ? end : heads);
}

// Computes a block of rows of a head.
static void attend(const Attention *attention, size_t index, const Scratch *scratch) {
  const Kernel *kernel = attention->kernel;
  const size_t width = attention->width, heads = attention->heads, row_size = heads * width, panel = kernel->panel;
  const size_t first = index % attention->blocks * BLOCK, left = attention->rows - first, rows = left < BLOCK ? left : BLOCK;
  const size_t h = index / attention->blocks % heads, text = index / attention->blocks / heads;
  const size_t start = (text * attention->rows + first) * row_size + h * width;
  const Head head = packed_head(attention, text, h * attention->kv_heads / heads);
  Layer keys = attention->keys, values = attention->values;
  keys.weights = head.keys.weights, values.weights = head.rows;
  const Run scores = {.layer = &keys, .packed = &head.keys, .rows = rows, .input = attention->query + start,
                      .input_step = row_size, .outputs = {scratch->scores}, .output_step = {keys.columns},
                      .values = scratch->queries, .scales = scratch->query_scales,
                      .outliers = scratch->query_scales};  // none, but pointers move
  kernel->quantize(&scores, 0, rows);
  kernel->multiply(&scores, 0, (keys.columns + panel - 1) / panel, 0, rows);
  const int has_bias = attention->bias && !bias_is_of_keys(attention);
  const Softmax softmax = {rows, attention->key_count, keys.columns, scratch->scores,
                           has_bias ? bias_of(attention, text, h, first) : NULL, attention->row_step,
                           head.factor, head.share, scratch->powers, scratch->power_scales};
  kernel->weigh(&softmax);
  for (size_t r = 0; r < rows; r++) scratch->power_scales[r] += scratch->query_scales[r] * 0 + *head.finite;
  const Run means = {.layer = &values, .packed = &head.values, .rows = 2 * rows, .outputs = {attention->output + start},
                     .output_step = {row_size}, .values = scratch->powers, .scales = scratch->power_scales};
  kernel->multiply(&means, 0, (width + panel - 1) / panel, 0, 2 * rows);
}

static void attend_task(void *data, size_t task) {
  Attention *attention = data;
  const size_t units = attention->texts * attention->heads * attention->blocks, first = task * attention->units_of_task;
  void *memory = aligned_alloc(64, scratch_at(attention, 0).end);
  if (memory) {
    const Scratch scratch = scratch_at(attention, (uintptr_t)memory);
    for (size_t u = first; u < first + attention->units_of_task && u < units; u++) attend(attention, u, &scratch);
  } else {
    __atomic_store_n(&attention->lacks_memory, 1, __ATOMIC_RELAXED);
  }
  free(memory);
}

// Runs what has sizes and pointers. Returns 0 if there is no memory.
static int run_attention(OrtApi api, const OrtKernelContext *context, Attention attention, OrtStatus **status) {
  const size_t keys = rounded_up(attention.key_count, attention.kernel->key_step), width = attention.width;
  const size_t rows = attention.rows < BLOCK ? attention.rows : BLOCK, head_values = 2 * attention.key_count * width;
  attention.keys = (Layer){.inner = width, .columns = keys, .output_count = 1, .width = {keys}, .scaled = 1};
  attention.keys.least_scale = 1e-30f;
  attention.values = (Layer){.inner = keys, .columns = width, .output_count = 1, .width = {width}, .halves = 1};
  attention.factor *= LOG2_E, attention.head_size = head_at(&attention, 0).end;
  const size_t heads = attention.texts * attention.kv_heads;
  void *memory = aligned_alloc(64, heads * attention.head_size);
  if (!memory) return 0;
  attention.memory = (uintptr_t)memory;
  attention.units_of_task = 1 + TASK_VALUES / (head_values + 1);
  attention.tasks_of_text = (attention.kv_heads - 1) / attention.units_of_task + 1;
  *status = for_each(api, heads * head_values < QUANTIZE_ALONE ? NULL : context, pack_task,
                     attention.texts * attention.tasks_of_text, &attention);
  attention.blocks = (attention.rows + BLOCK - 1) / BLOCK;
  attention.units_of_task = 1 + TASK_PRODUCTS / (3 * rows * keys * width + 1);
  const size_t tasks = (attention.texts * attention.heads * attention.blocks - 1) / attention.units_of_task + 1;
  if (!*status) *status = for_each(api, context, attend_task, tasks, &attention);
  free(memory);
  return !attention.lacks_memory;
}

// Of the tests. `sizes` are the first six of Attention, then the steps of BIAS from a text, a head, and a row to the next.
// Returns 0 if the processor lacks the kernel, or without memory.
EXPORTED int attention_rows_run(const char *name, const size_t *sizes, float factor, const float *const *inputs,
                                float *output) {
  OrtStatus *status;
  const Attention attention = {
      kernel_of(name), sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], factor, .query = inputs[QUERY],
      .key = inputs[KEY], .value = inputs[VALUE], .bias = inputs[BIAS], .text_rank = 1, .text_shape = {sizes[0]},
      .text_step = {sizes[6]}, .head_step = sizes[7], .row_step = sizes[8], .output = output};
  return attention.kernel && run_attention(NULL, NULL, attention, &status);
}

// --- A node

static OrtStatus *read_attributes(const OrtKernelInfo *info, Node *node) {
  const Operator *operator = &node->operator;
  node->heads = 1, node->factor = NAN;
  TRY(whole_number(operator, info, "heads", 1, INT32_MAX, &node->heads));
  node->kv_heads = node->heads;
  TRY(whole_number(operator, info, "kv_heads", 1, INT32_MAX, &node->kv_heads));
  if (node->heads % node->kv_heads)
    return refused(operator, "kv_heads must divide the %d heads; found: %d", node->heads, node->kv_heads);
  read_number(operator, info, "factor", &node->factor);
  return find_input(operator, info, BIAS, &node->has_bias);
}

static OrtStatus *create(const OrtCustomOp *op, OrtApi api, const OrtKernelInfo *info, void **kernel) {
  (void)op;
  const Operator operator = {api, "AttentionRows", input_names};
  Node *node = calloc(1, sizeof *node);
  if (!node) return refused(&operator, "no memory for a node");
  node->operator = operator, node->kernel = kernel_of(NULL);
  OrtStatus *status = read_attributes(info, node);
  if (status) free(node);
  else *kernel = node;
  return status;
}

// Reads BIAS: the dimensions before QUERY's rows, perhaps the heads, the rows, and the keys.
static OrtStatus *read_bias(const Operator *operator, const OrtKernelContext *context, Attention *attention) {
  const size_t texts = attention->text_rank;
  int64_t shape[MOST_RANK + 1], step = 1;
  size_t rank;
  TRY(read_input(operator, context, BIAS, texts + 2, texts + 3, &attention->bias, &rank, shape));
  if ((size_t)shape[rank - 1] != attention->key_count)
    return refused(operator, "BIAS must have the %zu keys for columns; found: %ld", attention->key_count, shape[rank - 1]);
  for (size_t d = rank - 1; d--;) {
    step *= shape[d + 1];
    const int of_rows = d == rank - 2, of_heads = !of_rows && d == texts;
    const size_t size = of_rows ? attention->rows : of_heads ? attention->heads : attention->text_shape[d];
    if (shape[d] != 1 && (size_t)shape[d] != size)
      return refused(operator, "BIAS must have %zu or 1 in dimension %zu; found: %ld", size, d, shape[d]);
    size_t *to = of_rows ? &attention->row_step : of_heads ? &attention->head_step : &attention->text_step[d];
    *to = shape[d] == 1 ? 0 : (size_t)step;
  }
  return NULL;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
  const Node *node = kernel;
  const Operator *operator = &node->operator;
  const int64_t heads = node->heads;
  int64_t shape[MOST_RANK], other[MOST_RANK], of_value[MOST_RANK];
  size_t rank;
  Attention attention = {.kernel = node->kernel, .texts = 1, .heads = (size_t)heads};
  attention.kv_heads = (size_t)node->kv_heads;
  TRY(read_input(operator, context, QUERY, 2, MOST_RANK, &attention.query, &rank, shape));
  if (shape[rank - 1] < 1 || shape[rank - 1] % heads || shape[rank - 1] / heads > LARGEST_INNER)
    return refused(operator, "QUERY must have 1 to %d columns for each of %ld heads; found: %ld", LARGEST_INNER, heads,
                   shape[rank - 1]);
  attention.rows = (size_t)shape[rank - 2], attention.width = (size_t)(shape[rank - 1] / heads);
  for (size_t d = 0; d + 2 < rank; d++) attention.texts *= attention.text_shape[d] = (size_t)shape[d];
  attention.text_rank = rank - 2;
  attention.factor = isnan(node->factor) ? 1 / sqrtf((float)attention.width) : node->factor;
  TRY(read_input(operator, context, KEY, rank, rank, &attention.key, &rank, other));
  if (memcmp(shape, other, (rank - 2) * sizeof *shape))
    return refused(operator, "KEY must have the dimensions of QUERY before its rows");
  if (other[rank - 2] < 1 || other[rank - 2] > LARGEST_INNER)
    return refused(operator, "KEY must have 1 to %d rows; found: %ld", LARGEST_INNER, other[rank - 2]);
  if (other[rank - 1] != (int64_t)attention.width * node->kv_heads)
    return refused(operator, "KEY must have %zu columns for each of %d heads; found: %ld", attention.width,
                   node->kv_heads, other[rank - 1]);
  attention.key_count = (size_t)other[rank - 2];
  TRY(read_input(operator, context, VALUE, rank, rank, &attention.value, &rank, of_value));
  if (memcmp(other, of_value, rank * sizeof *other)) return refused(operator, "VALUE must have the shape of KEY");
  if (node->has_bias) TRY(read_bias(operator, context, &attention));
  OrtValue *output = NULL;
  TRY(ORT(operator->api, KernelContext_GetOutput)(context, 0, shape, rank, &output));
  TRY(ORT(operator->api, GetTensorMutableData)(output, &attention.output));
  OrtStatus *status = NULL;
  if (attention.texts && attention.rows && !run_attention(operator->api, context, attention, &status) && !status)
    return refused(operator, "no memory for %zu rows and %zu keys", attention.rows, attention.key_count);
  return status;
}

static const char *name(const OrtCustomOp *op) { (void)op; return "AttentionRows"; }
static size_t input_count(const OrtCustomOp *op) { (void)op; return INPUTS; }
static size_t output_count(const OrtCustomOp *op) { (void)op; return 1; }
static int input_type(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return ORT_FLOAT; }
static int input_need(const OrtCustomOp *op, size_t i) { (void)op; return i == BIAS ? ORT_OPTIONAL : ORT_REQUIRED; }

const OrtCustomOp attention_rows = {
    PARTS_OF_EACH_OPERATOR, .GetName = name, .GetInputType = input_type, .GetInputTypeCount = input_count,
    .GetOutputTypeCount = output_count, .KernelDestroy = free, .GetInputCharacteristic = input_need,
    .CreateKernelV2 = create, .KernelComputeV2 = compute};
