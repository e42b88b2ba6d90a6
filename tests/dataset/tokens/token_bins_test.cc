#include "dataset/tokens/token_bins.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>

#include "dataset/fetch_support.h"
#include "dataset/tokens/best_fit.h"
#include "support/faulty_file_ops.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

TEST(NumberSetTest, the_least_number_not_below_another_is_found) {
  for (const std::uint64_t limit : {1ULL, 64ULL, 65ULL, 5000ULL, 300000ULL}) {
    NumberSet set(limit);
    std::set<std::uint64_t> expected;
    std::mt19937_64 random(limit);
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t number = random() % limit;
      if (random() % 3 != 0) {
        set.insert(number);
        expected.insert(number);
      } else {
        set.erase(number);
        expected.erase(number);
      }
      const std::uint64_t from = random() % limit;
      const auto at = expected.lower_bound(from);
      ASSERT_EQ(set.find_at_least(from), at == expected.end() ? NumberSet::kNone : *at);
    }
    EXPECT_EQ(set.find_at_least(limit), NumberSet::kNone);
  }
}

/// Best fit as it is said: among all packs, the one with the least room; of equals, the one that
/// was filled last.
std::vector<std::uint32_t> best_fit_by_hand(std::span<const std::uint32_t> sizes,
                                            std::uint32_t length) {
  struct Pack {
    std::uint32_t room;
    std::size_t filled_at;
  };
  std::vector<Pack> packs;
  std::vector<std::uint32_t> placed;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::size_t best = packs.size();
    for (std::size_t p = 0; p < packs.size(); ++p) {
      if (packs[p].room < sizes[i]) continue;
      if (best == packs.size() || packs[p].room < packs[best].room ||
          (packs[p].room == packs[best].room && packs[p].filled_at > packs[best].filled_at))
        best = p;
    }
    if (best == packs.size()) packs.push_back({length, 0});
    packs[best].room -= sizes[i];
    packs[best].filled_at = i;
    placed.push_back(static_cast<std::uint32_t>(best));
  }
  return placed;
}

TEST(BestFitTest, every_piece_goes_where_the_least_room_is_left) {
  for (const std::uint32_t length : {1U, 2U, 7U, 100U, 4096U}) {
    std::mt19937 random(length);
    std::vector<std::uint32_t> sizes(700);
    for (std::uint32_t& size : sizes) {
      const std::uint32_t largest = random() % 2 == 0 ? length : length / 4 + 1;
      size = static_cast<std::uint32_t>(1 + random() % largest);
    }
    BestFit packs(length);
    std::vector<std::uint32_t> placed;
    for (const std::uint32_t size : sizes) placed.push_back(packs.place(size));
    EXPECT_EQ(placed, best_fit_by_hand(sizes, length)) << length;
  }
}

class TokenBinsTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kLength = 50;

  /// Two Megatron shards of documents of any length, empty and long ones among them.
  std::shared_ptr<const ShardDataset> open_documents() {
    std::mt19937 random(3);
    for (const char* name : {"a", "b"}) {
      std::vector<std::size_t> lengths = {0, kLength, 3 * kLength, 3 * kLength + 7, 1};
      for (int i = 0; i < 200; ++i) lengths.push_back(random() % 90);
      write_megatron(dir_.file(name), lengths);
    }
    return open_dataset(dir_.path());
  }
  std::string packs_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(dir_.file(".stoker")))
      if (const std::string name = entry.path().filename();
          name.starts_with("packs-") && !name.ends_with(".lock"))
        return entry.path();
    return "";
  }
  const DatasetDir dir_;
};

