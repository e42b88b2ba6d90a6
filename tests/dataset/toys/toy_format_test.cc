// A format of our own making is read, packed, verified and streamed: all that the layers above know
// of it is its row.
#include "dataset/toys/toy_format.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "conformance/shard_format_suite.h"
#include "dataset/input/input.h"
#include "dataset/loader_support.h"
#include "dataset/pack/convert.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/verify.h"
#include "dataset/shards/shard_names.h"
#include "formats/table/shard_formats.h"

namespace stoker::testing {
namespace {

[[maybe_unused]] const bool kIsAdded = [] {
  add_shard_format(toy_format());
  return true;
}();

ShardFormatMaker toy_maker() {
  ShardFormatMaker maker{
      .name = "toy",
      .samples =
          [](std::size_t count, std::mt19937_64& random) {
            std::vector<OwnedSample> samples;
            for (std::size_t i = 0; i < count; ++i)
              samples.push_back({std::string(1 + random() % 200, 'k') + std::to_string(i),
                                 {{"a", std::string(random() % 2000, 'x')}, {"b.c", ""}}});
            return samples;
          },
      .writer = [](ByteSink& sink,
                   std::span<const OwnedSample>) { return toy_format().make_writer({}, sink); },
      .reader = [](const WrittenShard&) -> Result<std::unique_ptr<ShardReader>> {
        return toy_format().make_reader();
      }};
  OwnedSample array{"a", {{"x", "1234", FieldType::array, "<i4", {1}}}};
  maker.refused = {{"no key", {}, {"", {{"x", "1"}}}},
                   {"no fields", {}, {"a", {}}},
                   {"no name", {}, {"a", {{"", "1"}}}},
                   {"an array", {}, array}};
  return maker;
}

INSTANTIATE_TEST_SUITE_P(toy, ShardFormatSuite, ::testing::Values(toy_maker()), shard_format_name);

/// Samples in tar shards, converted to toys.
class ToyDatasetTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kCount = 100;

  ToyDatasetTest() {
    PackOptions options;
    options.plan.format = "toy";
    options.plan.samples_per_shard = 30;
    const auto report = convert(posix_file_ops(), source_.paths(), toys_.file("toys"), {}, options);
    EXPECT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report.ok() ? report->shard_count : 0, 4U);
  }

  std::string directory() { return toys_.file("toys"); }

  LoaderData source_{kCount};
  DatasetDir toys_;
};

TEST(ToyFormatTest, is_named_in_help_texts_and_its_shards_are_not_packed_as_files) {
  EXPECT_TRUE(list_shard_formats().ends_with(", toy"));
  EXPECT_TRUE(list_written_formats(" or ").ends_with(" or toy"));
  EXPECT_TRUE(describe_written_formats().ends_with(" or toy"));
  EXPECT_EQ(default_written_format(/*is_array=*/false).name, "tar");
  EXPECT_TRUE(is_sample_shard_name("shard-000000.toy"));
}

TEST_F(ToyDatasetTest, is_opened_by_content_and_read) {
  const auto dataset = ShardDataset::open(directory());
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ((*dataset)->source().format(), "toy");
  EXPECT_TRUE(std::filesystem::exists(directory() + "/shard-000003.toy"));
  ASSERT_EQ((*dataset)->sample_count(), kCount);
  SampleRecord record;
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE((*dataset)->read(i, record).ok());
    const OwnedSample expected = make_sample(i);
    EXPECT_EQ(record.key(), expected.key);
    for (const OwnedField& field : expected.fields)
      EXPECT_EQ(text_of(record.view().find(field.name)->bytes), field.bytes);
  }
}

TEST_F(ToyDatasetTest, is_verified_and_its_damage_found) {
  const auto sound = verify_shards(directory());
  ASSERT_TRUE(sound.ok()) << sound.status().message();
  EXPECT_TRUE(sound->problems.empty());
  EXPECT_EQ(sound->sample_count, kCount);
  std::fstream shard(directory() + "/shard-000001.toy",
                     std::ios::in | std::ios::out | std::ios::binary);
  shard.seekp(500);
  shard.put('!');
  shard.close();
  const auto damaged = verify_shards(directory());
  ASSERT_TRUE(damaged.ok());
  EXPECT_FALSE(damaged->problems.empty());
}

