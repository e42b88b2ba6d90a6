// The libraries below checksum.h leave the upper halves of the vector registers in use, which slows
// down everybody's SSE code; ours must not. Asks the CPU, through XGETBV, what is in use.
#if defined(__x86_64__)
#include <cpuid.h>
#include <gtest/gtest.h>
#include <immintrin.h>

#include <vector>

#include "base/checksum.h"

namespace stoker {
namespace {

constexpr unsigned long long kUpperHalves = (1U << 2) | (1U << 6);  // of YMM, and of ZMM0 to 15

bool cpu_tells() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __builtin_cpu_supports("avx") && __get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) != 0 &&
         (eax & (1U << 2)) != 0;  // XGETBV with ECX = 1
}

__attribute__((target("avx,xsave"))) bool upper_halves_in_use() {
  return (_xgetbv(1) & kUpperHalves) != 0;
}

// In assembler, because a compiler that knew would clear them again before it returns.
void use_upper_halves() {
  asm volatile("vcmpps $15, %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
}

class VectorStateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cpu_tells()) GTEST_SKIP() << "this CPU cannot say which registers are in use";
    use_upper_halves();
    const bool seen_in_use = upper_halves_in_use();
    asm volatile("vzeroupper");
    if (!seen_in_use || upper_halves_in_use()) {
      GTEST_SKIP() << "this CPU does not track its upper halves";
    }
  }

  const std::vector<std::byte> data_ = std::vector<std::byte>(100'000);
};

TEST_F(VectorStateTest, xxh3_leaves_the_upper_halves_clear) {
  const Digest128 digest = xxh3_128(data_);
  EXPECT_FALSE(upper_halves_in_use()) << digest.hex();
}

TEST_F(VectorStateTest, xxh3_stream_leaves_the_upper_halves_clear) {
  Xxh3Stream stream;
  stream.update(data_);
  EXPECT_FALSE(upper_halves_in_use());
}

TEST_F(VectorStateTest, crc32c_leaves_the_upper_halves_clear) {
  const std::uint32_t crc = crc32c(data_);
  EXPECT_FALSE(upper_halves_in_use()) << crc;
}

}  // namespace
}  // namespace stoker
#endif
