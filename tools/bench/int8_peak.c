// Prints the int8 multiply-adds per second of this core: a loop of its widest dot product on registers alone.
// Twelve independent sums hide the latency of one. They differ, or the compiler would merge them.
#include <stdio.h>
#include <time.h>
#if defined(__AVX512VNNI__)
#include <immintrin.h>
typedef __m512i vec;
enum { lanes = 64 };
static vec of(int v) { return _mm512_set1_epi8(v); }
static vec dot(vec s, vec a, vec b) { return _mm512_dpbusd_epi32(s, a, b); }
static int any(vec v) { return _mm512_reduce_add_epi32(v); }
#define KEEP "v"
#elif defined(__AVXVNNI__)
#include <immintrin.h>
typedef __m256i vec;
enum { lanes = 32 };
static vec of(int v) { return _mm256_set1_epi8(v); }
static vec dot(vec s, vec a, vec b) { return _mm256_dpbusd_avx_epi32(s, a, b); }
static int any(vec v) { return _mm256_extract_epi32(v, 0); }
#define KEEP "x"
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#include <arm_neon.h>
typedef int32x4_t vec;
enum { lanes = 32 };
static vec of(int v) { return vreinterpretq_s32_s8(vdupq_n_s8(v)); }
static vec dot(vec s, vec a, vec b) {
  return vmmlaq_s32(s, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}
static int any(vec v) { return vaddvq_s32(v); }
#define KEEP "w"
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
typedef int32x4_t vec;
enum { lanes = 16 };
static vec of(int v) { return vreinterpretq_s32_s8(vdupq_n_s8(v)); }
static vec dot(vec s, vec a, vec b) {
  return vdotq_s32(s, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}
static int any(vec v) { return vaddvq_s32(v); }
#define KEEP "w"
#else
#error "no int8 dot product"
#endif
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}
int main(void) {
  double best = 0;
  int used = 0;
  for (int round = 0; round < 5; round++) {
    vec sums[12], a = of(3), b = of(1);
    for (int i = 0; i < 12; i++) sums[i] = of(i);
    long count = 10000000;
    double start = now();
    for (long k = 0; k < count; k++) {
      for (int i = 0; i < 12; i++) sums[i] = dot(sums[i], a, b);
      __asm__ volatile("" : "+" KEEP(sums[0]), "+" KEEP(sums[5]));
    }
    double rate = count * 12.0 * lanes / (now() - start);
    for (int i = 0; i < 12; i++) used += any(sums[i]);
    if (rate > best) best = rate;
  }
  printf("%.0f %d\n", best, used & 1);
}
