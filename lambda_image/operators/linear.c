// The operator LinearRows. It packs its weights when a session starts.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "node.h"

enum { INPUT, WEIGHTS, SCALE, OUTLIERS, BIAS, RESIDUAL, GAIN, INPUTS };
enum { BLOCK = 128 };  // rows of a task: with a panel they fit in a core's caches
static const char *const input_names[INPUTS] = {"INPUT", "WEIGHTS", "SCALE", "OUTLIERS", "BIAS", "RESIDUAL", "GAIN"};

typedef struct Node {
  Operator operator;
  const Kernel *kernel;
  Layer layer;
  Packed packed;
  void *memory;                // of `packed`
  int has_residual;
} Node;

// Returns the memory of `packed`, for free(); null if there is none.
static void *packed_memory(const Kernel *kernel, const Layer *layer, Packed *packed) {
  const size_t wide = rounded_up(layer->columns, kernel->panel), rows = 4 + layer->outliers;
  const size_t weights = kernel->pack ? rounded_up(rounded_up(layer->inner, kernel->depth) * wide, 64) : 0;
  int8_t *memory = aligned_alloc(64, rounded_up(weights + rows * wide * sizeof(float), 64));
  if (!memory) return NULL;
  packed->weights = memory, packed->start = (int32_t *)(memory + weights);
  float *row = (float *)packed->start + wide;
  memset(row, 0, (rows - 1) * wide * sizeof *row);
  packed->scale = memcpy(row, layer->scale, layer->columns * sizeof *row), row += wide;
  packed->bias = row, row += wide;
  if (layer->bias) memcpy(packed->bias, layer->bias, layer->columns * sizeof *row);
  packed->gain = row, row += wide;
  for (size_t c = 0; c < layer->columns; c++) packed->gain[c] = layer->gain ? layer->gain[c] : 1;
  packed->outlier_weights = row;
  for (size_t o = 0; o < layer->outliers; o++, row += wide)
    memcpy(row, layer->outlier_weights + o * layer->columns, layer->columns * sizeof *row);
  if (kernel->pack) kernel->pack(layer, packed, layer->zero_point ? layer->zero_point : 128);
  return memory;
}

// --- A run in tasks

typedef struct Tasks {
  const Kernel *kernel;
  Run run;
  size_t panels, panels_of_task, tasks_of_block;
} Tasks;

static void quantize_task(void *data, size_t task) {
  const Tasks *tasks = data;
  const size_t first = task * BLOCK, rows = tasks->run.rows;
  tasks->kernel->quantize(&tasks->run, first, first + BLOCK < rows ? first + BLOCK : rows);
}

static void multiply_task(void *data, size_t task) {
  const Tasks *tasks = data;
  const size_t row = task / tasks->tasks_of_block * BLOCK, panel = task % tasks->tasks_of_block * tasks->panels_of_task;
  const size_t end = panel + tasks->panels_of_task, rows = tasks->run.rows;
  tasks->kernel->multiply(&tasks->run, panel, end < tasks->panels ? end : tasks->panels, row,
                          row + BLOCK < rows ? row + BLOCK : rows);
}

// `run` has all but the quantized rows. Returns 0 if there is no memory for them.
static int run_layer(OrtApi api, const OrtKernelContext *context, const Kernel *kernel, Run run, OrtStatus **status) {
  const Layer *layer = run.layer;
  const size_t rows = rounded_up(run.rows, TILE_ROWS), depth = rounded_up(layer->inner, kernel->depth);
  const size_t values = rounded_up(rows * depth * kernel->value_bytes, 64);
  int8_t *memory = aligned_alloc(64, rounded_up(values + rows * (1 + layer->outliers) * sizeof(float), 64));
  if (!memory) return 0;
  run.values = memory, run.scales = (float *)(memory + values), run.outliers = run.scales + rows;
  Tasks tasks = {kernel, run, rounded_up(layer->columns, kernel->panel) / kernel->panel, 0, 0};
  const size_t blocks = (run.rows + BLOCK - 1) / BLOCK, most = run.rows < BLOCK ? run.rows : BLOCK;
  tasks.panels_of_task = 1 + TASK_PRODUCTS / (most * depth * kernel->panel + 1);
  tasks.tasks_of_block = (tasks.panels + tasks.panels_of_task - 1) / tasks.panels_of_task;
  *status = for_each(api, run.rows * depth < QUANTIZE_ALONE ? NULL : context, quantize_task, blocks, &tasks);
  if (!*status) *status = for_each(api, context, multiply_task, blocks * tasks.tasks_of_block, &tasks);
  free(memory);
  return 1;
}

