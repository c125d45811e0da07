// The operator for ONNX Runtime: LinearRows of the domain `embedding_kit`. It packs its weights when a session starts.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "layer.h"
#include "onnxruntime_abi.h"
#ifdef __aarch64__
#include <sys/auxv.h>
#else
#include <cpuid.h>
#endif

#define EXPORTED __attribute__((visibility("default")))
#define TRY(call) do { OrtStatus *failure = (call); if (failure) return failure; } while (0)
enum { INPUT, WEIGHTS, SCALE, OUTLIERS, BIAS, RESIDUAL, GAIN, INPUTS };
enum {
  MOST_RANK = 8,
  BLOCK = 128,                 // rows of a task: with a panel they fit in a core's caches
  TASK_PRODUCTS = 1 << 21,     // a task has about so many or more: some 10 µs, as a thread takes to wake up
  QUANTIZE_ALONE = 1 << 17,    // fewer values are quantized before other threads would wake up
};
static const char *const input_names[INPUTS] = {"INPUT", "WEIGHTS", "SCALE", "OUTLIERS", "BIAS", "RESIDUAL", "GAIN"};

// By which a test finds out of which sources a library is.
EXPORTED const char linear_rows_sources[] = SOURCES;

typedef struct Node {
  OrtApi api;
  const Kernel *kernel;
  Layer layer;
  Packed packed;
  void *memory;                // of `packed`
  int has_residual;
} Node;

// --- Kernels

static int processor_has(const Kernel *kernel) {
#ifdef __aarch64__
  enum { HWCAP_DOT = 1 << 20, HWCAP2_INT8_PRODUCTS = 1 << 13 };
  if (kernel == &dot_kernel) return (getauxval(AT_HWCAP) & HWCAP_DOT) != 0;
  if (kernel == &i8mm_kernel) return (getauxval(AT_HWCAP) & HWCAP_DOT) && (getauxval(AT_HWCAP2) & HWCAP2_INT8_PRODUCTS);
#else
  if (kernel == &vnni_kernel) {
    enum { OSXSAVE = 1 << 27, VNNI = 1 << 11, AVX512_STATE = 0xe6 };
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;  // F, DQ, BW, VL
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return 0;
    __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));  // which registers the system saves
    if ((a & AVX512_STATE) != AVX512_STATE || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    return (b & avx512) == avx512 && (c & VNNI);
  }
#endif
  return 1;
}

static const Kernel *const kernels[] = {
#ifdef __aarch64__
    &i8mm_kernel, &dot_kernel,
#else
    &vnni_kernel,
#endif
    &plain_kernel};

// The best kernel of this processor, or the one of a name; null if the processor lacks it.
static const Kernel *kernel_of(const char *name) {
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    if ((!name || !strcmp(name, kernels[i]->name)) && processor_has(kernels[i])) return kernels[i];
  return NULL;
}

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
  if (kernel->pack) kernel->pack(layer, packed);
  return memory;
}

// --- A run in tasks, which threads share: bits do not depend on who runs a task.

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

// Runs tasks on the session's threads; without a context, on this one.
static OrtStatus *for_each(OrtApi api, const OrtKernelContext *context, void (*task)(void *, size_t), size_t count,
                           Tasks *tasks) {
  if (context && count > 1) return ORT(api, KernelContext_ParallelFor)(context, task, count, 0, tasks);
  for (size_t i = 0; i < count; i++) task(tasks, i);
  return NULL;
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
  memcpy(run.outputs, outputs, sizeof run.outputs);
  const int done = run_layer(NULL, NULL, kernel, run, &status);
  free(memory);
  return done;
}

// --- A node, when a session starts

static OrtStatus *refused(OrtApi api, const char *format, ...) {
  char message[256] = "LinearRows: ";
  const size_t used = strlen(message);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message + used, sizeof message - used, format, arguments);
  va_end(arguments);
  return ORT(api, CreateStatus)(ORT_INVALID_ARGUMENT, message);
}

