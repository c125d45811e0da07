// What the operator uses of ONNX Runtime's C interface, of version 20 and later. OrtApi is a table of functions that is
// only appended to, so a function keeps its index: https://onnxruntime.ai/docs/api/c/struct_ort_api.html
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { ORT_VERSION = 20, ORT_INVALID_ARGUMENT = 2 };
enum { ORT_FLOAT = 1, ORT_INT8 = 3 };           // ONNXTensorElementDataType
enum { ORT_REQUIRED, ORT_OPTIONAL };            // OrtCustomOpInputOutputCharacteristic

typedef void (*const *OrtApi)(void);
typedef struct OrtStatus OrtStatus;             // an error; null if there is none
typedef struct OrtValue OrtValue;
typedef struct OrtShape OrtShape;               // OrtTensorTypeAndShapeInfo
typedef struct OrtKernelInfo OrtKernelInfo;     // of a node, while a session starts
typedef struct OrtKernelContext OrtKernelContext;  // of a node's run
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtApiBase {
  OrtApi (*GetApi)(uint32_t version);
} OrtApiBase;

// Calls the function of a name: ORT(api, GetDimensions)(shape, dimensions, rank).
#define ORT(api, name) ((Ort##name)(api)[ORT_INDEX_##name])
#define ORT_FUNCTION(name, index, result, ...) \
  typedef result (*Ort##name)(__VA_ARGS__); \
  enum { ORT_INDEX_##name = index };
ORT_FUNCTION(CreateStatus, 0, OrtStatus *, int code, const char *message)
ORT_FUNCTION(CreateCustomOpDomain, 26, OrtStatus *, const char *name, OrtCustomOpDomain **)
ORT_FUNCTION(CustomOpDomain_Add, 27, OrtStatus *, OrtCustomOpDomain *, const void *op)
ORT_FUNCTION(AddCustomOpDomain, 28, OrtStatus *, OrtSessionOptions *, OrtCustomOpDomain *)
ORT_FUNCTION(GetTensorMutableData, 51, OrtStatus *, const OrtValue *, void *data)
ORT_FUNCTION(GetDimensionsCount, 61, OrtStatus *, const OrtShape *, size_t *rank)
ORT_FUNCTION(GetDimensions, 62, OrtStatus *, const OrtShape *, int64_t *dimensions, size_t rank)
ORT_FUNCTION(GetTensorTypeAndShape, 65, OrtStatus *, const OrtValue *, OrtShape **)
ORT_FUNCTION(KernelInfoGetAttribute_float, 85, OrtStatus *, const OrtKernelInfo *, const char *name, float *)
ORT_FUNCTION(KernelInfoGetAttribute_int64, 86, OrtStatus *, const OrtKernelInfo *, const char *name, int64_t *)
ORT_FUNCTION(KernelContext_GetInput, 90, OrtStatus *, const OrtKernelContext *, size_t index, const OrtValue **)
ORT_FUNCTION(KernelContext_GetOutput, 91, OrtStatus *, OrtKernelContext *, size_t index, const int64_t *dimensions,
             size_t rank, OrtValue **)
ORT_FUNCTION(ReleaseStatus, 93, void, OrtStatus *)
ORT_FUNCTION(ReleaseTensorTypeAndShapeInfo, 99, void, OrtShape *)
ORT_FUNCTION(ReleaseCustomOpDomain, 101, void, OrtCustomOpDomain *)
ORT_FUNCTION(KernelInfoGetAttributeArray_int64, 163, OrtStatus *, const OrtKernelInfo *, const char *name, int64_t *,
             size_t *size)
ORT_FUNCTION(KernelInfo_GetInputCount, 230, OrtStatus *, const OrtKernelInfo *, size_t *count)
ORT_FUNCTION(KernelInfo_GetOutputCount, 231, OrtStatus *, const OrtKernelInfo *, size_t *count)
ORT_FUNCTION(KernelInfo_GetInputName, 232, OrtStatus *, const OrtKernelInfo *, size_t index, char *name, size_t *size)
ORT_FUNCTION(KernelInfoGetConstantInput_tensor, 249, OrtStatus *, const OrtKernelInfo *, size_t index, int *is_constant,
             const OrtValue **)
ORT_FUNCTION(KernelContext_ParallelFor, 274, OrtStatus *, const OrtKernelContext *, void (*task)(void *, size_t),
             size_t total, size_t batches, void *data)

typedef struct OrtCustomOp {
  size_t version;  // of 32 bits, then padding
  void *(*CreateKernel)(void);  // unused, as what has no arguments here
  const char *(*GetName)(const struct OrtCustomOp *);
  const char *(*GetExecutionProviderType)(const struct OrtCustomOp *);
  int (*GetInputType)(const struct OrtCustomOp *, size_t);
  size_t (*GetInputTypeCount)(const struct OrtCustomOp *);
  int (*GetOutputType)(const struct OrtCustomOp *, size_t);
  size_t (*GetOutputTypeCount)(const struct OrtCustomOp *);
  void (*KernelCompute)(void);
  void (*KernelDestroy)(void *kernel);
  int (*GetInputCharacteristic)(const struct OrtCustomOp *, size_t);
  int (*GetOutputCharacteristic)(const struct OrtCustomOp *, size_t);
  int (*GetInputMemoryType)(const struct OrtCustomOp *, size_t);
  void (*variadic[4])(void);
  OrtStatus *(*CreateKernelV2)(const struct OrtCustomOp *, OrtApi, const OrtKernelInfo *, void **kernel);
  OrtStatus *(*KernelComputeV2)(void *kernel, OrtKernelContext *);
  void (*InferOutputShapeFn)(void);
  int (*GetStartVersion)(const struct OrtCustomOp *);
  int (*GetEndVersion)(const struct OrtCustomOp *);
  void (*in_place[4])(void);
} OrtCustomOp;