// Of the tests: runs a layer by the kernel of a name. Returns 0 if the processor lacks it, or without memory.
EXPORTED int linear_rows_run(const char *name, const Layer *layer, const float *input, const float *residual, size_t rows,
                             float *const *outputs) {
  const Kernel *kernel = kernel_of(name);
  Packed packed;
  OrtStatus *status;
  void *memory = kernel ? packed_memory(kernel, layer, &packed) : NULL;
  if (!memory) return 0;
  Run run = {.layer = layer, .packed = &packed, .rows = rows, .input = input, .residual = residual};
  run.input_step = layer->inner + layer->outliers;
  memcpy(run.outputs, outputs, sizeof run.outputs), memcpy(run.output_step, layer->width, sizeof run.output_step);
  const int done = run_layer(NULL, NULL, kernel, run, &status);
  free(memory);
  return done;
}

// --- A node, when a session starts

// Reads a constant of `rank` dimensions; null if the node has none.
static OrtStatus *constant(const Operator *operator, const OrtKernelInfo *info, size_t input, size_t rank, void *data,
                           int64_t *dimensions) {
  int is_present, is_constant = 0;
  const OrtValue *value = NULL;
  *(void **)data = NULL;
  TRY(find_input(operator, info, input, &is_present));
  if (!is_present) return NULL;
  TRY(ORT(operator->api, KernelInfoGetConstantInput_tensor)(info, input, &is_constant, &value));
  if (!is_constant || !value) return refused(operator, "%s must be a constant", operator->inputs[input]);
  return read_tensor(operator, value, input, rank, rank, data, &rank, dimensions);
}

static OrtStatus *constant_row(const Operator *operator, const OrtKernelInfo *info, size_t input, size_t columns,
                               const float **data) {
  int64_t size;
  TRY(constant(operator, info, input, 1, data, &size));
  if (!*data || (size_t)size == columns) return NULL;
  return refused(operator, "%s must have %zu columns, as WEIGHTS; found: %ld", operator->inputs[input], columns, size);
}

static OrtStatus *read_widths(const Operator *operator, const OrtKernelInfo *info, Layer *layer) {
  int64_t widths[OUTPUTS] = {(int64_t)layer->columns}, sum = 0;
  size_t count = OUTPUTS, outputs;
  // With too small an array this fails, and sets the count.
  OrtStatus *absent = ORT(operator->api, KernelInfoGetAttributeArray_int64)(info, "widths", widths, &count);
  if (absent) {
    ORT(operator->api, ReleaseStatus)(absent);
    if (count <= OUTPUTS) widths[0] = (int64_t)layer->columns, count = 1;
  }
  TRY(ORT(operator->api, KernelInfo_GetOutputCount)(info, &outputs));
  if (count < 1 || count > OUTPUTS || count != outputs)
    return refused(operator, "widths must be 1 to %d, one for each output; found: %zu, and %zu outputs", OUTPUTS, count,
                   outputs);
  layer->output_count = count;
  for (size_t o = 0; o < count; sum += widths[o++]) {
    if (widths[o] < WIDTH_STEP || widths[o] % WIDTH_STEP || widths[o] > (int64_t)layer->columns)
      return refused(operator, "each of widths must be a multiple of %d; found: %ld", WIDTH_STEP, widths[o]);
    layer->width[o] = (size_t)widths[o];
  }
  if (sum == (int64_t)layer->columns) return NULL;
  return refused(operator, "the sum of widths must be the %zu columns of WEIGHTS; found: %ld", layer->columns, sum);
}

