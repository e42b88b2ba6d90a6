#include "stoker/tokens.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "api/shards.h"

namespace stoker {
namespace {

using testing::bytes_of;
using testing::Folder;
using testing::must;
using testing::npy_of;
using testing::write_file;

template <typename T>
std::vector<T> elements(const TokenRow& row) {
  std::vector<T> out(row.tokens.size() / sizeof(T));
  std::memcpy(out.data(), row.tokens.data(), row.tokens.size());
  return out;
}

template <typename T>
std::vector<T> counted(T first, std::size_t count) {
  std::vector<T> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// 1000 tokens in one shard, as one sequence.
Dataset sequence(const Folder& folder) {
  write_file(folder.file("t.npy"),
             npy_of("<u2", "(1000,)", bytes_of(counted<std::uint16_t>(0, 1000))));
  return must(Dataset::open(folder.file("t.npy")));
}

/// Documents of 3, 5 and 2 tokens, in a shard each.
Dataset documents(const Folder& folder) {
  std::uint16_t first = 10;
  for (const std::size_t count : {3U, 5U, 2U}) {
    write_file(folder.file("d" + std::to_string(first) + ".npy"),
               npy_of("<u2", "(" + std::to_string(count) + ",)",
                      bytes_of(counted<std::uint16_t>(first, count))));
    first = static_cast<std::uint16_t>(first + 10);
  }
  return must(Dataset::open(folder.path()));
}

TEST(TokensTest, windows_are_rows) {
  const Folder folder;
  const Tokens tokens = must(Tokens::open(sequence(folder), {.window = 64, .extra = 1}));
  EXPECT_EQ(tokens.size(), 15U);
  EXPECT_EQ(tokens.row_tokens(), 65U);
  EXPECT_EQ(tokens.dtype(), Dtype::uint16);
  EXPECT_EQ(must(tokens.token_count()), 1000U);
  const TokenRow row = must(tokens.read(3));
  EXPECT_EQ(elements<std::uint16_t>(row), counted<std::uint16_t>(192, 65));
  EXPECT_EQ(row.length, 65U);
  EXPECT_TRUE(row.document_ids.empty());
  EXPECT_EQ(tokens.read(15).status().code(), Code::invalid_argument);
}

TEST(TokensTest, rows_are_widened_on_request) {
  const Folder folder;
  const Tokens tokens =
      must(Tokens::open(sequence(folder), {.window = 100, .stride = 50, .dtype = Dtype::int64}));
  EXPECT_EQ(tokens.dtype(), Dtype::int64);
  EXPECT_EQ(elements<std::int64_t>(must(tokens.read(1))), counted<std::int64_t>(50, 100));
}

TEST(TokensTest, packs_have_documents_and_padding) {
  const Folder folder;
  const Tokens tokens = must(Tokens::open(documents(folder), {.pack = 6, .pad = 7}));
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(must(tokens.token_count()), 10U);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const TokenRow row = must(tokens.read(i));
    ASSERT_EQ(row.tokens.size(), 12U);
    EXPECT_EQ(row.length, 5U);
    EXPECT_EQ(elements<std::uint16_t>(row)[5], 7);
    EXPECT_EQ(row.document_ids[5], -1);
    EXPECT_EQ(row.position_ids[0], 0);
  }
}

TEST(TokensTest, a_loader_has_the_same_rows) {
  const Folder folder;
  const Dataset data = documents(folder);
  for (const std::optional<Dtype> dtype : {std::optional<Dtype>(), std::optional(Dtype::int64)}) {
    const Tokens tokens = must(Tokens::open(data, {.pack = 6, .pad = 1, .dtype = dtype}));
    Loader loader = must(Loader::open({.data = tokens, .batch_size = 2, .shuffle = Shuffle::off}));
    const std::optional<Batch> batch = must(loader.next());
    ASSERT_TRUE(batch);
    for (std::size_t i = 0; i < 2; ++i) {
      const TokenRow row = must(tokens.read(i));
      const Column& column = *batch->find(kTokens);
      EXPECT_EQ(column.dtype, tokens.dtype());
      EXPECT_TRUE(std::ranges::equal(
          row.tokens, column.data.subspan(i * row.tokens.size(), row.tokens.size())));
      EXPECT_TRUE(
          std::ranges::equal(row.position_ids, must(batch->find(kPositionIds)->row<int>(i))));
      EXPECT_TRUE(
          std::ranges::equal(row.document_ids, must(batch->find(kDocumentIds)->row<int>(i))));
    }
  }
}

TEST(TokensTest, parts_of_it_are_tokens_too) {
  const Folder folder;
  const Tokens tokens = must(Tokens::open(sequence(folder), {.window = 64}));
  const std::vector<Tokens> parts = must(tokens.split(std::array{0.8, 0.2}, 1));
  EXPECT_EQ(parts[0].size() + parts[1].size(), 15U);
  const Tokens few = must(tokens.select(std::array<std::uint64_t, 2>{4, 0}));
  EXPECT_EQ(elements<std::uint16_t>(must(few.read(0)))[0], 256);
  EXPECT_EQ(must(tokens.slice(2, 3)).size(), 3U);
  Loader loader = must(Loader::open({.data = few, .batch_size = 1, .shuffle = Shuffle::off}));
  const std::optional<Batch> first = must(loader.next());
  EXPECT_EQ(must(first->values<std::uint16_t>(kTokens))[0], 256);
}

TEST(TokensTest, cuts_that_cannot_be_are_refused) {
  const Folder folder;
  const Dataset data = sequence(folder);
  const auto code = [&](const TokensOptions& options) {
    return Tokens::open(data, options).status().code();
  };
  EXPECT_EQ(code({}), Code::invalid_argument);
  EXPECT_EQ(code({.window = 8, .pack = 8}), Code::invalid_argument);
  EXPECT_EQ(code({.extra = 1, .pack = 8}), Code::invalid_argument);
  EXPECT_EQ(code({.window = 8, .pad = 1}), Code::invalid_argument);
  EXPECT_EQ(code({.window = 2000}), Code::invalid_argument);
  EXPECT_EQ(code({.window = 8, .dtype = Dtype::int32}), Code::invalid_argument);
  EXPECT_EQ(code({.pack = 8, .pad = -1}), Code::invalid_argument);
  EXPECT_EQ(code({.pack = 8, .pad = -1, .dtype = Dtype::int64}), Code::ok);
  EXPECT_EQ(Tokens::open(must(data.select(std::array<std::uint64_t, 1>{0})), {.window = 8})
                .status()
                .code(),
            Code::invalid_argument);
  const Folder images;
  testing::write_tars(images, 5);
  EXPECT_EQ(Tokens::open(must(Dataset::open(images.path())), {.window = 8}).status().code(),
            Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