TEST_F(TokenBinsTest, every_token_is_in_exactly_one_pack_and_documents_are_whole) {
  const auto dataset = open_documents();
  const auto packs = TokenBins::open(dataset, {.length = kLength});
  ASSERT_TRUE(packs.ok()) << packs.status().message();
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> seen;  // offset to size
  std::vector<BinPiece> pieces;
  std::uint64_t pieces_max = 0;
  for (std::uint64_t unit = 0; unit < packs->count(); ++unit) {
    ASSERT_TRUE(packs->locate(unit, pieces).ok());
    ASSERT_FALSE(pieces.empty());
    pieces_max = std::max<std::uint64_t>(pieces_max, pieces.size());
    std::uint64_t at = 0;
    for (const BinPiece& piece : pieces) {
      EXPECT_EQ(piece.at_bytes, at);
      at += piece.range.size_bytes;
      EXPECT_TRUE(
          seen.insert({{piece.shard, piece.range.offset_bytes}, piece.range.size_bytes}).second);
    }
    EXPECT_LE(at, packs->row_bytes());
  }
  EXPECT_EQ(packs->pieces_max(), pieces_max);
  EXPECT_EQ(packs->locate(packs->count(), pieces).code(), Code::invalid_argument);
  for (std::uint64_t i = 0; i < dataset->sample_count(); ++i) {
    const SampleLocation at = *dataset->index().locate(i);
    for (std::uint64_t skip = 0; skip < at.record.size_bytes; skip += packs->row_bytes()) {
      const auto found = seen.find({at.shard, at.record.offset_bytes + skip});
      ASSERT_NE(found, seen.end()) << "document " << i;
      EXPECT_EQ(found->second,
                std::min<std::uint64_t>(packs->row_bytes(), at.record.size_bytes - skip));
      seen.erase(found);
    }
  }
  EXPECT_TRUE(seen.empty()) << "tokens of no document";
}

TEST_F(TokenBinsTest, packs_are_read_into_rows) {
  const auto dataset = open_documents();
  const auto packs = TokenBins::open(dataset, {.length = kLength});
  ASSERT_TRUE(packs.ok());
  std::vector<RowPiece> wanted;
  std::vector<BinPiece> pieces;
  std::string expected(packs->count() * packs->row_bytes(),
                       static_cast<char>(GuardedMemory::kGuard));
  const std::array bins = {contents_of(dir_.file("a.bin")), contents_of(dir_.file("b.bin"))};
  for (std::uint32_t unit = 0; unit < packs->count(); ++unit) {
    ASSERT_TRUE(packs->locate(unit, pieces).ok());
    for (const BinPiece& piece : pieces) {
      wanted.push_back({.shard = piece.shard,
                        .range = piece.range,
                        .at_bytes = unit * packs->row_bytes() + piece.at_bytes,
                        .row = unit});
      expected.replace(wanted.back().at_bytes, piece.range.size_bytes, bins[piece.shard],
                       piece.range.offset_bytes, piece.range.size_bytes);
    }
  }
  for (const bool is_warm : {true, false}) {
    is_warm ? make_warm(dir_.path()) : make_cold(dir_.path());
    const auto fetcher = make_fetcher(dataset);
    FetchPlan plan;
    ASSERT_TRUE(fetcher->plan_rows(wanted, expected.size(), packs->count(), plan).ok());
    GuardedMemory memory(plan.memory_bytes);
    GuardedMemory rows(expected.size());
    std::vector<Status> failures(packs->count());
    ASSERT_TRUE(fetcher->read_rows(plan, memory.bytes(), rows.bytes(), failures).ok());
    for (const Status& status : failures) EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(std::ranges::equal(rows.bytes(), bytes_of(expected))) << is_warm;
  }
}

TEST_F(TokenBinsTest, they_are_built_once_for_each_length_and_again_when_the_samples_change) {
  const auto dataset = open_documents();
  ASSERT_TRUE(TokenBins::open(dataset, {.length = kLength}).ok());
  const std::string path = packs_file();
  const auto built_at = std::filesystem::last_write_time(path);
  ASSERT_TRUE(TokenBins::open(dataset, {.length = kLength}).ok());
  EXPECT_EQ(std::filesystem::last_write_time(path), built_at) << "taken as it was";
  EXPECT_EQ(TokenBins::open(dataset, {.length = 20})->length(), 20U);
  EXPECT_EQ(std::filesystem::last_write_time(path), built_at);
  const std::uint64_t count = TokenBins::open(dataset, {.length = kLength})->count();
  write_megatron(dir_.file("b"), std::array<std::size_t, 3>{10, 20, 30});
  const auto changed = open_dataset(dir_.path());
  EXPECT_LT(TokenBins::open(changed, {.length = kLength})->count(), count);
}