TEST_F(ToyDatasetTest, is_streamed_in_the_order_of_any_other) {
  const auto dataset = ShardDataset::open(directory());
  ASSERT_TRUE(dataset.ok());
  LoaderRunOptions options = source_.options(10);
  const std::vector<std::string> expected = all_batches(source_.options(10));
  options.datasets = {*dataset};
  options.cursor.fingerprint = (*dataset)->index().fingerprint();
  EXPECT_EQ(all_batches(std::move(options)), expected);
}

TEST_F(ToyDatasetTest, is_converted_back) {
  PackOptions options;
  options.plan.format = "tfrecord";
  ASSERT_TRUE(
      convert(posix_file_ops(), std::vector{directory()}, toys_.file("records"), {}, options).ok());
  const auto records = ShardDataset::open(toys_.file("records"));
  ASSERT_TRUE(records.ok()) << records.status().message();
  EXPECT_EQ((*records)->sample_count(), kCount);
}

std::vector<std::string> names_of_rows() {
  std::vector<std::string> names = {"toy"};
  for (const ShardFormat* const format : shard_formats())
    if (format->name != "toy") names.emplace_back(format->name);
  return names;
}

/// Their names are compared with those of ShardFormatSuite in all programs
/// (tests/tools/test_format_conformance.py).
class ShardFormatRowTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ShardFormatRowTest, is_sound_and_found_by_its_names) {
  const ShardFormat* const format = find_shard_format(GetParam());
  ASSERT_NE(format, nullptr);
  EXPECT_EQ(format->name, GetParam());
  EXPECT_LE(format->name.size(), 15U);
  EXPECT_EQ(format->written_as.empty(), format->make_writer == nullptr);
  EXPECT_EQ(format->written_as.empty(), format->ending.empty());
  if (format->make_writer == nullptr) return;
  const auto found = parse_written_format(format->written_as);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, format);
}

INSTANTIATE_TEST_SUITE_P(row, ShardFormatRowTest, ::testing::ValuesIn(names_of_rows()),
                         [](const auto& test) { return test.param; });

TEST(ShardFormatTableTest, other_names_are_refused) {
  EXPECT_EQ(parse_shard_format("tra").status().code(), Code::invalid_argument);
  EXPECT_EQ(parse_written_format("").status().code(), Code::invalid_argument);
  EXPECT_EQ(parse_written_format("litdata").status().code(), Code::invalid_argument);
}