static OrtStatus *read_layer(const Operator *operator, const OrtKernelInfo *info, Node *node) {
  Layer *layer = &node->layer;
  int64_t shape[2] = {0};
  TRY(constant(operator, info, WEIGHTS, 2, &layer->weights, shape));
  if (shape[0] < 1 || shape[0] > LARGEST_INNER || shape[1] < 1)
    return refused(operator, "WEIGHTS must have 1 to %d rows, and columns; found: %ld, %ld", LARGEST_INNER, shape[0],
                   shape[1]);
  layer->inner = (size_t)shape[0], layer->columns = (size_t)shape[1];
  TRY(read_widths(operator, info, layer));
  TRY(constant_row(operator, info, SCALE, layer->columns, &layer->scale));
  if (!layer->scale) return refused(operator, "SCALE must be there");
  TRY(constant_row(operator, info, BIAS, layer->columns, &layer->bias));
  TRY(constant_row(operator, info, GAIN, layer->columns, &layer->gain));
  TRY(constant(operator, info, OUTLIERS, 2, &layer->outlier_weights, shape));
  if (layer->outlier_weights) {
    if ((size_t)shape[1] != layer->columns || shape[0] < 1)
      return refused(operator, "OUTLIERS must have rows of the %zu columns of WEIGHTS; found: %ld, %ld", layer->columns,
                     shape[0], shape[1]);
    layer->outliers = (size_t)shape[0];
  }
  layer->scaled = 1, layer->least_scale = 1e-30f;
  TRY(whole_number(operator, info, "zero_point", 0, 254, &layer->zero_point));
  TRY(whole_number(operator, info, "scaled", 0, 1, &layer->scaled));
  TRY(whole_number(operator, info, "activation", 0, 2, &layer->activation));
  TRY(whole_number(operator, info, "product", 0, 1, &layer->product));
  read_number(operator, info, "least", &layer->least_scale);
  // The reciprocal must be a number, too.
  if (!(layer->least_scale >= 1e-37f && layer->least_scale <= 1e37f))
    return refused(operator, "least must be within 1e-37 and 1e37; found: %g", (double)layer->least_scale);
  TRY(find_input(operator, info, RESIDUAL, &node->has_residual));
  if (node->has_residual ? layer->product && layer->gain : layer->product || layer->gain)
    return refused(operator, "product and GAIN each need RESIDUAL, and exclude each other");
  return NULL;
}

// The weights were packed, and stay mapped as long as the session. Gives their memory back to the system's cache of
// files, as far as /proc says that it is the cache's: memory of the process would lose its content.
static void release_pages(const int8_t *weights, size_t size) {
  enum { ENTRIES = 512 };
  const uint64_t of_file = 5ull << 61;  // present, and not anonymous: https://docs.kernel.org/admin-guide/mm/pagemap.html
  uint64_t entries[ENTRIES];
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const size_t end = ((uintptr_t)weights + size) / page;
  const int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  for (size_t first = rounded_up((uintptr_t)weights, page) / page; map >= 0 && first < end; first += ENTRIES) {
    const size_t count = end - first < ENTRIES ? end - first : ENTRIES;
    const size_t bytes = count * sizeof *entries;
    if (pread(map, entries, bytes, (off_t)(first * sizeof *entries)) != (ssize_t)bytes) break;
    for (size_t i = 0, run = 0; i <= count; i++) {
      if (i < count && (entries[i] & of_file) == of_file && !(entries[i] & 1ull << 62)) { run++; continue; }
      if (run) madvise((void *)((first + i - run) * page), run * page, MADV_DONTNEED);
      run = 0;
    }
  }
  if (map >= 0) close(map);
}

