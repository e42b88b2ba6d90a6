#include "dataset/tokens/token_windows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "dataset/fetch_support.h"

namespace stoker::testing {
namespace {

/// The tokens of a dataset's shards, each shard's all in a row.
std::vector<std::string> streams_of(const ShardDataset& dataset) {
  std::vector<std::string> streams;
  SampleRecord record;
  for (const IndexedShard& shard : dataset.index().shards()) {
    std::string& stream = streams.emplace_back();
    for (std::uint64_t i = 0; i < shard.sample_count; ++i) {
      EXPECT_TRUE(dataset.read(shard.first_sample + i, record).ok());
      const std::span<const std::byte> bytes = record.view().fields.front().bytes;
      stream.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return streams;
}

/// Every window, cut by hand.
std::vector<std::string> windows_of(const ShardDataset& dataset,
                                    const TokenWindows::Options& options) {
  const std::uint64_t item = dtype_size_bytes(*dataset.source().token_dtype());
  const std::uint64_t size = (options.window + options.extra) * item;
  const std::uint64_t stride = (options.stride != 0 ? options.stride : options.window) * item;
  std::vector<std::string> windows;
  for (const std::string& stream : streams_of(dataset))
    for (std::uint64_t at = 0; at + size <= stream.size(); at += stride)
      windows.push_back(stream.substr(at, size));
  return windows;
}

/// Reads units into rows and says which is wrong.
std::string read_and_compare(RecordFetcher& fetcher, const TokenWindows& windows,
                             std::span<const std::uint64_t> units,
                             const std::vector<std::string>& expected) {
  std::vector<RowPiece> pieces;
  for (std::uint32_t i = 0; i < units.size(); ++i) {
    const auto at = windows.locate(units[i]);
    if (!at.ok()) return std::string(at.status().message());
    pieces.push_back(
        {.shard = at->shard, .range = at->range, .at_bytes = i * windows.row_bytes(), .row = i});
  }
  FetchPlan plan;
  const std::uint64_t row_bytes = units.size() * windows.row_bytes();
  Status status = fetcher.plan_rows(pieces, row_bytes, units.size(), plan);
  if (!status.ok()) return std::string(status.message());
  if (plan.memory_bytes >
      RecordFetcher::rows_memory_bytes_max(row_bytes, pieces.size(), FetchOptions()))
    return "the plan takes more memory than it may";
  GuardedMemory memory(plan.memory_bytes);
  GuardedMemory rows(row_bytes);
  std::vector<Status> failures(units.size());
  status = fetcher.read_rows(plan, memory.more_than_enough(), rows.more_than_enough(), failures);
  if (!status.ok()) return std::string(status.message());
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!failures[i].ok()) return std::string(failures[i].message());
    const auto row = rows.bytes().subspan(i * windows.row_bytes(), windows.row_bytes());
    if (!std::ranges::equal(row, bytes_of(expected[units[i]])))
      return "window " + std::to_string(units[i]) + " is another";
  }
  return "";
}

class TokenWindowsFormatTest : public ::testing::TestWithParam<const char*> {
 protected:
  const DatasetDir dir_;
};

TEST_P(TokenWindowsFormatTest, windows_are_those_cut_by_hand_on_every_path) {
  ShardDataset::Options opened = write_dataset(dir_.path(), GetParam());
  if (std::string_view(GetParam()) == "litdata_tokens")
    write_litdata(dir_.path(), kLitdataTokensChunk, kLitdataTokensIndex, "chunk-0-0.bin");
  for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::direct}) {
    if (policy == CachePolicy::direct && !has_direct_reads(dir_.path())) continue;
    opened.policy = policy;
    const auto dataset = open_dataset(dir_.path(), opened);
    ASSERT_NE(dataset, nullptr);
    for (const TokenWindows::Options& options :
         {TokenWindows::Options{4, 0, 0}, TokenWindows::Options{4, 4, 1},
          TokenWindows::Options{5, 2, 1}, TokenWindows::Options{3, 7, 0},
          TokenWindows::Options{1, 1, 0}, TokenWindows::Options{10, 0, 2}}) {
      const std::vector<std::string> expected = windows_of(*dataset, options);
      const auto windows = TokenWindows::make(*dataset, options);
      ASSERT_TRUE(windows.ok()) << windows.status().message();
      ASSERT_EQ(windows->count(), expected.size());
      EXPECT_EQ(windows->tokens_per_row(), options.window + options.extra);
      std::vector<std::uint64_t> units(2 * expected.size());
      std::mt19937_64 random(options.window);
      for (std::size_t i = 0; i < units.size(); ++i)
        units[i] = i < expected.size() ? i : random() % expected.size();
      for (const bool is_warm : {true, false}) {
        is_warm ? make_warm(dir_.path()) : make_cold(dir_.path());
        const auto fetcher = make_fetcher(dataset);
        EXPECT_EQ(read_and_compare(*fetcher, *windows, units, expected), "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(formats, TokenWindowsFormatTest,
                         ::testing::Values("megatron", "npy", "raw", "counted", "shard001",
                                           "litdata_tokens"),
                         [](const auto& test) { return std::string(test.param); });

class TokenWindowsTest : public ::testing::Test {
 protected:
  std::shared_ptr<const ShardDataset> open_megatron(std::span<const std::size_t> lengths) {
    write_megatron(dir_.file("t"), lengths);
    return open_dataset(dir_.path());
  }
  const DatasetDir dir_;
};

TEST_F(TokenWindowsTest, a_tail_shorter_than_a_window_is_dropped_and_sequences_are_no_borders) {
  const auto dataset = open_megatron(std::array<std::size_t, 3>{7, 0, 4});  // 11 tokens
  EXPECT_EQ(TokenWindows::make(*dataset, {.window = 5})->count(), 2U);
  EXPECT_EQ(TokenWindows::make(*dataset, {.window = 5, .extra = 1})->count(), 2U);
  EXPECT_EQ(TokenWindows::make(*dataset, {.window = 5, .extra = 2})->count(), 1U);
  EXPECT_EQ(TokenWindows::make(*dataset, {.window = 11})->count(), 1U);
  EXPECT_EQ(TokenWindows::make(*dataset, {.window = 3, .stride = 1})->count(), 9U);
  EXPECT_EQ(TokenWindows::make(*dataset, {.window = 11})->token_count(), 11U);
  const auto windows = TokenWindows::make(*dataset, {.window = 5});
  EXPECT_EQ(*windows->locate(1), (TokenSpan{.shard = 0, .range = {10, 10}}));
  EXPECT_EQ(windows->locate(2).status().code(), Code::invalid_argument);
}

TEST_F(TokenWindowsTest, no_window_crosses_from_one_shard_to_the_next) {
  for (const char* name : {"a", "b", "c"})
    write_megatron(dir_.file(name), std::array<std::size_t, 1>{*name == 'b' ? 3U : 9U});
  const auto dataset = open_dataset(dir_.path());
  const auto windows = TokenWindows::make(*dataset, {.window = 4});
  ASSERT_TRUE(windows.ok());
  ASSERT_EQ(windows->count(), 4U) << "the shard in the middle has none";
  EXPECT_EQ(*windows->locate(1), (TokenSpan{.shard = 0, .range = {8, 8}}));
  EXPECT_EQ(*windows->locate(2), (TokenSpan{.shard = 2, .range = {0, 8}}));
}

TEST_F(TokenWindowsTest, what_makes_no_sense_is_refused_in_words) {
  const auto dataset = open_megatron(std::array<std::size_t, 1>{5});
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  for (const TokenWindows::Options& options :
       {TokenWindows::Options{0, 0, 1}, TokenWindows::Options{6, 0, 0},
        TokenWindows::Options{5, 0, 1}, TokenWindows::Options{kHuge, 1, 1},
        TokenWindows::Options{kHuge / 2, 1, 0}, TokenWindows::Options{1, kHuge, 0},
        TokenWindows::Options{1, 1, kHuge}})
    EXPECT_EQ(TokenWindows::make(*dataset, options).status().code(), Code::invalid_argument)
        << options.window << " " << options.stride << " " << options.extra;
  EXPECT_EQ(TokenWindows::make(*dataset, {1, kHuge / 2, 0})->count(), 1U);
  write_tar(dir_.file("a.tar"), make_samples(2));
  const auto tar = open_dataset(dir_.file("a.tar"));
  const Status status = TokenWindows::make(*tar, {.window = 1}).status();
  EXPECT_NE(status.message().find("tar"), std::string_view::npos) << status.message();
}

TEST_F(TokenWindowsTest, an_array_larger_than_four_gigabytes_is_one_sample_and_many_windows) {
  constexpr std::uint64_t kTokens = (std::uint64_t{5} << 30) / 2 + 100;
  const std::string path = dir_.file("big.bin");
  const std::string last = make_tokens(7, 100);
  write_file(path, {});
  ASSERT_EQ(::truncate(path.c_str(), (kTokens - 100) * 2), 0) << "a sparse file";
  std::ofstream(path, std::ios::binary | std::ios::app).write(last.data(), std::ssize(last));
  const auto dataset = open_dataset(path, {.source = {.format = "raw", .dtype = Dtype::uint16}});
  ASSERT_NE(dataset, nullptr);
  ASSERT_EQ(dataset->sample_count(), 1U);
  EXPECT_EQ(dataset->index().record_bytes_max(), kTokens * 2);
  const auto windows = TokenWindows::make(*dataset, {.window = 100});
  ASSERT_TRUE(windows.ok());
  EXPECT_EQ(windows->count(), kTokens / 100);
  const auto at = windows->locate(windows->count() - 1);
  std::vector<RowPiece> pieces = {{.shard = 0, .range = at->range}};
  const auto fetcher = make_fetcher(dataset);
  FetchPlan plan;
  ASSERT_TRUE(fetcher->plan_rows(pieces, 200, 1, plan).ok());
  GuardedMemory memory(plan.memory_bytes);
  GuardedMemory rows(200);
  std::vector<Status> failures(1);
  ASSERT_TRUE(fetcher->read_rows(plan, memory.bytes(), rows.bytes(), failures).ok());
  const std::uint64_t shift = (kTokens - 100) * 2 - at->range.offset_bytes;
  EXPECT_TRUE(std::ranges::equal(rows.bytes().subspan(shift), bytes_of(last).first(200 - shift)));
}

TEST_F(TokenWindowsTest, pieces_go_where_they_belong_and_nowhere_else) {
  const auto dataset = open_megatron(std::array<std::size_t, 3>{10, 20, 30});
  const std::string stream = streams_of(*dataset).front();
  std::vector<RowPiece> pieces = {{.range = {40, 20}, .at_bytes = 4, .row = 0},
                                  {.range = {0, 10}, .at_bytes = 30, .row = 0},
                                  {.range = {20, 0}, .at_bytes = 70, .row = 1},
                                  {.range = {10, 8}, .at_bytes = 60, .row = 1}};
  for (const bool is_warm : {true, false}) {
    is_warm ? make_warm(dir_.path()) : make_cold(dir_.path());
    const auto fetcher = make_fetcher(dataset);
    FetchPlan plan;
    ASSERT_TRUE(fetcher->plan_rows(pieces, 80, 2, plan).ok());
    GuardedMemory memory(plan.memory_bytes);
    GuardedMemory rows(80);
    std::vector<Status> failures(2);
    ASSERT_TRUE(fetcher->read_rows(plan, memory.bytes(), rows.bytes(), failures).ok());
    std::string expected(80, static_cast<char>(GuardedMemory::kGuard));
    for (const RowPiece& piece : pieces)
      expected.replace(piece.at_bytes, piece.range.size_bytes, stream, piece.range.offset_bytes,
                       piece.range.size_bytes);
    EXPECT_TRUE(std::ranges::equal(rows.bytes(), bytes_of(expected))) << is_warm;
  }
  const auto fetcher = make_fetcher(dataset);
  FetchPlan plan;
  for (const RowPiece& bad :
       {RowPiece{.dataset = 1}, RowPiece{.shard = 1}, RowPiece{.range = {115, 6}},
        RowPiece{.range = {~std::uint64_t{0}, 2}}, RowPiece{.range = {0, 10}, .at_bytes = 71},
        RowPiece{.range = {0, 10}, .at_bytes = ~std::uint64_t{0}}, RowPiece{.row = 2}})
    EXPECT_EQ(fetcher->plan_rows({&bad, 1}, 80, 2, plan).code(), Code::invalid_argument);
}

TEST_F(TokenWindowsTest, a_row_that_cannot_be_read_fails_alone) {
  const auto dataset = open_megatron(std::array<std::size_t, 1>{40000});
  const auto windows = TokenWindows::make(*dataset, {.window = 4000, .extra = 1});
  for (const bool is_warm : {true, false}) {
    is_warm ? make_warm(dir_.path()) : make_cold(dir_.path());
    const auto fetcher = make_fetcher(
        dataset,
        {.engine_options = {.depth = 8, .tamper = [](const Request& request, std::int64_t raw) {
                              const std::uint64_t bad = 2 * 4000 * 3 + 4000;
                              const bool covers = request.offset_bytes <= bad &&
                                                  bad < request.offset_bytes + request.size_bytes();
                              return covers ? -EIO : raw;
                            }}});
    std::vector<RowPiece> pieces;
    for (std::uint32_t i = 0; i < windows->count(); ++i)
      pieces.push_back(
          {.range = windows->locate(i)->range, .at_bytes = i * windows->row_bytes(), .row = i});
    FetchPlan plan;
    const std::uint64_t row_bytes = windows->count() * windows->row_bytes();
    ASSERT_TRUE(fetcher->plan_rows(pieces, row_bytes, windows->count(), plan).ok());
    GuardedMemory memory(plan.memory_bytes);
    GuardedMemory rows(row_bytes);
    std::vector<Status> failures(windows->count());
    ASSERT_TRUE(fetcher->read_rows(plan, memory.bytes(), rows.bytes(), failures).ok());
    for (std::uint64_t i = 0; i < windows->count(); ++i)
      EXPECT_EQ(failures[i].ok(), i != 3) << i << failures[i].message();
    EXPECT_NE(failures[3].message().find(dir_.file("t.bin")), std::string_view::npos);
  }
}

}  // namespace
}  // namespace stoker::testing
