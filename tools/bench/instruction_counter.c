// A plugin of QEMU that counts the instructions of the program it emulates. The clocks of the program's main thread
// show the count in place of the time, an instruction a microsecond: so ONNX Runtime's profile counts, too.
// The guest's addresses must be the host's (-B 0). https://www.qemu.org/docs/master/devel/tcg-plugins.html
#include <stddef.h>
#include <stdint.h>

typedef uint64_t id, word;
struct block;
extern void qemu_plugin_register_vcpu_tb_trans_cb(id, void (*)(id, struct block *));
extern size_t qemu_plugin_tb_n_insns(const struct block *);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct block *, int operation, void *count, uint64_t added);
extern void qemu_plugin_register_vcpu_syscall_cb(id, void (*)(id, unsigned, int64_t, word, word, word, word, word, word,
                                                              word, word));
extern void qemu_plugin_register_vcpu_syscall_ret_cb(id, void (*)(id, unsigned, int64_t, int64_t));

#define CLOCK_GETTIME 113  // on ARM64

int qemu_plugin_version = 1;
static uint64_t count;
static volatile int64_t *time;

static void translated(id plugin, struct block *block) {
  qemu_plugin_register_vcpu_tb_exec_inline(block, 0, &count, qemu_plugin_tb_n_insns(block));
}

static void called(id plugin, unsigned thread, int64_t number, word a, word b, word c, word d, word e, word f, word g,
                   word h) {
  if (number == CLOCK_GETTIME && thread == 0) time = (volatile int64_t *)b;
}

static void returned(id plugin, unsigned thread, int64_t number, int64_t status) {
  if (number != CLOCK_GETTIME || thread != 0 || status != 0) return;
  time[0] = count / 1000000;
  time[1] = count % 1000000 * 1000;
}

int qemu_plugin_install(id plugin, const void *info, int argc, char **argv) {
  qemu_plugin_register_vcpu_tb_trans_cb(plugin, translated);
  qemu_plugin_register_vcpu_syscall_cb(plugin, called);
  qemu_plugin_register_vcpu_syscall_ret_cb(plugin, returned);
  return 0;
}
