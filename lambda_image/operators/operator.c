// What both operators share, and how ONNX Runtime gets them: the domain `embedding_kit`.
#include "node.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#else
#include <cpuid.h>
#endif

// By which a test finds out of which sources a library is.
EXPORTED const char operator_sources[] = SOURCES;

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

const Kernel *kernel_of(const char *name) {
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
    if ((!name || !strcmp(name, kernels[i]->name)) && processor_has(kernels[i])) return kernels[i];
  return NULL;
}

// --- What nodes read
OrtStatus *refused(const Operator *operator, const char *format, ...) {
  char message[256];
  const size_t used = (size_t)snprintf(message, sizeof message, "%s: ", operator->name);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message + used, sizeof message - used, format, arguments);
  va_end(arguments);
  return ORT(operator->api, CreateStatus)(ORT_INVALID_ARGUMENT, message);
}

OrtStatus *read_tensor(const Operator *operator, const OrtValue *value, size_t input, size_t least, size_t most, void *data,
                       size_t *rank, int64_t *dimensions) {
  OrtApi api = operator->api;
  OrtShape *shape;
  TRY(ORT(api, GetTensorMutableData)(value, data));
  TRY(ORT(api, GetTensorTypeAndShape)(value, &shape));
  OrtStatus *status = ORT(api, GetDimensionsCount)(shape, rank);
  if (!status && (*rank < least || *rank > most))
    status = refused(operator, "%s must have a rank of %zu to %zu; found: %zu", operator->inputs[input], least, most, *rank);
  if (!status) status = ORT(api, GetDimensions)(shape, dimensions, *rank);
  ORT(api, ReleaseTensorTypeAndShapeInfo)(shape);
  return status;
}

OrtStatus *read_input(const Operator *operator, const OrtKernelContext *context, size_t input, size_t least, size_t most,
                      void *data, size_t *rank, int64_t *dimensions) {
  const OrtValue *value = NULL;
  TRY(ORT(operator->api, KernelContext_GetInput)(context, input, &value));
  if (!value) return refused(operator, "%s is absent", operator->inputs[input]);
  return read_tensor(operator, value, input, least, most, data, rank, dimensions);
}

OrtStatus *find_input(const Operator *operator, const OrtKernelInfo *info, size_t input, int *is_present) {
  OrtApi api = operator->api;
  size_t count, name_size = 0;
  TRY(ORT(api, KernelInfo_GetInputCount)(info, &count));
  if (input < count) TRY(ORT(api, KernelInfo_GetInputName)(info, input, NULL, &name_size));
  *is_present = name_size > 1;  // not an empty name and its end
  return NULL;
}

OrtStatus *whole_number(const Operator *operator, const OrtKernelInfo *info, const char *name, int64_t least, int64_t most,
                        int32_t *value) {
  int64_t number = *value;
  OrtStatus *absent = ORT(operator->api, KernelInfoGetAttribute_int64)(info, name, &number);
  if (absent) ORT(operator->api, ReleaseStatus)(absent);
  if (number < least || number > most)
    return refused(operator, "%s must be within %ld and %ld; found: %ld", name, least, most, number);
  *value = (int32_t)number;
  return NULL;
}

void read_number(const Operator *operator, const OrtKernelInfo *info, const char *name, float *value) {
  OrtStatus *absent = ORT(operator->api, KernelInfoGetAttribute_float)(info, name, value);
  if (absent) ORT(operator->api, ReleaseStatus)(absent);
}

// --- Runs

OrtStatus *for_each(OrtApi api, const OrtKernelContext *context, void (*task)(void *, size_t), size_t count, void *data) {
  if (context && count > 1) return ORT(api, KernelContext_ParallelFor)(context, task, count, 0, data);
  for (size_t i = 0; i < count; i++) task(data, i);
  return NULL;
}

// --- The domain

const char *no_provider(const OrtCustomOp *op) { (void)op; return NULL; }
int output_type(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return ORT_FLOAT; }
int output_need(const OrtCustomOp *op, size_t i) { (void)op; return i ? ORT_OPTIONAL : ORT_REQUIRED; }
int memory_type(const OrtCustomOp *op, size_t i) { (void)op, (void)i; return 0; }
int start_version(const OrtCustomOp *op) { (void)op; return 1; }
int end_version(const OrtCustomOp *op) { (void)op; return INT32_MAX; }

// What ONNX Runtime calls when a session's options get the library. Its domain lives as long as the process.
EXPORTED OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
  static OrtCustomOpDomain *shared;
  OrtApi api = base->GetApi(ORT_VERSION);
  if (!api) return ORT(base->GetApi(1), CreateStatus)(ORT_INVALID_ARGUMENT, "LinearRows needs ONNX Runtime 1.20 or later");
  OrtCustomOpDomain *domain = __atomic_load_n(&shared, __ATOMIC_ACQUIRE), *first = NULL;
  if (!domain) {
    TRY(ORT(api, CreateCustomOpDomain)("embedding_kit", &domain));
    TRY(ORT(api, CustomOpDomain_Add)(domain, &linear_rows));
    TRY(ORT(api, CustomOpDomain_Add)(domain, &attention_rows));
    if (!__atomic_compare_exchange_n(&shared, &first, domain, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      ORT(api, ReleaseCustomOpDomain)(domain);  // another thread was faster
      domain = first;
    }
  }
  return ORT(api, AddCustomOpDomain)(options, domain);
}
