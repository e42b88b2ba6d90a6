// Packs: rows of whole documents, with what tells them apart.
#include <gtest/gtest.h>

#include <random>

#include "dataset/fetch_support.h"
#include "dataset/loader_support.h"

namespace stoker::testing {
namespace {

constexpr std::uint64_t kLength = 50;

/// Two Megatron shards of documents of any length, empty and long ones among them.
class LoaderPacksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(3);
    for (const char* name : {"a", "b"}) {
      std::vector<std::size_t> lengths = {0, kLength, 3 * kLength + 7, 1};
      for (int i = 0; i < 100; ++i) lengths.push_back(random() % 70);
      write_megatron(dir_.file(name), lengths);
    }
    open(true);
  }

  void open(bool checksums) {
    ShardDataset::Options options;
    options.index.checksums = checksums;
    dataset_ = open_dataset(dir_.path(), options);
    auto packs = TokenBins::open(dataset_, {.length = kLength});
    ASSERT_TRUE(packs.ok()) << packs.status().message();
    packs_ = std::make_shared<const TokenBins>(*std::move(packs));
  }

  LoaderRunOptions options(std::uint64_t batch, Shuffle shuffle = Shuffle::global) const {
    LoaderRunOptions options;
    options.datasets = {dataset_};
    options.packs = {packs_};
    OrderOptions order{.shuffle = shuffle, .seed = 5, .sample_count = packs_->count()};
    if (shuffle == Shuffle::block) {
      order.block_samples = 3;
      order.window_blocks = 2;
      order.deal_samples = batch;
    }
    options.cursor.order = *resolve_order(order);
    options.order = *make_order(options.cursor.order);
    options.cut = {.global_batch_size = batch};
    options.threads = 2;
    return options;
  }

  /// A row as the format's page says it, from ShardDataset::read() alone.
  struct Row {
    std::vector<std::int64_t> tokens, positions, documents;
    std::uint64_t length = 0;
    bool is_checked = true;
  };
  Row expected_row(std::uint64_t unit, std::int64_t pad) const {
    Row row;
    std::vector<BinPiece> pieces;
    EXPECT_TRUE(packs_->locate(unit, pieces).ok());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::string name = dir_.file(pieces[i].shard == 0 ? "a.bin" : "b.bin");
      const std::string bytes =
          contents_of(name).substr(pieces[i].range.offset_bytes, pieces[i].range.size_bytes);
      for (std::size_t k = 0; k < bytes.size() / 2; ++k) {
        std::uint16_t token = 0;
        std::memcpy(&token, bytes.data() + 2 * k, 2);
        row.tokens.push_back(token);
        row.positions.push_back(static_cast<std::int64_t>(k));
        row.documents.push_back(static_cast<std::int64_t>(i));
      }
      row.is_checked = row.is_checked && pieces[i].crc32c.has_value();
    }
    row.length = row.tokens.size();
    for (std::int64_t k = 0; row.tokens.size() < kLength; ++k) {
      row.tokens.push_back(pad);
      row.positions.push_back(k);
      row.documents.push_back(-1);
    }
    return row;
  }

  DatasetDir dir_;
  std::shared_ptr<const ShardDataset> dataset_;
  std::shared_ptr<const TokenBins> packs_;
};

template <typename T>
std::vector<std::int64_t> row_of(const Column& column, std::size_t row) {
  const std::vector<T> all = numbers_of<T>(column);
  return {all.begin() + static_cast<std::ptrdiff_t>(row * kLength),
          all.begin() + static_cast<std::ptrdiff_t>((row + 1) * kLength)};
}