/// Every format that is written, ours and the toy, holds the same samples.
class WrittenFormatTest : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr std::uint64_t kCount = 40;

  const ShardFormat& format() const { return **parse_written_format(GetParam()); }
  PackOptions options() const {
    PackOptions options;
    options.plan.format = GetParam();
    options.plan.samples_per_shard = 15;
    return options;
  }
  std::string out() { return dir_.file("out"); }

  /// Rows of numbers, which every format holds.
  std::string write_rows() {
    MemorySink rows;
    auto writer = TokenWriter::make(rows, TokenFormat::npy, Dtype::uint16, {kCount, 8});
    EXPECT_TRUE(writer.ok());
    for (std::uint16_t i = 0; i < kCount * 8; ++i)
      EXPECT_TRUE(writer->append(std::as_bytes(std::span(&i, 1))).ok());
    EXPECT_TRUE(writer->finish().ok());
    write_file(dir_.file("rows.npy"), rows.bytes);
    return dir_.file("rows.npy");
  }
  /// A tar, for formats that hold samples of several fields.
  std::string write_source() {
    if (format().is_array) return write_rows();
    write_tar(dir_.file("samples.tar"), make_samples(kCount));
    return dir_.file("samples.tar");
  }
  /// The same as files, in a directory.
  std::string write_files() {
    if (format().is_array) return write_rows();
    for (const OwnedSample& sample : make_samples(kCount)) {
      const std::string stem = dir_.file("files/" + sample.key);
      std::filesystem::create_directories(std::filesystem::path(stem).parent_path());
      write_file(stem + ".txt", bytes_of(sample.fields[0].bytes));
      write_file(stem + ".jpg", bytes_of(sample.fields[1].bytes));
    }
    return dir_.file("files");
  }

  /// Every field of the expected sample; an array has one, of any name.
  void expect_fields(std::span<const FieldView> found, const SampleView& expected) const {
    for (const FieldView& field : expected.fields) {
      const auto same = format().is_array ? found.begin()
                                          : std::ranges::find(found, field.name, &FieldView::name);
      ASSERT_NE(same, found.end()) << field.name;
      EXPECT_EQ(text_of(same->bytes), text_of(field.bytes)) << field.name;
    }
  }

  void expect_streamed(const std::shared_ptr<const ShardDataset>& dataset,
                       const PackInput& source) {
    const auto loader = start_loader({.datasets = {dataset},
                                      .cut = {.global_batch_size = 8},
                                      .memory_bytes = std::size_t{64} << 20,
                                      .threads = 2});
    ASSERT_NE(loader, nullptr);
    std::vector<int> seen(kCount, 0);
    for (NextBatch next = loader->next(); next.kind != Kind::end; next = loader->next()) {
      ASSERT_EQ(next.kind, Kind::batch) << next.status.message();
      for (std::size_t i = 0; i < next.batch.size(); ++i) {
        const std::uint64_t number = next.batch.samples()[i].sample;
        ++seen.at(number);
        std::vector<FieldView> found;
        for (const Column& column : next.batch.columns())
          found.push_back({.name = column.name, .bytes = column.views[i]});
        InputSample expected;
        ASSERT_TRUE(source.read(number, expected).ok());
        expect_fields(found, expected.view);
      }
    }
    EXPECT_EQ(seen, std::vector<int>(kCount, 1)) << "each sample once";
  }

  /// What is in out() is a dataset of this format, with the samples of the source.
  void expect_whole(const PackInput& source) {
    const auto dataset = ShardDataset::open(out());
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    EXPECT_EQ(&(*dataset)->source().shard_format(), &format());
    ASSERT_EQ((*dataset)->sample_count(), kCount);
    ASSERT_EQ(source.sample_count(), kCount);
    SampleRecord record;
    InputSample expected;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      SCOPED_TRACE(i);
      ASSERT_TRUE((*dataset)->read(i, record).ok());
      ASSERT_TRUE(source.read(i, expected).ok());
      expect_fields(record.view().fields, expected.view);
    }
    const auto report = verify_shards(out());
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_TRUE(report->problems.empty()) << report->problems.front().message;
    expect_streamed(*dataset, source);
  }

 private:
  DatasetDir dir_;
};

TEST_P(WrittenFormatTest, holds_what_was_converted_and_is_recognised_verified_and_streamed) {
  const std::string source = write_source();
  const auto converted = convert(posix_file_ops(), std::vector{source}, out(), {}, options());
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  EXPECT_EQ(converted->shard_count, 3U);
  const auto original = ShardDataset::open(source);
  ASSERT_TRUE(original.ok());
  const auto input = make_dataset_input(*original);
  ASSERT_TRUE(input.ok());
  expect_whole(**input);
}

TEST_P(WrittenFormatTest, holds_what_was_packed_and_is_recognised_verified_and_streamed) {
  const auto input = open_input(write_files());
  ASSERT_TRUE(input.ok()) << input.status().message();
  const auto packed = pack(posix_file_ops(), **input, out(), options());
  ASSERT_TRUE(packed.ok()) << packed.status().message();
  EXPECT_TRUE(packed->is_complete);
  EXPECT_EQ(packed->shard_count, 3U);
  expect_whole(**input);
}

INSTANTIATE_TEST_SUITE_P(all, WrittenFormatTest, ::testing::ValuesIn([] {
                           std::vector<std::string> names = {"toy"};
                           for (const ShardFormat* const format : shard_formats())
                             if (!format->written_as.empty() && format->name != "toy")
                               names.emplace_back(format->written_as);
                           return names;
                         }()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace stoker::testing
