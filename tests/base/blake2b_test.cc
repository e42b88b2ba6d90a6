#include "base/blake2b.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/hex.h"

namespace stoker {
namespace {

std::string digest_of(std::size_t size_bytes) {
  std::vector<std::byte> data(size_bytes);
  for (std::size_t i = 0; i < size_bytes; ++i) data[i] = static_cast<std::byte>(i % 251);
  return format_hex(blake2b_128(data));
}

// What Python's hashlib.blake2b(bytes(i % 251 for i in range(N)), digest_size=16) says.
TEST(Blake2bTest, agrees_with_python_below_at_and_above_a_block) {
  EXPECT_EQ(digest_of(0), "cae66941d9efbd404e4d88758ea67670");
  EXPECT_EQ(digest_of(128), "a74787004ef589e31149183900d0294a");
  EXPECT_EQ(digest_of(1000), "bca120dfd89cd95d82898473a5b01c90");
}

}  // namespace
}  // namespace stoker