// Reads the data and the shape of a tensor whose rank must be within [least, most].
static OrtStatus *read_tensor(OrtApi api, const OrtValue *value, size_t input, size_t least, size_t most, void *data,
                              size_t *rank, int64_t *dimensions) {
  OrtShape *shape;
  TRY(ORT(api, GetTensorMutableData)(value, data));
  TRY(ORT(api, GetTensorTypeAndShape)(value, &shape));
  OrtStatus *status = ORT(api, GetDimensionsCount)(shape, rank);
  if (!status && (*rank < least || *rank > most))
    status = refused(api, "%s must have a rank of %zu to %zu; found: %zu", input_names[input], least, most, *rank);
  if (!status) status = ORT(api, GetDimensions)(shape, dimensions, *rank);
  ORT(api, ReleaseTensorTypeAndShapeInfo)(shape);
  return status;
}

static OrtStatus *find_input(OrtApi api, const OrtKernelInfo *info, size_t input, int *is_present) {
  size_t count, name_size = 0;
  TRY(ORT(api, KernelInfo_GetInputCount)(info, &count));
  if (input < count) TRY(ORT(api, KernelInfo_GetInputName)(info, input, NULL, &name_size));
  *is_present = name_size > 1;  // not an empty name and its end
  return NULL;
}

// Reads a constant of `rank` dimensions; null if the node has none.
static OrtStatus *constant(OrtApi api, const OrtKernelInfo *info, size_t input, size_t rank, void *data,
                           int64_t *dimensions) {
  int is_present, is_constant = 0;
  const OrtValue *value = NULL;
  *(void **)data = NULL;
  TRY(find_input(api, info, input, &is_present));
  if (!is_present) return NULL;
  TRY(ORT(api, KernelInfoGetConstantInput_tensor)(info, input, &is_constant, &value));
  if (!is_constant || !value) return refused(api, "%s must be a constant", input_names[input]);
  return read_tensor(api, value, input, rank, rank, data, &rank, dimensions);
}

static OrtStatus *constant_row(OrtApi api, const OrtKernelInfo *info, size_t input, size_t columns, const float **data) {
  int64_t size;
  TRY(constant(api, info, input, 1, data, &size));
  if (!*data || (size_t)size == columns) return NULL;
  return refused(api, "%s must have %zu columns, as WEIGHTS; found: %ld", input_names[input], columns, size);
}

// Reads a whole number within [0, most]; without the attribute, `value` stays.
static OrtStatus *whole_number(OrtApi api, const OrtKernelInfo *info, const char *name, int64_t most, int32_t *value) {
  int64_t number = *value;
  OrtStatus *absent = ORT(api, KernelInfoGetAttribute_int64)(info, name, &number);
  if (absent) ORT(api, ReleaseStatus)(absent);
  if (number < 0 || number > most)
    return refused(api, "%s must be within 0 and %ld; found: %ld", name, most, number);
  *value = (int32_t)number;
  return NULL;
}

static OrtStatus *read_widths(OrtApi api, const OrtKernelInfo *info, Layer *layer) {
  int64_t widths[OUTPUTS] = {(int64_t)layer->columns}, sum = 0;
  size_t count = OUTPUTS, outputs;
  // With too small an array this fails, and sets the count.
  OrtStatus *absent = ORT(api, KernelInfoGetAttributeArray_int64)(info, "widths", widths, &count);
  if (absent) {
    ORT(api, ReleaseStatus)(absent);
    if (count <= OUTPUTS) widths[0] = (int64_t)layer->columns, count = 1;
  }
  TRY(ORT(api, KernelInfo_GetOutputCount)(info, &outputs));
  if (count < 1 || count > OUTPUTS || count != outputs)
    return refused(api, "widths must be 1 to %d, one for each output; found: %zu, and %zu outputs", OUTPUTS, count, outputs);
  layer->output_count = count;
  for (size_t o = 0; o < count; sum += widths[o++]) {
    if (widths[o] < WIDTH_STEP || widths[o] % WIDTH_STEP || widths[o] > (int64_t)layer->columns)
      return refused(api, "each of widths must be a multiple of %d; found: %ld", WIDTH_STEP, widths[o]);
    layer->width[o] = (size_t)widths[o];
  }
  if (sum == (int64_t)layer->columns) return NULL;
  return refused(api, "the sum of widths must be the %zu columns of WEIGHTS; found: %ld", layer->columns, sum);
}

