#include <gtest/gtest.h>

#include <vector>

#include "base/checksum.h"
#include "base/hex.h"

namespace stoker {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// As printed by coreutils' sha256sum; the second is also the first example of FIPS 180-2.
constexpr std::string_view kEmpty =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::string_view kAbc =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr std::string_view kPattern =  // 100000 bytes, byte i being 7 * i + 3
    "d96bab6a55ee326ba206dd4a85a6e95e14360d7fabbf448f03e689c24382b7d0";

std::vector<std::byte> pattern() {
  std::vector<std::byte> data(100'000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(7 * i + 3);
  return data;
}

TEST(Sha256Test, prints_what_sha256sum_prints) {
  EXPECT_EQ(format_hex(*sha256({})), kEmpty);
  EXPECT_EQ(format_hex(*sha256(bytes_of("abc"))), kAbc);
  EXPECT_EQ(format_hex(*sha256(pattern())), kPattern);
}

TEST(Sha256Test, digest_reads_back_from_its_text) {
  EXPECT_EQ(*parse_sha256(kAbc), *sha256(bytes_of("abc")));
  EXPECT_EQ(parse_sha256("ba7816bf").status().code(), Code::invalid_argument);
}

TEST(Sha256Test, stream_gives_the_one_shot_value_however_the_bytes_are_cut) {
  const std::vector<std::byte> data = pattern();
  Sha256Stream stream;
  for (const std::size_t piece : {1U, 63U, 64U, 65U, 4096U, 99'999U}) {
    stream.reset();
    for (std::size_t at = 0; at < data.size(); at += piece) {
      stream.update(std::span(data).subspan(at, std::min(piece, data.size() - at)));
      stream.update({});
    }
    EXPECT_EQ(format_hex(*stream.digest()), kPattern) << piece;
  }
}

TEST(Sha256Test, new_stream_holds_no_bytes) {
  EXPECT_EQ(format_hex(*Sha256Stream().digest()), kEmpty);
}

TEST(Sha256Test, digest_ends_the_stream_until_reset) {
  Sha256Stream stream;
  ASSERT_TRUE(stream.digest().ok());
  stream.update(bytes_of("abc"));
  EXPECT_EQ(stream.digest().status().code(), Code::invalid_argument);
  stream.reset();
  stream.update(bytes_of("abc"));
  EXPECT_EQ(format_hex(*stream.digest()), kAbc);
}

TEST(Sha256Test, moved_stream_goes_on_and_its_source_refuses_until_reset) {
  Sha256Stream first;
  first.update(bytes_of("ab"));
  Sha256Stream second = std::move(first);
  second.update(bytes_of("c"));
  EXPECT_EQ(format_hex(*second.digest()), kAbc);

  first.update(bytes_of("abc"));  // NOLINT(bugprone-use-after-move): that is the question
  EXPECT_EQ(first.digest().status().code(), Code::invalid_argument);
  first.reset();
  EXPECT_EQ(format_hex(*first.digest()), kEmpty);
}

}  // namespace
}  // namespace stoker