TEST_F(TokenBinsTest, processes_that_build_at_the_same_time_get_the_same) {
  const auto dataset = open_documents();
  const std::uint64_t count =
      TokenBins::parse(dataset, kLength, *TokenBins::build(*dataset, kLength))->count();
  std::array<std::uint64_t, 4> counts{};
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t& mine : counts)
      threads.emplace_back([&mine, &dataset] {
        const auto packs = TokenBins::open(dataset, {.length = kLength});
        mine = packs.ok() ? packs->count() : 0;
      });
  }
  for (const std::uint64_t mine : counts) EXPECT_EQ(mine, count);
}

TEST_F(TokenBinsTest, what_makes_no_sense_is_refused) {
  const auto dataset = open_documents();
  for (const std::uint64_t length : {std::uint64_t{0}, TokenBins::kLengthMax + 1})
    EXPECT_EQ(TokenBins::open(dataset, {.length = length}).status().code(), Code::invalid_argument);
  write_tar(dir_.file("a.tar"), make_samples(2));
  EXPECT_EQ(TokenBins::open(open_dataset(dir_.file("a.tar")), {.length = 4}).status().code(),
            Code::invalid_argument);
  write_tokens(dir_.file("empty.npy"), TokenFormat::npy, 0, 5);
  EXPECT_EQ(TokenBins::open(open_dataset(dir_.file("empty.npy")), {.length = 4}).status().code(),
            Code::invalid_argument);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(TokenBins::open(dataset, {.length = 33, .stop = stopped.get_token()}).status().code(),
            Code::cancelled);
}

TEST_F(TokenBinsTest, every_flipped_byte_is_found_when_it_is_looked_at) {
  const auto dataset = open_documents();
  const std::vector<std::byte> good = *TokenBins::build(*dataset, kLength);
  ASSERT_TRUE(TokenBins::parse(dataset, kLength, good)->verify().ok());
  for (std::size_t at = 0; at < good.size(); at += at < 200 ? 1 : 37) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0x10};
    const Result<TokenBins> packs = TokenBins::parse(dataset, kLength, bad);
    ASSERT_FALSE(packs.ok() && packs->verify().ok()) << "byte " << at;
  }
  for (std::size_t size = 0; size < good.size(); size += 1 + size / 20)
    EXPECT_FALSE(TokenBins::parse(dataset, kLength, std::span(good).first(size)).ok()) << size;
}

TEST_F(TokenBinsTest, a_damaged_file_is_built_again) {
  const auto dataset = open_documents();
  const std::uint64_t count = TokenBins::open(dataset, {.length = kLength})->count();
  flip_bit(packs_file(), 20);
  const auto packs = TokenBins::open(dataset, {.length = kLength});
  ASSERT_TRUE(packs.ok()) << packs.status().message();
  EXPECT_EQ(packs->count(), count);
  EXPECT_TRUE(packs->verify().ok());
}

TEST_F(TokenBinsTest, any_single_fault_leaves_none_or_a_whole_file) {
  const auto dataset = open_documents();
  for (int fail_at = 0;; ++fail_at) {
    std::filesystem::remove(packs_file());
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const auto packs = TokenBins::open(dataset, {.length = kLength, .ops = &ops});
    if (!ops.fired()) {
      EXPECT_TRUE(packs.ok());
      EXPECT_GT(fail_at, 4);
      break;
    }
    const std::string path = packs_file();
    if (path.empty() || path.find(".staged-") != std::string::npos) continue;
    const auto again = TokenBins::open(dataset, {.length = kLength});
    EXPECT_TRUE(again.ok() && again->verify().ok()) << ops.failed_op();
  }
}

}  // namespace
}  // namespace stoker::testing