static OrtStatus *read_layer(OrtApi api, const OrtKernelInfo *info, Node *node) {
  Layer *layer = &node->layer;
  int64_t shape[2] = {0};
  TRY(constant(api, info, WEIGHTS, 2, &layer->weights, shape));
  if (shape[0] < 1 || shape[0] > LARGEST_INNER || shape[1] < 1)
    return refused(api, "WEIGHTS must have 1 to %d rows, and columns; found: %ld, %ld", LARGEST_INNER, shape[0], shape[1]);
  layer->inner = (size_t)shape[0], layer->columns = (size_t)shape[1];
  TRY(read_widths(api, info, layer));
  TRY(constant_row(api, info, SCALE, layer->columns, &layer->scale));
  if (!layer->scale) return refused(api, "SCALE must be there");
  TRY(constant_row(api, info, BIAS, layer->columns, &layer->bias));
  TRY(constant_row(api, info, GAIN, layer->columns, &layer->gain));
  TRY(constant(api, info, OUTLIERS, 2, &layer->outlier_weights, shape));
  if (layer->outlier_weights) {
    if ((size_t)shape[1] != layer->columns || shape[0] < 1)
      return refused(api, "OUTLIERS must have rows of the %zu columns of WEIGHTS; found: %ld, %ld", layer->columns, shape[0],
                     shape[1]);
    layer->outliers = (size_t)shape[0];
  }
  layer->scaled = 1, layer->least_scale = 1e-30f;
  TRY(whole_number(api, info, "zero_point", 254, &layer->zero_point));
  TRY(whole_number(api, info, "scaled", 1, &layer->scaled));
  TRY(whole_number(api, info, "activation", 2, &layer->activation));
  TRY(whole_number(api, info, "product", 1, &layer->product));
  OrtStatus *absent = ORT(api, KernelInfoGetAttribute_float)(info, "least", &layer->least_scale);
  if (absent) ORT(api, ReleaseStatus)(absent);
  // The reciprocal must be a number, too.
  if (!(layer->least_scale >= 1e-37f && layer->least_scale <= 1e37f))
    return refused(api, "least must be within 1e-37 and 1e37; found: %g", (double)layer->least_scale);
  TRY(find_input(api, info, RESIDUAL, &node->has_residual));
  if (node->has_residual ? layer->product && layer->gain : layer->product || layer->gain)
    return refused(api, "product and GAIN each need RESIDUAL, and exclude each other");
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
  Node *node = calloc(1, sizeof *node);
  if (!node) return refused(api, "no memory for a node");
  node->api = api, node->kernel = kernel_of(NULL);
  OrtStatus *status = read_layer(api, info, node);
  if (!status && !(node->memory = packed_memory(node->kernel, &node->layer, &node->packed)))
    status = refused(api, "no memory for weights of %zu x %zu", node->layer.inner, node->layer.columns);
  if (!status && node->kernel->pack) release_pages(node->layer.weights, node->layer.inner * node->layer.columns);
  if (status) destroy(node);
  else *kernel = node;
  return status;
}

// --- A node's run

