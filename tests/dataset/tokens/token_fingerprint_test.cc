#include "dataset/tokens/token_fingerprint.h"

#include <gtest/gtest.h>

#include <array>

namespace stoker {
namespace {

// hashlib.blake2b(bytes.fromhex("00112233445566778899aabbccddeeff") +
//                 numpy.array(numbers, "<u8").tobytes(), digest_size=16).hexdigest()
TEST(TokenFingerprintTest, is_the_one_that_python_makes) {
  const Digest128 dataset = *Digest128::from_hex("00112233445566778899aabbccddeeff");
  constexpr std::array<std::uint64_t, 3> kWindows = {2048, 2048, 1};
  constexpr std::array<std::uint64_t, 1> kPack = {4096};
  EXPECT_EQ(token_fingerprint(dataset, kWindows).hex(), "037850137f5d14fd7efbea3b9cc2af85");
  EXPECT_EQ(token_fingerprint(dataset, kPack).hex(), "705b8f19a3aeae171950e68802938943");
}

}  // namespace
}  // namespace stoker
