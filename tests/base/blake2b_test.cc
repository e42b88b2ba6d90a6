#include "base/blake2b.h"

#include <gtest/gtest.h>

#include <algorithm>
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

TEST(Blake2bTest, pieces_of_any_length_give_the_digest_of_the_whole) {
  std::vector<std::byte> data(1000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i % 251);
  for (const std::size_t piece : {1U, 7U, 127U, 128U, 129U, 256U, 1000U}) {
    Blake2b128 hash("stoker.select");  // person=b"stoker.select"
    for (std::size_t at = 0; at < data.size(); at += piece)
      hash.update(std::span(data).subspan(at, std::min(piece, data.size() - at)));
    EXPECT_EQ(format_hex(hash.digest()), "29f33e80edcde2991418d5df362af002") << piece;
  }
}

}  // namespace
}  // namespace stoker