TEST_F(LoaderPacksTest, rows_are_the_packs_with_positions_and_documents) {
  for (const bool is_warm : {true, false}) {
    is_warm ? make_warm(dir_.path()) : make_cold(dir_.path());
    for (const std::int64_t pad : {0, 7, -100}) {
      LoaderRunOptions loader_options = options(8);
      loader_options.fields = {
          {.name = "tokens", .kind = FieldKind::tokens, .pad_value = static_cast<double>(pad)}};
      if (pad < 0) loader_options.fields[0].dtype = Dtype::int64;
      const auto loader = start_loader(loader_options);
      ASSERT_NE(loader, nullptr);
      std::uint64_t unchecked = 0;
      for (std::uint64_t at = 0; at + 8 <= packs_->count(); at += 8) {
        const NextBatch next = loader->next();
        ASSERT_EQ(next.kind, Kind::batch) << next.status.message();
        ASSERT_EQ(next.batch.columns().size(), 3U);
        const Column& tokens = *next.batch.find("tokens");
        for (std::size_t row = 0; row < 8; ++row) {
          const SampleRef ref = loader_options.order->at(0, at + row);
          const Row expected = expected_row(ref.sample, pad);
          EXPECT_EQ(
              pad < 0 ? row_of<std::int64_t>(tokens, row) : row_of<std::uint16_t>(tokens, row),
              expected.tokens);
          EXPECT_EQ(row_of<std::int32_t>(*next.batch.find(kPositionIds), row), expected.positions);
          EXPECT_EQ(row_of<std::int32_t>(*next.batch.find(kDocumentIds), row), expected.documents);
          EXPECT_EQ(tokens.lengths[row], expected.length);
          unchecked += expected.is_checked ? 0 : 1;
        }
      }
      EXPECT_EQ(loader->next().kind, Kind::end);
      EXPECT_EQ(loader->stats().unchecked, unchecked) << "parts of documents, and no others";
      EXPECT_GT(loader->stats().fetch.checked_bytes, 0U);
    }
  }
}

TEST_F(LoaderPacksTest, global_batches_are_the_same_for_every_world_size_and_every_cut) {
  for (const Shuffle shuffle : {Shuffle::global, Shuffle::block, Shuffle::off}) {
    LoaderRunOptions one = options(8, shuffle);
    one.cut.tail = Tail::wrap;
    one.end_epoch = 2;
    const auto whole = start_loader(one);
    std::vector<std::vector<std::uint64_t>> units;
    std::vector<std::string> tokens;
    std::vector<Cursor> cursors = {one.cursor};
    for (NextBatch next = whole->next(); next.kind == Kind::batch; next = whole->next()) {
      units.emplace_back();
      for (const SampleRef& ref : next.batch.samples()) units.back().push_back(ref.sample);
      tokens.push_back(text_of(next.batch.find("tokens")->data));
      cursors.push_back(next.batch.cursor());
    }
    ASSERT_EQ(units.size(), *whole->batch_count());
    for (const std::uint64_t world : {1U, 2U, 4U, 8U}) {
      for (std::size_t cut = 0; cut < units.size(); ++cut) {
        std::vector<std::unique_ptr<LoaderRun>> ranks;
        for (std::uint64_t rank = 0; rank < world; ++rank) {
          LoaderRunOptions part = one;
          part.cut.rank = rank;
          part.cut.world_size = world;
          part.cursor = cursors[cut];
          ranks.push_back(start_loader(part));
        }
        for (std::size_t b = cut; b < std::min(units.size(), cut + 3); ++b) {
          std::vector<std::uint64_t> seen;
          std::string bytes;
          for (const auto& loader : ranks) {
            const NextBatch next = loader->next();
            ASSERT_EQ(next.kind, Kind::batch) << next.status.message();
            for (const SampleRef& ref : next.batch.samples()) seen.push_back(ref.sample);
            bytes += text_of(next.batch.find("tokens")->data);
          }
          ASSERT_EQ(seen, units[b]) << world << " ranks from batch " << cut;
          ASSERT_EQ(bytes, tokens[b]) << world << " ranks from batch " << cut;
        }
      }
    }
  }
}

TEST_F(LoaderPacksTest, the_least_memory_is_enough_also_for_more_pieces_than_are_read_at_once) {
  write_megatron(dir_.file("a"), std::vector<std::size_t>(4000, 1));
  open(true);
  ASSERT_EQ(packs_->pieces_max(), kLength);
  make_cold(dir_.path());
  LoaderRunOptions loader_options = options(32);
  loader_options.cut.tail = Tail::wrap;
  loader_options.threads = 4;
  loader_options.memory_bytes = *LoaderRun::memory_needed(loader_options);
  const auto loader = start_loader(loader_options);
  for (NextBatch next = loader->next(); next.kind != Kind::end; next = loader->next()) {
    ASSERT_EQ(next.kind, Kind::batch) << next.status.message();
    for (std::size_t row = 0; row < 32; ++row)
      ASSERT_EQ(row_of<std::uint16_t>(next.batch.columns()[0], row),
                expected_row(next.batch.samples()[row].sample, 0).tokens);
  }
  EXPECT_EQ(loader->stats().leased_bytes, 0U);
}