static void destroy(void *kernel) {
  free(((Node *)kernel)->memory);
  free(kernel);
}

static OrtStatus *create(const OrtCustomOp *op, OrtApi api, const OrtKernelInfo *info, void **kernel) {
  (void)op;
  const Operator names = {api, "LinearRows", input_names}, *operator = &names;
  Node *node = calloc(1, sizeof *node);
  if (!node) return refused(operator, "no memory for a node");
  node->operator = names, node->kernel = kernel_of(NULL);
  OrtStatus *status = read_layer(operator, info, node);
  if (!status && !(node->memory = packed_memory(node->kernel, &node->layer, &node->packed)))
    status = refused(operator, "no memory for weights of %zu x %zu", node->layer.inner, node->layer.columns);
  if (!status && node->kernel->pack) release_pages(node->layer.weights, node->layer.inner * node->layer.columns);
  if (status) destroy(node);
  else *kernel = node;
  return status;
}

// --- A node's run

// Reads an input whose last dimension must be `columns`.
static OrtStatus *computed(const Operator *operator, OrtKernelContext *context, size_t input, size_t columns, void *data,
                           size_t *rank, int64_t *dimensions) {
  TRY(read_input(operator, context, input, 1, MOST_RANK, data, rank, dimensions));
  if ((size_t)dimensions[*rank - 1] == columns) return NULL;
  return refused(operator, "%s must have %zu columns; found: %ld", operator->inputs[input], columns, dimensions[*rank - 1]);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
  const Node *node = kernel;
  const Layer *layer = &node->layer;
  const Operator *operator = &node->operator;
  Run run = {.layer = layer, .packed = &node->packed, .rows = 1, .input_step = layer->inner + layer->outliers};
  int64_t shape[MOST_RANK], other[MOST_RANK];
  size_t rank, other_rank;
  TRY(computed(operator, context, INPUT, run.input_step, &run.input, &rank, shape));
  for (size_t i = 0; i + 1 < rank; i++) run.rows *= (size_t)shape[i];
  if (node->has_residual) {
    TRY(computed(operator, context, RESIDUAL, layer->columns, &run.residual, &other_rank, other));
    if (rank != other_rank || memcmp(shape, other, (rank - 1) * sizeof *shape))
      return refused(operator, "RESIDUAL must have the rows of INPUT");
  }
  for (size_t o = 0; o < layer->output_count; o++) {
    OrtValue *output = NULL;
    shape[rank - 1] = (int64_t)layer->width[o];
    TRY(ORT(operator->api, KernelContext_GetOutput)(context, o, shape, rank, &output));
    if (!output) return refused(operator, "output %zu must have a name", o);
    TRY(ORT(operator->api, GetTensorMutableData)(output, &run.outputs[o]));
    run.output_step[o] = layer->width[o];
  }
  OrtStatus *status = NULL;
  if (run.rows && !run_layer(operator->api, context, node->kernel, run, &status))
    return refused(operator, "no memory for %zu rows", run.rows);
  return status;
}

static const char *name(const OrtCustomOp *op) { (void)op; return "LinearRows"; }
static size_t input_count(const OrtCustomOp *op) { (void)op; return INPUTS; }
static size_t output_count(const OrtCustomOp *op) { (void)op; return OUTPUTS; }
static int input_type(const OrtCustomOp *op, size_t i) { (void)op; return i == WEIGHTS ? ORT_INT8 : ORT_FLOAT; }
static int input_need(const OrtCustomOp *op, size_t i) { (void)op; return i > SCALE ? ORT_OPTIONAL : ORT_REQUIRED; }

const OrtCustomOp linear_rows = {
    PARTS_OF_EACH_OPERATOR, .GetName = name, .GetInputType = input_type, .GetInputTypeCount = input_count,
    .GetOutputTypeCount = output_count, .KernelDestroy = destroy, .GetInputCharacteristic = input_need,
    .CreateKernelV2 = create, .KernelComputeV2 = compute};
