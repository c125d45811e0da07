// What the nodes of both operators share.
#pragma once
#include "layer.h"
#include "onnxruntime_abi.h"

#define EXPORTED __attribute__((visibility("default")))
#define TRY(call) do { OrtStatus *failure = (call); if (failure) return failure; } while (0)

enum {
  MOST_RANK = 8,
  TASK_PRODUCTS = 1 << 21,     // a task has about so many or more: some 10 µs, as a thread takes to wake up
  QUANTIZE_ALONE = 1 << 17,    // fewer values are quantized before other threads would wake up
};

// Of a node: what messages name.
typedef struct Operator {
  OrtApi api;
  const char *name, *const *inputs;
} Operator;

OrtStatus *refused(const Operator *, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Reads the data and the shape of a tensor whose rank must be within [least, most].
OrtStatus *read_tensor(const Operator *, const OrtValue *, size_t input, size_t least, size_t most, void *data, size_t *rank,
                       int64_t *dimensions);

// Reads an input of a run.
OrtStatus *read_input(const Operator *, const OrtKernelContext *, size_t input, size_t least, size_t most, void *data,
                      size_t *rank, int64_t *dimensions);

// Whether a node has an input, which may be optional.
OrtStatus *find_input(const Operator *, const OrtKernelInfo *, size_t input, int *is_present);

// Reads a whole number within [least, most]; without the attribute, `value` stays.
OrtStatus *whole_number(const Operator *, const OrtKernelInfo *, const char *name, int64_t least, int64_t most,
                        int32_t *value);

// Reads a number; without the attribute, `value` stays.
void read_number(const Operator *, const OrtKernelInfo *, const char *name, float *value);

// The best kernel of this processor, or the one of a name; null if the processor lacks it.
const Kernel *kernel_of(const char *name);

// Runs tasks on the session's threads: bits do not depend on who runs a task. Without a context, on this thread.
OrtStatus *for_each(OrtApi, const OrtKernelContext *, void (*task)(void *, size_t), size_t count, void *data);

const char *no_provider(const OrtCustomOp *);
int output_type(const OrtCustomOp *, size_t);
int output_need(const OrtCustomOp *, size_t);
int memory_type(const OrtCustomOp *, size_t);
int start_version(const OrtCustomOp *);
int end_version(const OrtCustomOp *);
#define PARTS_OF_EACH_OPERATOR \
  .version = ORT_VERSION, .GetExecutionProviderType = no_provider, .GetOutputType = output_type, \
  .GetOutputCharacteristic = output_need, .GetInputMemoryType = memory_type, .GetStartVersion = start_version, \
  .GetEndVersion = end_version

extern const OrtCustomOp linear_rows, attention_rows;
