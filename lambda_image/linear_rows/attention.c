// The operator AttentionRows: softmax(QUERY · KEYᵀ · factor + BIAS) · VALUE of each head, as two products in int8. The keys of a
// head are the weights of a layer whose rows are the queries, and its values those of a layer whose rows are the powers of
// the scores. The scale of a value row is 2^exponent · mantissa. The exponent is added to a score, so the largest power of a
// row counts 1/2 to 1 in the product; the mantissa is a factor there, and 2^-exponent one in the sum that divides the product.
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
  size_t blocks, units_of_task;
  int lacks_memory;
} Attention;

// The packed keys and values of a head of a text.
typedef struct Head {
  Packed keys, values;
  int8_t *rows;                      // the quantized values; a row is written up to a whole vector
  float *factor, *share, *finite;    // see Softmax; 0, or NaN if a key or value is not finite
  uintptr_t end;
} Head;

static void *piece(uintptr_t *memory, size_t size) {
  void *piece = (void *)*memory;
  *memory += rounded_up(size, 64);
  return piece;
}

static Head head_at(const Attention *attention, uintptr_t at) {
  const Kernel *kernel = attention->kernel;
  const size_t keys = attention->keys.columns, columns = rounded_up(keys, kernel->panel);
  const size_t width = rounded_up(attention->width, kernel->panel), depth = rounded_up(attention->width, kernel->depth);
  Head head = {{piece(&at, columns * depth), piece(&at, columns * 4), piece(&at, columns * 4), piece(&at, columns * 4), NULL, NULL},
               {piece(&at, kernel->pack ? keys * width : 0), piece(&at, width * 4), NULL, NULL, NULL, NULL},
               piece(&at, keys * attention->width + 16), piece(&at, keys * 4), piece(&at, keys * 4), piece(&at, 4), 0};
  head.end = at;
  return head;
}

// A task's memory: of a block of rows.
typedef struct Scratch {
  int8_t *queries, *powers;          // quantized
  float *query_scales, *power_scales, *scores;
  uintptr_t end;
} Scratch;

static Scratch scratch_at(const Attention *attention, uintptr_t at) {
  const Kernel *kernel = attention->kernel;
  const size_t keys = attention->keys.columns, depth = rounded_up(attention->width, kernel->depth);
  const size_t rows = rounded_up(attention->rows < BLOCK ? attention->rows : BLOCK, TILE_ROWS);
  Scratch scratch = {piece(&at, rows * depth * kernel->value_bytes), piece(&at, 2 * rows * keys * kernel->value_bytes),
                     piece(&at, rows * 4), piece(&at, rows * 4), piece(&at, rows * keys * 4), 0};
  scratch.end = at;
  return scratch;
}