// Reads an input whose last dimension must be `columns`.
static OrtStatus *computed(OrtApi api, OrtKernelContext *context, size_t input, size_t columns, void *data, size_t *rank,
                           int64_t *dimensions) {
  const OrtValue *value = NULL;
  TRY(ORT(api, KernelContext_GetInput)(context, input, &value));
  if (!value) return refused(api, "%s is absent", input_names[input]);
  TRY(read_tensor(api, value, input, 1, MOST_RANK, data, rank, dimensions));
  if ((size_t)dimensions[*rank - 1] == columns) return NULL;
  return refused(api, "%s must have %zu columns; found: %ld", input_names[input], columns, dimensions[*rank - 1]);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *context) {
  const Node *node = kernel;
  const Layer *layer = &node->layer;
  OrtApi api = node->api;
  Run run = {.layer = layer, .packed = &node->packed, .rows = 1};
  int64_t shape[MOST_RANK], other[MOST_RANK];
  size_t rank, other_rank;
  TRY(computed(api, context, INPUT, layer->inner + layer->outliers, &run.input, &rank, shape));
  for (size_t i = 0; i + 1 < rank; i++) run.rows *= (size_t)shape[i];
  if (node->has_residual) {
    TRY(computed(api, context, RESIDUAL, layer->columns, &run.residual, &other_rank, other));
    if (rank != other_rank || memcmp(shape, other, (rank - 1) * sizeof *shape))
      return refused(api, "RESIDUAL must have the rows of INPUT");
  }
  for (size_t o = 0; o < layer->output_count; o++) {
    OrtValue *output = NULL;
    shape[rank - 1] = (int64_t)layer->width[o];
    TRY(ORT(api, KernelContext_GetOutput)(context, o, shape, rank, &output));
    if (!output) return refused(api, "output %zu must have a name", o);
    TRY(ORT(api, GetTensorMutableData)(output, &run.outputs[o]));
  }
  OrtStatus *status = NULL;
  if (run.rows && !run_layer(api, context, node->kernel, run, &status))
    return refused(api, "no memory for %zu rows", run.rows);
  return status;
}

static const char *name(const OrtCustomOp *op) { (void)op; return "LinearRows"; }
static const char *provider(const OrtCustomOp *op) { (void)op; return NULL; }
static size_t input_count(const OrtCustomOp *op) { (void)op; return INPUTS; }
static size_t output_count(const OrtCustomOp *op) { (void)op; return OUTPUTS; }
static int input_type(const OrtCustomOp *op, size_t i) { (void)op; return i == WEIGHTS ? ORT_INT8 : ORT_FLOAT; }
static int output_type(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return ORT_FLOAT; }
static int input_need(const OrtCustomOp *op, size_t i) { (void)op; return i > SCALE ? ORT_OPTIONAL : ORT_REQUIRED; }
static int output_need(const OrtCustomOp *op, size_t i) { (void)op; return i ? ORT_OPTIONAL : ORT_REQUIRED; }
static int memory_type(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return 0; }
static int start_version(const OrtCustomOp *op) { (void)op; return 1; }
static int end_version(const OrtCustomOp *op) { (void)op; return INT32_MAX; }

static const OrtCustomOp linear_rows = {
    .version = ORT_VERSION, .GetName = name, .GetExecutionProviderType = provider, .GetInputType = input_type,
    .GetInputTypeCount = input_count, .GetOutputType = output_type, .GetOutputTypeCount = output_count,
    .KernelDestroy = destroy, .GetInputCharacteristic = input_need, .GetOutputCharacteristic = output_need, .GetInputMemoryType = memory_type,
    .CreateKernelV2 = create, .KernelComputeV2 = compute, .GetStartVersion = start_version, .GetEndVersion = end_version};

// What ONNX Runtime calls when a session's options get the library. Its domain lives as long as the process.
EXPORTED OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  static OrtCustomOpDomain *shared;
  OrtApi api = base->GetApi(ORT_VERSION);
  if (!api) return ORT(base->GetApi(1), CreateStatus)(ORT_INVALID_ARGUMENT, "LinearRows needs ONNX Runtime 1.20 or later");
  OrtCustomOpDomain *domain = __atomic_load_n(&shared, __ATOMIC_ACQUIRE), *first = NULL;
  if (!domain) {
    TRY(ORT(api, CreateCustomOpDomain)("embedding_kit", &domain));
    TRY(ORT(api, CustomOpDomain_Add)(domain, &linear_rows));
    if (!__atomic_compare_exchange_n(&shared, &first, domain, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      ORT(api, ReleaseCustomOpDomain)(domain);  // another thread was faster
      domain = first;
    }
  }
  return ORT(api, AddCustomOpDomain)(options, domain);
}
