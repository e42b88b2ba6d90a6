// A format of our own making is read, packed, verified and streamed: all that the layers above know
// of it is its row.
#include "dataset/toys/toy_format.h"

#include "conformance/shard_format_suite.h"
#include "dataset/input/input.h"
#include "dataset/loader_support.h"
#include "dataset/pack/convert.h"
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
  const auto dataset = Dataset::open(directory());
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
  const auto sound = verify_dataset(directory());
  ASSERT_TRUE(sound.ok()) << sound.status().message();
  EXPECT_TRUE(sound->problems.empty());
  EXPECT_EQ(sound->sample_count, kCount);
  std::fstream shard(directory() + "/shard-000001.toy",
                     std::ios::in | std::ios::out | std::ios::binary);
  shard.seekp(500);
  shard.put('!');
  shard.close();
  const auto damaged = verify_dataset(directory());
  ASSERT_TRUE(damaged.ok());
  EXPECT_FALSE(damaged->problems.empty());
}

TEST_F(ToyDatasetTest, is_streamed_in_the_order_of_any_other) {
  const auto dataset = Dataset::open(directory());
  ASSERT_TRUE(dataset.ok());
  LoaderOptions options = source_.options(10);
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
  const auto records = Dataset::open(toys_.file("records"));
  ASSERT_TRUE(records.ok()) << records.status().message();
  EXPECT_EQ((*records)->sample_count(), kCount);
}

TEST(ShardFormatTableTest, every_row_is_sound_and_found_by_its_names) {
  for (const ShardFormat* const format : shard_formats()) {
    EXPECT_EQ(find_shard_format(format->name), format);
    EXPECT_LE(format->name.size(), 15U) << format->name;
    EXPECT_EQ(format->written_as.empty(), format->make_writer == nullptr) << format->name;
    EXPECT_EQ(format->written_as.empty(), format->ending.empty()) << format->name;
    if (format->make_writer == nullptr) continue;
    const auto found = parse_written_format(format->written_as);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, format);
  }
  EXPECT_EQ(parse_shard_format("tra").status().code(), Code::invalid_argument);
  EXPECT_EQ(parse_written_format("").status().code(), Code::invalid_argument);
  EXPECT_EQ(parse_written_format("litdata").status().code(), Code::invalid_argument);
}

/// Every format that is written, ours and the toy, holds the same samples.
class WrittenFormatTest : public ::testing::TestWithParam<std::string> {};

TEST_P(WrittenFormatTest, holds_what_was_packed_and_is_recognised_verified_and_streamed) {
  const ShardFormat& format = **parse_written_format(GetParam());
  DatasetDir dir;
  const std::string npy = dir.file("rows.npy");
  if (format.is_array) {
    MemorySink rows;
    auto writer = TokenWriter::make(rows, TokenFormat::npy, Dtype::uint16, {40, 8});
    ASSERT_TRUE(writer.ok());
    for (std::uint16_t i = 0; i < 320; ++i)
      ASSERT_TRUE(writer->append(std::as_bytes(std::span(&i, 1))).ok());
    ASSERT_TRUE(writer->finish().ok());
    write_file(npy, rows.bytes);
  } else {
    write_tar(dir.file("samples.tar"), make_samples(40));
  }
  PackOptions options;
  options.plan.format = GetParam();
  options.plan.samples_per_shard = 15;
  const std::vector<std::string> source = {format.is_array ? npy : dir.file("samples.tar")};
  const auto packed = convert(posix_file_ops(), source, dir.file("out"), {}, options);
  ASSERT_TRUE(packed.ok()) << packed.status().message();

  const auto dataset = Dataset::open(dir.file("out"));
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  EXPECT_EQ(&(*dataset)->source().shard_format(), &format);
  ASSERT_EQ((*dataset)->sample_count(), 40U);
  const auto original = Dataset::open(source.front());
  ASSERT_TRUE(original.ok());
  SampleRecord record;
  SampleRecord expected;
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE((*dataset)->read(i, record).ok());
    ASSERT_TRUE((*original)->read(i, expected).ok());
    for (const FieldView& field : expected.view().fields) {
      const FieldView* const found =
          format.is_array ? &record.view().fields.front() : record.view().find(field.name);
      ASSERT_NE(found, nullptr) << field.name;
      EXPECT_EQ(text_of(found->bytes), text_of(field.bytes)) << field.name << " of " << i;
    }
  }
  const auto report = verify_dataset(dir.file("out"));
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->problems.empty()) << report->problems.front().message;
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