static Head packed_head(const Attention *attention, size_t index) {
  return head_at(attention, attention->memory + index * head_at(attention, 0).end);
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

static void pack_head(const Attention *attention, size_t index) {
  const Kernel *kernel = attention->kernel;
  const size_t key_count = attention->key_count, width = attention->width, row_size = attention->kv_heads * width;
  const size_t text = index / attention->kv_heads, start = (text * key_count * attention->kv_heads + index % attention->kv_heads) * width;
  const float *key = attention->key + start, *value = attention->value + start;
  const float *bias = bias_is_of_keys(attention) ? bias_of(attention, text, 0, 0) : NULL;
  Layer keys = attention->keys, values = attention->values;
  Head head = packed_head(attention, index);
  // Plain C's weights are one panel.
  const size_t panel = kernel->pack ? kernel->panel : keys.columns, panel_size = panel * rounded_up(width, kernel->depth);
  const size_t whole = key_count / panel, panels = (keys.columns + panel - 1) / panel;
  memset(head.keys.weights + whole * panel_size, 0, (panels - whole) * panel_size);
  memset(head.rows + key_count * width, 0, (keys.columns - key_count) * width);
  *head.finite = 0;
  for (size_t k = 0; k < keys.columns; k++) {
    if (k >= key_count) {
      head.keys.start[k] = 0, head.keys.scale[k] = head.factor[k] = head.share[k] = 0, head.keys.bias[k] = LOWEST_SCORE;
      continue;
    }
    int32_t unused;
    int8_t *to = head.keys.weights + k / panel * panel_size + k % panel * kernel->depth;
    const float key_scale = kernel->quantize_row(&keys, key + k * row_size, to, panel * kernel->depth, &head.keys.start[k]);
    float scale = kernel->quantize_row(&keys, value + k * row_size, head.rows + k * width, kernel->depth, &unused);
    *head.finite += key_scale * 0 + scale * 0;
    if (isnan(scale)) scale = 1;
    int exponent;
    head.factor[k] = frexpf(scale, &exponent) * LARGEST_PAIR, head.share[k] = ldexpf(1, -exponent);
    head.keys.scale[k] = key_scale * attention->factor;
    head.keys.bias[k] = (float)exponent + (bias ? fmaxf(bias[k] * LOG2_E, LOWEST_SCORE) : 0);
  }
  values.weights = head.rows;
  if (kernel->pack) kernel->pack(&values, &head.values, 0);
}

static void pack_task(void *data, size_t task) {
  const Attention *attention = data;
  const size_t end = (task + 1) * attention->units_of_task, heads = attention->texts * attention->kv_heads;
  for (size_t head = task * attention->units_of_task; head < end && head < heads; head++) pack_head(attention, head);
}

// Computes a block of rows of a head.
static void attend(const Attention *attention, size_t index, const Scratch *scratch) {
  const Kernel *kernel = attention->kernel;
  const size_t width = attention->width, keys = attention->keys.columns, heads = attention->heads;
  const size_t first = index % attention->blocks * BLOCK, left = attention->rows - first, rows = left < BLOCK ? left : BLOCK;
  const size_t head = index / attention->blocks % heads, text = index / attention->blocks / heads;
  const size_t start = ((text * attention->rows + first) * heads + head) * width;
  const Head packed = packed_head(attention, text * attention->kv_heads + head * attention->kv_heads / heads);
  Layer key_layer = attention->keys, value_layer = attention->values;
  key_layer.weights = packed.keys.weights, value_layer.weights = packed.rows;
  const Run scores = {.layer = &key_layer, .packed = &packed.keys, .rows = rows, .input = attention->query + start,
                      .outputs = {scratch->scores}, .input_step = heads * width, .output_step = {keys},
                      .values = scratch->queries, .scales = scratch->query_scales};
  kernel->quantize(&scores, 0, rows);
  kernel->multiply(&scores, 0, (keys + kernel->panel - 1) / kernel->panel, 0, rows);
  Softmax softmax = {.rows = rows, .keys = attention->key_count, .scores = scratch->scores, .bias_step = attention->row_step,
                     .factor = packed.factor, .share = packed.share, .values = scratch->powers, .scales = scratch->power_scales};
  if (attention->bias && !bias_is_of_keys(attention)) softmax.bias = bias_of(attention, text, head, first);
  kernel->weigh(&softmax);
  for (size_t r = 0; r < rows; r++) softmax.scales[r] += scores.scales[r] * 0 + *packed.finite;
  const Run means = {.layer = &value_layer, .packed = &packed.values, .rows = 2 * rows, .outputs = {attention->output + start},
                     .output_step = {heads * width}, .values = softmax.values, .scales = softmax.scales};
  kernel->multiply(&means, 0, (width + kernel->panel - 1) / kernel->panel, 0, 2 * rows);
}

static void attend_task(void *data, size_t task) {
  Attention *attention = data;
  const size_t end = (task + 1) * attention->units_of_task, units = attention->texts * attention->heads * attention->blocks;
  void *memory = aligned_alloc(64, scratch_at(attention, 0).end);
  if (!memory) {
    __atomic_store_n(&attention->lacks_memory, 1, __ATOMIC_RELAXED);
    return;
  }
  const Scratch scratch = scratch_at(attention, (uintptr_t)memory);
  for (size_t unit = task * attention->units_of_task; unit < end && unit < units; unit++) attend(attention, unit, &scratch);
  free(memory);
}

// Runs what has sizes and pointers. Returns 0 if there is no memory.
static int run_attention(OrtApi api, const OrtKernelContext *context, Attention attention, OrtStatus **status) {
  const size_t keys = rounded_up(attention.key_count, GROUP), width = attention.width;
  const size_t heads = attention.texts * attention.kv_heads, head_values = 2 * attention.key_count * width;
  attention.keys = (Layer){.inner = width, .columns = keys, .output_count = 1, .width = {keys}, .least_scale = 1e-30f, .scaled = 1};
  attention.values = (Layer){.inner = keys, .columns = width, .output_count = 1, .width = {width}, .halves = 1};
  attention.factor *= LOG2_E;
  void *memory = aligned_alloc(64, heads * head_at(&attention, 0).end);
  if (!memory) return 0;
  attention.memory = (uintptr_t)memory;
  attention.units_of_task = 1 + TASK_VALUES / (head_values + 1);
  *status = for_each(api, heads * head_values < QUANTIZE_ALONE ? NULL : context, pack_task,
                     (heads + attention.units_of_task - 1) / attention.units_of_task, &attention);
  attention.blocks = (attention.rows + BLOCK - 1) / BLOCK;
  attention.units_of_task = 1 + TASK_PRODUCTS / (3 * keys * width * (attention.rows < BLOCK ? attention.rows : BLOCK) + 1);
  const size_t units = attention.texts * attention.heads * attention.blocks;
  if (!*status)
    *status = for_each(api, context, attend_task, (units + attention.units_of_task - 1) / attention.units_of_task, &attention);
  free(memory);
  return !attention.lacks_memory;
}

// Of the tests: `sizes` are the first six of Attention, and the steps of BIAS from a text, head and row to the next. Returns 0 if
// the processor lacks the kernel, or without memory.
EXPORTED int attention_rows_run(const char *name, const size_t *sizes, float factor, const float *const *inputs, float *output) {
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

// Reads BIAS, whose dimensions are those of QUERY's rows and the keys, perhaps with the heads before the rows.
static OrtStatus *read_bias(const Operator *operator, const OrtKernelContext *context, Attention *attention) {
  int64_t shape[MOST_RANK + 1], step = 1;
  size_t rank, lead = attention->text_rank;
  TRY(read_input(operator, context, BIAS, lead + 2, lead + 3, &attention->bias, &rank, shape));
  for (size_t d = rank; d--; step *= shape[d]) {
    const int of_heads = rank == lead + 3 && d == lead;
    const size_t size = d == rank - 1 ? attention->key_count : d == rank - 2 ? attention->rows : of_heads ? attention->heads : attention->text_shape[d];
    if ((size_t)shape[d] != size && (shape[d] != 1 || d == rank - 1))
      return refused(operator, "BIAS must have %zu in dimension %zu%s; found: %ld", size, d, d == rank - 1 ? "" : ", or 1", shape[d]);
    size_t unused, *to = d == rank - 1 ? &unused : d == rank - 2 ? &attention->row_step : of_heads ? &attention->head_step : &attention->text_step[d];
    *to = shape[d] == 1 ? 0 : (size_t)step;
  }
  return NULL;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
  const Node *node = kernel;
  const Operator *operator = &node->operator;
  const int64_t heads = node->heads;
  int64_t shape[MOST_RANK], other[MOST_RANK];
  size_t rank;
  Attention attention = {.kernel = node->kernel, .texts = 1, .heads = (size_t)heads, .kv_heads = (size_t)node->kv_heads};
  TRY(read_input(operator, context, QUERY, 2, MOST_RANK, &attention.query, &rank, shape));
  if (shape[rank - 1] < 1 || shape[rank - 1] % heads)
    return refused(operator, "QUERY must have columns for each of the %ld heads; found: %ld", heads, shape[rank - 1]);
  attention.rows = (size_t)shape[rank - 2], attention.width = (size_t)(shape[rank - 1] / heads);
  for (size_t d = 0; d + 2 < rank; d++)
    attention.texts *= attention.text_shape[d] = (size_t)shape[d];
  attention.text_rank = rank - 2;
  attention.factor = isnan(node->factor) ? 1 / sqrtf((float)attention.width) : node->factor;
  TRY(read_input(operator, context, KEY, rank, rank, &attention.key, &rank, other));
  if (memcmp(shape, other, (rank - 2) * sizeof *shape))
    return refused(operator, "KEY must have the dimensions of QUERY before its rows");
  if (other[rank - 2] < 1 || other[rank - 2] > LARGEST_INNER)
    return refused(operator, "KEY must have 1 to %d rows; found: %ld", LARGEST_INNER, other[rank - 2]);
  if (other[rank - 1] != (int64_t)attention.width * node->kv_heads)
    return refused(operator, "KEY must have %zu columns for each of %d heads; found: %ld", attention.width, node->kv_heads,
                   other[rank - 1]);
  attention.key_count = (size_t)other[rank - 2];
  int64_t of_value[MOST_RANK];
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
