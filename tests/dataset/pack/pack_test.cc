#include "dataset/pack/pack.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "dataset/pack_support.h"
#include "dataset/shards/dataset_manifest.h"
#include "formats/table/shard_formats.h"
#include "formats/tfrecord/tfrecord_format.h"

namespace stoker::testing {
namespace {

Result<PackReport> pack_into(const PackInput& source, const std::string& directory,
                             const PackOptions& options) {
  return pack(posix_file_ops(), source, directory, options);
}

void expect_packed(const Result<PackReport>& report, std::uint64_t samples, std::uint64_t shards) {
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->is_complete);
  EXPECT_EQ(report->sample_count, samples);
  EXPECT_EQ(report->shard_count, shards);
}

/// What read_all() gives for images packed as `format`.
std::vector<std::pair<std::string, Fields>> expected_images(const PackInput& source,
                                                            const std::string& format) {
  std::vector<std::pair<std::string, Fields>> all;
  for (std::uint64_t i = 0; i < source.sample_count(); ++i) {
    InputSample sample;
    EXPECT_TRUE(source.read(i, sample).ok());
    Fields fields;
    for (const FieldView& field : sample.view.fields) {
      std::string bytes = text_of(field.bytes);
      if (format == "tar" && field.name == "cls") {
        std::int64_t number = 0;
        std::memcpy(&number, bytes.data(), sizeof number);
        bytes = std::to_string(number);
      }
      fields[std::string(field.name)] = bytes;
    }
    if (format != "tar") fields["__key__"] = std::string(sample.view.key);
    all.emplace_back(sample.view.key, std::move(fields));
  }
  return all;
}

class PackFormatTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PackFormatTest, images_read_back_equal) {
  const PackDir dir;
  write_images(dir.file("src"), 22);
  const auto source = open_source(dir.file("src"));
  PackOptions options = small_shards(GetParam());
  options.thread_count = 3;
  expect_packed(pack_into(*source, dir.file("dst"), options), 22, 6);
  auto read = read_all(dir.file("dst"));
  const auto expected = expected_images(*source, GetParam());
  ASSERT_EQ(read.size(), expected.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].first, expected[i].first) << "the field __key__ is the key";
    EXPECT_EQ(read[i].second, expected[i].second) << i;
  }
  EXPECT_EQ(contents_of(dir.file("dst/classes.json")),
            "{\n \"cat\": 0,\n \"dog\": 1,\n \"emu\": 2\n}\n");
}

TEST_P(PackFormatTest, the_index_is_written_along_and_used) {
  const PackDir dir;
  write_images(dir.file("src"), 9);
  const auto source = open_source(dir.file("src"));
  expect_packed(pack_into(*source, dir.file("dst"), small_shards(GetParam())), 9, 3);
  std::set<std::string> before;
  for (const auto& entry : std::filesystem::directory_iterator(dir.file("dst/.stoker")))
    before.insert(entry.path().filename());
  read_all(dir.file("dst"));  // checks that the index has checksums: one built now would not
  std::set<std::string> after;
  for (const auto& entry : std::filesystem::directory_iterator(dir.file("dst/.stoker")))
    after.insert(entry.path().filename());
  EXPECT_EQ(after, before);
  EXPECT_FALSE(after.contains("pack")) << "the parts are gone";
}

TEST_P(PackFormatTest, the_manifest_tells_the_truth) {
  const PackDir dir;
  write_images(dir.file("src"), 9);
  expect_packed(pack_into(*open_source(dir.file("src")), dir.file("dst"), small_shards(GetParam())),
                9, 3);
  const auto manifest = read_manifest(dir.file("dst"));
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->format, GetParam());
  EXPECT_EQ(manifest->sample_count(), 9U);
  std::map<std::string, std::string> files = visible_files(dir.file("dst"));
  files.erase("manifest.json");
  const auto check = [&](const ManifestFile& file) {
    ASSERT_TRUE(files.contains(file.name)) << file.name;
    EXPECT_EQ(files[file.name].size(), file.size_bytes);
    EXPECT_EQ(*sha256(std::as_bytes(std::span(files[file.name]))), file.sha256);
    files.erase(file.name);
  };
  for (const ManifestShard& shard : manifest->shards) check(shard.file);
  for (const ManifestFile& file : manifest->files) check(file);
  EXPECT_TRUE(files.empty()) << files.begin()->first << " is not in the manifest";
}

