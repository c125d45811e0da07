// uint8 x int8 -> float products of 8 rows with weights in sequential panels, each weight read once from memory.
//   cc -O3 -march=native kernel.c -o kernel && ./kernel 128   (the number of matrices of 768 x 768)
// It prints the milliseconds of all products, the least of 15 runs, and those of reading the weights alone.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { M = 8, K = 768, N = 768, PANEL = 16 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

#if defined(__AVX512VNNI__)
typedef __m512i vector;  // 16 columns x 4 rows of weights in 64 bytes, one dot product instruction
enum { STEP = 4, COLUMNS = 16 };
#define LOAD(p) _mm512_load_si512(p)
#define DOT(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#define SPREAD(p) _mm512_set1_epi32(*(const int32_t *)(p))
#define ZERO _mm512_setzero_si512()
#define STORE(c, v) _mm512_storeu_ps(c, _mm512_cvtepi32_ps(v))
typedef uint8_t input;
#else
typedef __m256i vector;  // 8 columns x 2 rows of weights in 16 bytes, widened to int16: exact without VNNI
enum { STEP = 2, COLUMNS = 8 };
#define LOAD(p) _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(p)))
#define DOT(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#define SPREAD(p) _mm256_set1_epi32(*(const int32_t *)(p))
#define ZERO _mm256_setzero_si256()
#define STORE(c, v) _mm256_storeu_ps(c, _mm256_cvtepi32_ps(v))
typedef int16_t input;
#endif
enum { WIDE = PANEL / COLUMNS };

static void product(const input *a, const int8_t *weights, float *c) {
  for (int n = 0; n < N; n += PANEL)
    for (int m = 0; m < M; m += 4) {
      const int8_t *p = weights + (size_t)n * K;
      vector sum[4][WIDE];
      for (int r = 0; r < 4; r++)
        for (int j = 0; j < WIDE; j++) sum[r][j] = ZERO;
      for (int k = 0; k < K; k += STEP, p += STEP * PANEL)
        for (int j = 0; j < WIDE; j++) {
          vector b = LOAD(p + j * STEP * COLUMNS);
          for (int r = 0; r < 4; r++) sum[r][j] = DOT(sum[r][j], SPREAD(a + (m + r) * K + k), b);
        }
      for (int r = 0; r < 4; r++)
        for (int j = 0; j < WIDE; j++) STORE(c + (m + r) * N + n + j * COLUMNS, sum[r][j]);
    }
}

int main(int argc, char **argv) {
  size_t count = argc > 1 ? atoi(argv[1]) : 128, all = count * K * N, huge = 2 << 20;
  char *space = mmap(0, all + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int8_t *weights = (int8_t *)(((uintptr_t)space + huge - 1) & ~(uintptr_t)(huge - 1));
  if (argc > 2) madvise(weights, all, MADV_HUGEPAGE);
  for (size_t i = 0; i < all; i++) weights[i] = (int8_t)(i * 2654435761u >> 13);
  static input a[M * K] __attribute__((aligned(64)));
  static float c[M * N];
  for (int i = 0; i < M * K; i++) a[i] = i % 251;
  for (int cached = 0; cached < 2; cached++) {
    double best = 1e9;
    for (int run = 0; run < 15; run++) {
      double began = now();
      for (size_t i = 0; i < count; i++) product(a, weights + (cached ? 0 : i * K * N), c);
      double taken = now() - began;
      if (taken < best) best = taken;
    }
    printf("%s %.2f\n", cached ? "cached" : "streamed", best * 1e3);
  }
  double best = 1e9;
  for (int run = 0; run < 15; run++) {
    double began = now();
    __m256i x = _mm256_setzero_si256();
    for (size_t i = 0; i < all; i += 32) x = _mm256_xor_si256(x, _mm256_load_si256((void *)(weights + i)));
    double taken = now() - began;
    c[0] += _mm256_extract_epi32(x, 0);
    if (taken < best) best = taken;
  }
  printf("read %.2f %g\n", best * 1e3, c[0]);
}
