#include "bench/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <vector>

namespace stoker {
namespace {

TEST(NoiseTest, every_byte_value_is_about_equally_frequent) {
  std::vector<std::byte> memory(1 << 20);
  fill_with_noise(memory, 1);
  std::array<int, 256> counts{};
  for (const std::byte byte : memory) ++counts[static_cast<std::size_t>(byte)];
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  EXPECT_GT(*least, 4096 - 400);  // the mean is 4096, the standard deviation 64
  EXPECT_LT(*most, 4096 + 400);
}

TEST(NoiseTest, seed_decides_the_bytes_and_odd_lengths_are_filled) {
  std::vector<std::byte> a(1001);
  std::vector<std::byte> b(1001);
  fill_with_noise(a, 1);
  fill_with_noise(b, 1);
  EXPECT_EQ(a, b);
  fill_with_noise(b, 2);
  EXPECT_NE(a, b);
  EXPECT_NE(a.back(), std::byte{0});
}

TEST(NoiseTest, stamped_pages_are_all_different) {
  std::vector<std::byte> memory(4 * 4096);
  std::set<std::vector<std::byte>> pages;
  for (std::uint64_t block = 0; block < 64; ++block) {
    stamp_pages(memory, block * memory.size());
    for (auto page = memory.begin(); page != memory.end(); page += 4096)
      pages.emplace(page, page + 4096);
  }
  EXPECT_EQ(pages.size(), 64u * 4);
}

}  // namespace
}  // namespace stoker