TEST_F(LoaderPacksTest, a_document_whose_checksum_is_wrong_is_named_or_its_pack_replaced) {
  std::uint64_t damaged = packs_->count();
  std::vector<BinPiece> pieces;
  for (std::uint64_t unit = 0; unit < packs_->count() && damaged == packs_->count(); ++unit) {
    ASSERT_TRUE(packs_->locate(unit, pieces).ok());
    if (pieces.size() > 1 && pieces[1].crc32c) damaged = unit;
  }
  ASSERT_LT(damaged, packs_->count());
  const std::string path = dir_.file(pieces[1].shard == 0 ? "a.bin" : "b.bin");
  const auto time = std::filesystem::last_write_time(path);
  flip_bit(path, pieces[1].range.offset_bytes);
  std::filesystem::last_write_time(path, time);  // or it would be another shard
  for (const bool is_warm : {true, false}) {
    is_warm ? make_warm(dir_.path()) : make_cold(dir_.path());
    LoaderRunOptions loader_options = options(1, Shuffle::off);
    loader_options.cursor.position = damaged;
    const NextBatch next = start_loader(loader_options)->next();
    ASSERT_EQ(next.kind, Kind::failed);
    EXPECT_EQ(next.status.code(), Code::corrupt);
    for (const std::string& part :
         {"pack " + std::to_string(damaged), path,
          "at byte " + std::to_string(pieces[1].range.offset_bytes), std::string("checksum")})
      EXPECT_NE(next.status.message().find(part), std::string::npos) << next.status.message();
    loader_options.on_error = OnError::skip;
    const auto loader = start_loader(loader_options);
    const NextBatch other = loader->next();
    ASSERT_EQ(other.kind, Kind::batch) << other.status.message();
    const std::uint64_t unit = other.batch.samples()[0].sample;
    EXPECT_NE(unit, damaged);
    EXPECT_EQ(row_of<std::uint16_t>(other.batch.columns()[0], 0), expected_row(unit, 0).tokens);
    EXPECT_EQ(row_of<std::int32_t>(other.batch.columns()[2], 0), expected_row(unit, 0).documents);
    EXPECT_EQ(loader->stats().replaced, 1U);
  }
}

TEST_F(LoaderPacksTest, what_fails_in_the_first_group_of_pieces_is_not_forgotten_in_the_next) {
  write_megatron(dir_.file("a"), std::vector<std::size_t>(4000, 1));
  open(true);
  const std::string path = dir_.file("a.bin");
  const auto time = std::filesystem::last_write_time(path);
  flip_bit(path, 0);
  std::filesystem::last_write_time(path, time);
  const NextBatch next = start_loader(options(32, Shuffle::off))->next();
  ASSERT_EQ(next.kind, Kind::failed);
  EXPECT_EQ(next.status.code(), Code::corrupt) << next.status.message();
}

TEST_F(LoaderPacksTest, without_checksums_every_row_counts_as_unchecked) {
  std::filesystem::remove_all(dir_.file(".stoker"));
  open(false);
  const auto loader = start_loader(options(8));
  while (loader->next().kind == Kind::batch) {
  }
  EXPECT_EQ(loader->stats().unchecked, loader->stats().samples);
  EXPECT_EQ(loader->stats().fetch.checked_bytes, 0U);
}

TEST_F(LoaderPacksTest, arrays_that_were_copied_may_be_given_back) {
  const auto loader = start_loader(options(8));
  NextBatch next = loader->next();
  ASSERT_EQ(next.kind, Kind::batch);
  EXPECT_GT(next.batch.leased_bytes(), 0U);
  next.batch.release_arrays();
  EXPECT_EQ(next.batch.leased_bytes(), 0U);
  EXPECT_TRUE(next.batch.find("tokens")->data.empty());
  EXPECT_EQ(next.batch.key(0), std::to_string(next.batch.samples()[0].sample));
}

TEST_F(LoaderPacksTest, what_makes_no_sense_is_refused) {
  LoaderRunOptions loader_options = options(8);
  loader_options.fields = {{.name = "x"}};
  EXPECT_EQ(LoaderRun::start(loader_options).status().message(),
            "token packs have one column, of the kind \"tokens\"");
  loader_options.fields = {{.name = "tokens", .kind = FieldKind::tokens, .pad_value = -1}};
  EXPECT_EQ(LoaderRun::start(loader_options).status().message(),
            "the padding -1 is not a valid uint16");
  loader_options.fields = {{.name = "document_ids", .kind = FieldKind::tokens}};
  EXPECT_EQ(LoaderRun::start(loader_options).status().code(), Code::invalid_argument);
  loader_options = options(8);
  loader_options.windows = {
      std::make_shared<const TokenWindows>(*TokenWindows::make(*dataset_, {.window = 8}))};
  EXPECT_EQ(LoaderRun::start(loader_options).status().message(),
            "token windows or packs: not both");
}

}  // namespace
}  // namespace stoker::testing
