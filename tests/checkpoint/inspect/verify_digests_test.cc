#include "checkpoint/inspect/verify_digests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/work_together.h"

namespace stoker {
namespace {

constexpr std::uint64_t kChunk = kCheckpointChunkBytes;
constexpr std::size_t kChunks = 6;

/// A file with tensors inside of chunks, over two, and over all but one.
class DigestCheckTest : public ::testing::Test {
 protected:
  DigestCheckTest() {
    std::uint64_t state = 1;
    for (std::size_t i = 0; i < bytes_.size(); i += sizeof(state)) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      std::copy_n(reinterpret_cast<const std::byte*>(&state),
                  std::min(sizeof(state), bytes_.size() - i), bytes_.begin() + std::ptrdiff_t(i));
    }
    manifest_.files.emplace_back();
    add("first", 4096, 5000);
    add("long", 5000, 5 * kChunk - 10);
    add("end", 5 * kChunk - 10, 5 * kChunk + 10);
    add("none", 5 * kChunk + 10, 5 * kChunk + 10);
    add("last", 5 * kChunk + 10, bytes_.size());
  }

  void add(const std::string& name, std::uint64_t begin, std::uint64_t end) {
    CheckpointTensor tensor;
    tensor.name = name;
    tensor.begin_bytes = begin;
    tensor.end_bytes = end;
    tensor.digest = xxh3_128(std::span(bytes_).subspan(begin, end - begin));
    manifest_.tensors.push_back(tensor);
  }
  void give(DigestCheck& check, std::size_t chunk) const {
    const std::uint64_t at = chunk * kChunk;
    check.add(0, at, std::span(bytes_).subspan(at, std::min(kChunk, bytes_.size() - at)));
  }
  static std::vector<std::string> names(const std::vector<const CheckpointTensor*>& tensors) {
    std::vector<std::string> found;
    for (const CheckpointTensor* const tensor : tensors) found.push_back(tensor->name);
    std::ranges::sort(found);
    return found;
  }

  std::vector<std::byte> bytes_ = std::vector<std::byte>((kChunks - 1) * kChunk + 100'000);
  CheckpointManifest manifest_;
};

using Names = std::vector<std::string>;

TEST_F(DigestCheckTest, finds_each_digest_that_was_changed_in_any_order_of_chunks) {
  std::vector<std::size_t> order(kChunks);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937_64 random(1);
  for (const std::string changed : {"", "first", "long", "end", "last"}) {
    for (CheckpointTensor& tensor : manifest_.tensors)
      if (tensor.name == changed) tensor.digest->low ^= 1;
    for (int i = 0; i < 4; ++i) {
      DigestCheck check(manifest_, kChunks);
      for (const std::size_t chunk : order) give(check, chunk);
      EXPECT_EQ(names(check.wrong()), changed.empty() ? Names{} : Names{changed});
      EXPECT_TRUE(check.begin_late().empty());
      std::ranges::shuffle(order, random);
    }
    for (CheckpointTensor& tensor : manifest_.tensors)
      if (tensor.name == changed) tensor.digest->low ^= 1;
  }
}

TEST_F(DigestCheckTest, leaves_what_has_too_many_early_chunks_for_later) {
  manifest_.tensors[1].digest->low ^= 1;
  DigestCheck check(manifest_, 1);
  for (std::size_t chunk = kChunks; chunk-- > 0;) give(check, chunk);
  EXPECT_TRUE(check.wrong().empty());
  EXPECT_EQ(names(check.begin_late()), (Names{"long"}));
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) give(check, chunk);
  EXPECT_EQ(names(check.wrong()), Names{"long"});
}

TEST_F(DigestCheckTest, says_nothing_of_a_tensor_of_which_a_chunk_is_missing) {
  for (CheckpointTensor& tensor : manifest_.tensors) tensor.digest->low ^= 1;
  DigestCheck check(manifest_, kChunks);
  for (const std::size_t chunk : {0U, 1U, 3U, 4U}) give(check, chunk);
  EXPECT_EQ(names(check.wrong()), Names{"first"});
}

TEST_F(DigestCheckTest, threads_may_bring_chunks) {
  for (int i = 0; i < 10; ++i) {
    manifest_.tensors[1].digest->low ^= 1;
    DigestCheck check(manifest_, 2);
    std::atomic<std::size_t> next{0};
    work_together(4, [&] {
      for (std::size_t chunk = next++; chunk < kChunks; chunk = next++) give(check, chunk);
    });
    if (!check.begin_late().empty())
      for (std::size_t chunk = 0; chunk < kChunks; ++chunk) give(check, chunk);
    EXPECT_EQ(names(check.wrong()), i % 2 == 0 ? Names{"long"} : Names{});
  }
}

}  // namespace
}  // namespace stoker