TEST_P(PackFormatTest, two_tasks_and_a_merge_equal_one_run) {
  const PackDir dir;
  write_images(dir.file("src"), 22);
  const auto source = open_source(dir.file("src"));
  PackOptions options = small_shards(GetParam());
  expect_packed(pack_into(*source, dir.file("one"), options), 22, 6);
  options.task_count = 2;
  for (const std::uint64_t task : {1U, 0U}) {
    EXPECT_EQ(merge_pack(posix_file_ops(), dir.file("two")).status().code(),
              task == 1 ? Code::not_found : Code::unavailable);
    options.task = task;
    const auto report = pack_into(*source, dir.file("two"), options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_FALSE(report->is_complete);
    EXPECT_EQ(report->shard_count, 3U);
  }
  expect_packed(merge_pack(posix_file_ops(), dir.file("two")), 22, 6);
  EXPECT_EQ(visible_files(dir.file("two")), visible_files(dir.file("one")));
  EXPECT_EQ(read_all(dir.file("two")), read_all(dir.file("one")));
  expect_packed(merge_pack(posix_file_ops(), dir.file("two")), 22, 6);  // and once more
}

TEST_P(PackFormatTest, threads_do_not_change_the_bytes) {
  const PackDir dir;
  write_images(dir.file("src"), 40);
  const auto source = open_source(dir.file("src"));
  PackOptions options = small_shards(GetParam());
  expect_packed(pack_into(*source, dir.file("a"), options), 40, 10);
  options.thread_count = 4;
  expect_packed(pack_into(*source, dir.file("b"), options), 40, 10);
  EXPECT_EQ(visible_files(dir.file("a")), visible_files(dir.file("b")));
}

TEST_P(PackFormatTest, json_lines_read_back_with_their_types) {
  const PackDir dir;
  std::string text;
  for (int i = 0; i < 9; ++i)
    text += "{\"t\": \"line " + std::to_string(i) + "\", \"n\": " + std::to_string(i - 4) +
            ", \"f\": " + std::to_string(i) + ".25}\n";
  write_text(dir.file("a.jsonl"), text);
  expect_packed(
      pack_into(*open_source(dir.file("a.jsonl")), dir.file("dst"), small_shards(GetParam())), 9,
      3);
  const auto all = read_all(dir.file("dst"));
  ASSERT_EQ(all.size(), 9U);
  EXPECT_EQ(all[5].second.at("t"), "line 5");
  EXPECT_EQ(all[5].second.at("n"), int64_bytes(1));
  EXPECT_EQ(all[5].second.at("f").size(),
            GetParam() == "tfrecord" ? sizeof(float) : sizeof(double));
}

INSTANTIATE_TEST_SUITE_P(Formats, PackFormatTest, ::testing::Values("tar", "mds", "tfrecord"),
                         [](const auto& test) { return test.param; });

TEST(PackTest, tokens_become_megatron_shards) {
  const PackDir dir;
  write_text(dir.file("t.bin"), noise(2000, 1));
  const auto source =
      open_source(dir.file("t.bin"), {.dtype = Dtype::uint16, .sequence_length = 64});
  const auto report = pack_into(*source, dir.file("dst"), small_shards("tokens"));
  expect_packed(report, 16, 4);
  EXPECT_EQ(report->format, "megatron");
  const auto all = read_all(dir.file("dst"));
  std::string joined;
  for (const auto& [key, fields] : all) joined += fields.at("tokens");
  EXPECT_EQ(joined, noise(2000, 1));
  const auto manifest = read_manifest(dir.file("dst"));
  ASSERT_TRUE(manifest.ok());
  ASSERT_EQ(manifest->files.size(), 4U);
  EXPECT_EQ(manifest->files[0].name, "shard-000000.idx");
}

TEST(PackTest, rows_become_headered_arrays_and_read_back) {
  const PackDir dir;
  write_text(dir.file("t.bin"), noise(2048, 1));
  for (const std::string format : {"counted", "shard001"}) {
    for (const Dtype dtype : {Dtype::int32, Dtype::float32, Dtype::uint16}) {
      SCOPED_TRACE(format + " " + std::string(dtype_name(dtype)));
      const std::uint64_t length = 128 / dtype_size_bytes(dtype);
      const auto source =
          open_source(dir.file("t.bin"), {.dtype = dtype, .sequence_length = length});
      const std::string dst = dir.file(format + std::string(dtype_name(dtype)));
      const auto report = pack_into(*source, dst, small_shards(format, 5));
      expect_packed(report, 16, 4);
      EXPECT_EQ(report->format, format);
      const auto dataset =
          ShardDataset::open({&dst, 1}, {.source = {.format = format, .dtype = dtype}});
      ASSERT_TRUE(dataset.ok()) << dataset.status().message();
      EXPECT_TRUE((*dataset)->index().has_checksums()) << "the one that was written along";
      std::string joined;
      SampleRecord record;
      for (std::uint64_t i = 0; i < 16; ++i) {
        ASSERT_TRUE((*dataset)->read(i, record).ok());
        joined += text_of(record.view().fields[0].bytes);
      }
      EXPECT_EQ(joined, noise(2048, 1));
    }
  }
  // Format and dtype need no word: the manifest has both.
  for (const std::string format : {"counted", "shard001"}) {
    for (const Dtype dtype : {Dtype::int32, Dtype::float32, Dtype::uint16}) {
      const auto dataset = ShardDataset::open(dir.file(format + std::string(dtype_name(dtype))));
      ASSERT_TRUE(dataset.ok()) << dataset.status().message();
      EXPECT_EQ((*dataset)->source().token_dtype(), dtype) << format;
    }
  }
  const std::string rows = dir.file("shard001int32");
  const auto told = ShardDataset::open({&rows, 1}, {.source = {.dtype = Dtype::float32}});
  ASSERT_TRUE(told.ok()) << told.status().message();
  EXPECT_EQ((*told)->source().token_dtype(), Dtype::float32) << "what the caller says goes first";
  EXPECT_EQ(std::filesystem::file_size(dir.file("countedint32/shard-000000.bin")), 24U + 5 * 128);
}

TEST(PackTest, rows_of_another_length_are_named_wherever_they_lie) {
  const PackDir dir;
  write_text(dir.file("t.bin"), noise(2000, 1));
  const auto source =
      open_source(dir.file("t.bin"), {.dtype = Dtype::int32, .sequence_length = 32});
  for (const std::uint64_t each : {16U, 15U}) {  // the short one last, or alone in its shard
    const auto report =
        pack_into(*source, dir.file("dst" + std::to_string(each)), small_shards("counted", each));
    EXPECT_EQ(report.status().code(), Code::invalid_argument);
    EXPECT_NE(report.status().message().find("t.bin: sequence 15"), std::string::npos)
        << report.status().message();
  }
}

TEST(PackTest, lists_of_numbers_are_lists_in_a_tfrecord) {
  const PackDir dir;
  write_text(dir.file("a.jsonl"),
             "{\"i\": [1, -2], \"f\": [1, 0.5], \"m\": [1, \"x\"]}\n"
             "{\"i\": [3], \"f\": [2], \"m\": [2]}\n");
  expect_packed(
      pack_into(*open_source(dir.file("a.jsonl")), dir.file("dst"), small_shards("tfrecord")), 2,
      1);
  const auto all = read_all(dir.file("dst"));
  EXPECT_EQ(all[0].second.at("i"), int64_bytes(1) + int64_bytes(-2));
  const float one_and_half[2] = {1, 0.5};
  EXPECT_EQ(all[0].second.at("f"), text_of(std::as_bytes(std::span(one_and_half))));
  EXPECT_EQ(all[1].second.at("f").size(), sizeof(float)) << "a float in every sample";
  EXPECT_EQ(all[1].second.at("m"), "[2]") << "JSON where one sample has more than numbers";
}

TEST(PackTest, a_number_too_large_for_a_tfrecord_is_refused_and_an_infinity_is_none) {
  const PackDir dir;
  for (const std::string value : {"1e300", "[0.5, -1e300]"}) {
    write_text(dir.file("a.jsonl"), "{\"x\": " + value + "}\n");
    const auto source = open_source(dir.file("a.jsonl"));
    const auto report = pack_into(*source, dir.file("dst"), small_shards("tfrecord"));
    EXPECT_EQ(report.status().code(), Code::invalid_argument) << value;
    for (const char* part : {"line 1", "field \"x\"", "1e+300", "float32"})
      EXPECT_NE(report.status().message().find(part), std::string_view::npos)
          << report.status().message();
    std::filesystem::remove_all(dir.file("dst"));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  SampleView sample;
  sample.fields = {
      {.name = "x", .bytes = std::as_bytes(std::span(&infinity, 1)), .type = FieldType::float64}};
  EXPECT_TRUE(fit_fields(tfrecord_format(), sample).ok());
}

TEST(PackTest, samples_with_fields_are_no_tokens) {
  const PackDir dir;
  write_images(dir.file("src"), 3);
  EXPECT_EQ(pack_into(*open_source(dir.file("src")), dir.file("dst"), small_shards("tokens"))
                .status()
                .code(),
            Code::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst")));
}

TEST(PackTest, shards_keep_to_their_size) {
  const PackDir dir;
  for (int i = 0; i < 40; ++i)
    write_text(dir.file("src/t/f" + std::to_string(100 + i) + ".bin"), noise(10'000, 1));
  PackOptions options;
  options.plan.shard_bytes = 64 << 10;
  ASSERT_TRUE(pack_into(*open_source(dir.file("src")), dir.file("dst"), options).ok());
  const auto manifest = read_manifest(dir.file("dst"));
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->shards.size(), 8U);
  for (const ManifestShard& shard : manifest->shards)
    EXPECT_LE(shard.file.size_bytes, (64U << 10) + 10240) << "tar's end rounds up";
}

TEST(PackTest, a_seed_shuffles_and_the_same_seed_gives_the_same) {
  const PackDir dir;
  write_images(dir.file("src"), 30);
  const auto source = open_source(dir.file("src"));
  PackOptions options = small_shards("tar", 10);
  ASSERT_TRUE(pack_into(*source, dir.file("plain"), options).ok());
  options.plan.shuffle_seed = 7;
  ASSERT_TRUE(pack_into(*source, dir.file("a"), options).ok());
  ASSERT_TRUE(pack_into(*source, dir.file("b"), options).ok());
  options.plan.shuffle_seed = 8;
  ASSERT_TRUE(pack_into(*source, dir.file("c"), options).ok());
  EXPECT_EQ(visible_files(dir.file("a")), visible_files(dir.file("b")));
  auto a = read_all(dir.file("a"));
  auto c = read_all(dir.file("c"));
  auto plain = read_all(dir.file("plain"));
  EXPECT_NE(a, plain);
  EXPECT_NE(a, c);
  std::sort(a.begin(), a.end());
  std::sort(c.begin(), c.end());
  std::sort(plain.begin(), plain.end());
  EXPECT_EQ(a, plain);
  EXPECT_EQ(c, plain);
}

TEST(PackTest, the_shuffle_is_a_permutation_that_never_changes) {
  EXPECT_EQ(shuffled(8, 1), (std::vector<std::uint64_t>{4, 3, 2, 7, 5, 6, 0, 1}));
  auto order = shuffled(1000, 3);
  std::sort(order.begin(), order.end());
  for (std::uint64_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], i);
  EXPECT_TRUE(shuffled(0, 1).empty());
}

TEST(PackTest, a_finished_job_is_recognised_and_another_refused) {
  const PackDir dir;
  write_images(dir.file("src"), 9);
  const auto source = open_source(dir.file("src"));
  const PackOptions options = small_shards("tar");
  expect_packed(pack_into(*source, dir.file("dst"), options), 9, 3);
  const auto again = pack_into(*source, dir.file("dst"), options);
  expect_packed(again, 9, 3);
  EXPECT_EQ(again->shards_found, 3U);

  const auto other_options = pack_into(*source, dir.file("dst"), small_shards("tar", 5));
  EXPECT_EQ(other_options.status().code(), Code::already_exists);
  EXPECT_NE(other_options.status().message().find("another"), std::string::npos);
  write_text(dir.file("src/cat/new.jpg"), "new");
  EXPECT_EQ(pack_into(*open_source(dir.file("src")), dir.file("dst"), options).status().code(),
            Code::already_exists);
}

TEST(PackTest, a_directory_that_holds_other_things_is_refused) {
  const PackDir dir;
  write_images(dir.file("src"), 3);
  write_text(dir.file("dst/precious.txt"), "mine");
  const auto report =
      pack_into(*open_source(dir.file("src")), dir.file("dst"), small_shards("tar"));
  EXPECT_EQ(report.status().code(), Code::already_exists);
  EXPECT_EQ(visible_files(dir.file("dst")).size(), 1U);
}

TEST(PackTest, a_foreign_shard_of_a_planned_name_is_kept) {
  const PackDir dir;
  write_images(dir.file("src"), 9);
  const auto source = open_source(dir.file("src"));
  PackOptions options = small_shards("tar");
  options.task_count = 3;
  ASSERT_TRUE(pack_into(*source, dir.file("dst"), options).ok());
  write_text(dir.file("dst/shard-000001.tar"), "theirs");
  options.task = 1;
  EXPECT_EQ(pack_into(*source, dir.file("dst"), options).status().code(), Code::already_exists);
  EXPECT_EQ(contents_of(dir.file("dst/shard-000001.tar")), "theirs");
}

TEST(PackTest, two_runs_at_once_are_refused) {
  const PackDir dir;
  write_images(dir.file("src"), 3);
  std::filesystem::create_directories(dir.file("dst/.stoker"));
  const auto lock = posix_file_ops().open(dir.file("dst/.stoker/pack.lock"), O_RDWR | O_CREAT);
  ASSERT_TRUE(lock.ok());
  ASSERT_TRUE(posix_file_ops().try_lock(lock->get(), LockMode::shared).ok());
  const auto source = open_source(dir.file("src"));
  PackOptions options = small_shards("tar");
  EXPECT_EQ(pack_into(*source, dir.file("dst"), options).status().code(), Code::unavailable);
  options.task_count = 2;  // tasks share it
  EXPECT_TRUE(pack_into(*source, dir.file("dst"), options).ok());
}

TEST(PackTest, a_sample_that_does_not_fit_the_format_is_named) {
  const PackDir dir;
  write_text(dir.file("src/t/a.txt"), "1");
  write_text(dir.file("src/t/b.txt"), "1");
  write_text(dir.file("src/t/b.json"), "1");
  const auto report =
      pack_into(*open_source(dir.file("src")), dir.file("dst"), small_shards("mds"));
  EXPECT_EQ(report.status().code(), Code::invalid_argument);
  EXPECT_NE(report.status().message().find("t/b.json"), std::string::npos)
      << report.status().message();
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst")));
  std::filesystem::create_directories(dir.file("there"));
  EXPECT_FALSE(
      pack_into(*open_source(dir.file("src")), dir.file("there"), small_shards("mds")).ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir.file("there")));
}

TEST(PackTest, files_that_mds_readers_would_stumble_over_are_named) {
  const PackDir dir;
  const std::pair<const char*, const char*> cases[] = {{"a.txt", "\xff\xfe"}, {"a.json", "nojson"}};
  for (const auto& [name, text] : cases) {
    std::filesystem::remove_all(dir.file("src"));
    write_text(dir.file("src/" + std::string(name)), text);
    const auto source = open_source(dir.file("src"));
    const Status refusal = pack_into(*source, dir.file("dst"), small_shards("mds")).status();
    EXPECT_EQ(refusal.code(), Code::invalid_argument);
    EXPECT_TRUE(refusal.message().starts_with(dir.file("src/" + std::string(name)) + ": column "))
        << refusal.message();
    std::filesystem::remove_all(dir.file("dst"));
    EXPECT_TRUE(pack_into(*source, dir.file("tar-" + std::string(name)), small_shards("tar")).ok());
  }
}

TEST(PackTest, options_that_make_no_sense_are_refused) {
  const PackDir dir;
  write_images(dir.file("src"), 3);
  const auto source = open_source(dir.file("src"));
  std::vector<PackOptions> wrong(6, small_shards("tar"));
  wrong[0].plan.format = "zip";
  wrong[1].plan.shard_bytes = 0;
  wrong[2].plan.prefix = "../x";
  wrong[3].task = 2;
  wrong[3].task_count = 2;
  wrong[4].task_count = 0;
  wrong[5].plan.format = "mds";
  wrong[5].plan.shard_bytes = std::uint64_t{5} << 30;
  for (const PackOptions& options : wrong)
    EXPECT_EQ(pack_into(*source, dir.file("dst"), options).status().code(), Code::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst")));
}

TEST(PackTest, a_stop_leaves_nothing_half_written_and_a_restart_finishes) {
  const PackDir dir;
  write_images(dir.file("src"), 22);
  const auto source = open_source(dir.file("src"));
  PackOptions options = small_shards("tar");
  ASSERT_TRUE(pack_into(*source, dir.file("one"), options).ok());
  std::stop_source stop;
  options.stop = stop.get_token();
  options.progress = [&](const PackProgress& now) {
    if (now.shards_done == 2) stop.request_stop();
  };
  EXPECT_EQ(pack_into(*source, dir.file("dst"), options).status().code(), Code::cancelled);
  EXPECT_EQ(staged_count(dir.file("dst")), 0U);
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst/manifest.json")));
  const auto again = pack_into(*source, dir.file("dst"), small_shards("tar"));
  expect_packed(again, 22, 6);
  EXPECT_EQ(again->shards_found, 2U);
  EXPECT_EQ(visible_files(dir.file("dst")), visible_files(dir.file("one")));
}

}  // namespace
}  // namespace stoker::testing
