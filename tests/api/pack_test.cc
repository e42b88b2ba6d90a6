#include "stoker/pack.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "api/shards.h"
#include "stoker/verify.h"

namespace stoker {
namespace {

using testing::Folder;
using testing::key_of;
using testing::must;
using testing::write_file;

Status write_samples(DatasetWriter& writer, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string image(10 + static_cast<std::size_t>(i % 31), static_cast<char>(i));
    const double weight = static_cast<double>(i) / 2;
    const std::array<float, 6> x = {static_cast<float>(i), 1, 2, 3, 4, 5};
    const std::array<std::uint64_t, 2> shape = {2, 3};
    STOKER_TRY(
        writer.write(key_of(static_cast<std::size_t>(i)),
                     {bytes_field("jpg", std::as_bytes(std::span(image))), number_field("cls", i),
                      number_field("weight", weight), text_field("caption", "a picture"),
                      array_field("x", Dtype::float32, std::as_bytes(std::span(x)), shape)}));
  }
  return {};
}

TEST(DatasetWriterTest, what_was_written_is_read_with_its_types_in_every_format) {
  for (const std::string format : {"tar", "mds", "tfrecord"}) {
    const Folder folder;
    DatasetWriter writer = must(DatasetWriter::open(
        {.directory = folder.file("out"), .format = format, .samples_per_shard = 40}));
    const Status written = write_samples(writer, 100);
    ASSERT_TRUE(written.ok()) << format << ": " << written.message();
    EXPECT_EQ(writer.size(), 100U);
    const PackReport report = must(std::move(writer).commit());
    EXPECT_EQ(report.sample_count, 100U);
    EXPECT_EQ(report.shard_count, 3U);
    EXPECT_TRUE(report.is_complete);

    const Dataset dataset = must(Dataset::open(folder.file("out")));
    EXPECT_EQ(dataset.size(), 100U);
    EXPECT_TRUE(dataset.has_checksums());
    const Sample sample = must(dataset.read(77));
    EXPECT_EQ(sample.key(), key_of(77)) << format;
    EXPECT_EQ(sample.find("jpg")->bytes.size(), 10U + 77 % 31);
    const std::string x = format == "tar" ? "x.npy" : "x";
    Loader loader = must(
        Loader::open({.data = dataset,
                      .batch_size = 100,
                      .shuffle = Shuffle::off,
                      .fields = {{"cls", FieldKind::int64},
                                 {"weight", FieldKind::float64},
                                 {"caption", FieldKind::text},
                                 {x, FieldKind::array, "", "", {}, Dtype::float32, {{2, 3}}}}}));
    const auto batch = must(loader.next());
    EXPECT_EQ(must(batch->values<std::int64_t>("cls"))[99], 99);
    EXPECT_EQ(must(batch->values<double>("weight"))[3], 1.5);
    EXPECT_EQ(must(batch->values<float>(x))[6 * 42], 42.0F);
    const VerifyReport verified = must(verify_dataset(folder.file("out")));
    EXPECT_TRUE(verified.has_manifest && verified.problems.empty()) << format;
  }
}

TEST(DatasetWriterTest, arrays_become_tokens) {
  const Folder folder;
  DatasetWriter writer =
      must(DatasetWriter::open({.directory = folder.file("out"), .format = "tokens"}));
  for (std::uint16_t i = 0; i < 3; ++i) {
    const std::vector<std::uint16_t> tokens(20, i);
    const std::array<std::uint64_t, 1> shape = {20};
    ASSERT_TRUE(writer
                    .write("", {array_field("tokens", Dtype::uint16,
                                            std::as_bytes(std::span(tokens)), shape)})
                    .ok());
  }
  ASSERT_TRUE(std::move(writer).commit().ok());
  const Dataset dataset = must(Dataset::open(folder.file("out")));
  EXPECT_EQ(dataset.format(), "megatron");
  EXPECT_EQ(must(must(Tokens::open(dataset, {.window = 10})).token_count()), 60U);
}

TEST(DatasetWriterTest, there_is_a_whole_dataset_or_none) {
  const Folder folder;
  {
    DatasetWriter writer =
        must(DatasetWriter::open({.directory = folder.file("out"), .samples_per_shard = 5}));
    ASSERT_TRUE(write_samples(writer, 12).ok());
    EXPECT_TRUE(std::filesystem::exists(folder.file("out/shard-000001.tar")));
    EXPECT_EQ(DatasetWriter::open({.directory = folder.file("out")}).status().code(),
              Code::already_exists);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("out")));
  DatasetWriter again = must(DatasetWriter::open({.directory = folder.file("out")}));
  EXPECT_EQ(std::move(again).commit().status().code(), Code::invalid_argument);  // no samples
}

TEST(DatasetWriterTest, values_that_are_not_what_they_say_are_refused_with_sample_and_field) {
  const std::array<std::byte, 5> five{};
  const std::array<std::uint64_t, 2> shape = {2, 3};
  const std::array<std::uint64_t, 3> overflow = {std::uint64_t{1} << 33, std::uint64_t{1} << 33, 0};
  const std::vector<FieldView> wrong = {
      text_field("t", "\xff"),
      {.name = "j",
       .bytes = std::as_bytes(std::span(std::string_view("{"))),
       .type = FieldType::json},
      {.name = "n", .bytes = five, .type = FieldType::int64},
      {.name = "r", .bytes = five, .type = FieldType::float32},
      array_field("a", Dtype::float32, five, shape),
      array_field("o", Dtype::float32, five, overflow),
      {.name = "d", .bytes = five, .type = FieldType::array, .dtype = "|O", .shape = shape}};
  for (const FieldView& field : wrong) {
    const Folder folder;
    DatasetWriter writer = must(DatasetWriter::open({.directory = folder.file("out")}));
    ASSERT_TRUE(writer.write("", {text_field("txt", "good")}).ok());
    const Status status = writer.write("bad", {field});
    EXPECT_FALSE(status.ok()) << field.name;
    EXPECT_NE(status.message().find("sample 1 ('bad')"), std::string_view::npos)
        << status.message();
    EXPECT_NE(status.message().find("field '" + std::string(field.name) + "'"),
              std::string_view::npos);
    EXPECT_EQ(writer.write("", {text_field("txt", "good")}).code(), Code::invalid_argument);
    EXPECT_EQ(std::move(writer).commit().status().code(), Code::invalid_argument);
  }
}

TEST(DatasetWriterTest, a_forked_child_neither_writes_nor_removes) {
  const Folder folder;
  std::optional<DatasetWriter> writer =
      must(DatasetWriter::open({.directory = folder.file("out"), .samples_per_shard = 1}));
  ASSERT_TRUE(writer->write("", {text_field("txt", "one")}).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool ok = writer->write("", {text_field("txt", "two")}).code() == Code::unsupported &&
                    std::move(*writer).commit().status().code() == Code::unsupported;
    writer.reset();
    ::_exit(ok ? 0 : 1);
  }
  int end = 0;
  ::waitpid(child, &end, 0);
  EXPECT_TRUE(WIFEXITED(end) && WEXITSTATUS(end) == 0);
  EXPECT_EQ(must(std::move(*writer).commit()).sample_count, 1U);
}

TEST(DatasetWriterTest, options_that_cannot_work_are_refused) {
  const Folder folder;
  EXPECT_EQ(DatasetWriter::open({}).status().code(), Code::invalid_argument);
  EXPECT_EQ(DatasetWriter::open({.directory = "s3://bucket/out"}).status().code(),
            Code::unsupported);
  EXPECT_EQ(DatasetWriter::open({.directory = folder.file("a"), .format = "zip"}).status().code(),
            Code::invalid_argument);
  EXPECT_EQ(
      DatasetWriter::open({.directory = folder.file("a"), .samples_per_shard = 0}).status().code(),
      Code::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
}

TEST(PackFilesTest, a_tree_is_packed_continued_and_merged) {
  const Folder folder;
  for (const std::string kind : {"cat", "dog"}) {
    std::filesystem::create_directories(folder.file("images/" + kind));
    for (int i = 0; i < 10; ++i)
      write_file(folder.file("images/" + kind + "/" + std::to_string(i) + ".jpg"),
                 "\xff\xd8" + kind);
  }
  write_file(folder.file("images/cat/notes.txt"), "left out");
  std::vector<std::string> remarks;
  std::uint64_t done = 0;
  const PackFilesOptions options{
      .samples_per_shard = 5,
      .shuffle_seed = 7,
      .progress = [&](const PackProgress& progress) { done = progress.samples_done; },
      .on_remark = [&](const std::string& text) { remarks.push_back(text); }};
  PackReport report = must(pack_files(folder.file("images"), folder.file("out"), options));
  EXPECT_TRUE(report.is_complete);
  EXPECT_EQ(report.shard_count, 4U);
  EXPECT_EQ(done, 20U);
  ASSERT_FALSE(remarks.empty());
  EXPECT_NE(remarks[0].find("notes.txt"), std::string::npos) << remarks[0];
  EXPECT_EQ(must(pack_files(folder.file("images"), folder.file("out"), options)).shards_found, 4U);

  for (std::uint64_t task = 0; task < 2; ++task) {
    PackFilesOptions part = options;
    part.task = task;
    part.task_count = 2;
    EXPECT_EQ(merge_pack(folder.file("parts")).ok(), false);
    EXPECT_FALSE(must(pack_files(folder.file("images"), folder.file("parts"), part)).is_complete);
  }
  EXPECT_TRUE(must(merge_pack(folder.file("parts"))).is_complete);
  EXPECT_EQ(must(Dataset::open(folder.file("parts"))).fingerprint(),
            must(Dataset::open(folder.file("out"))).fingerprint());
}

TEST(PackFilesTest, what_cannot_be_packed_is_refused) {
  const Folder folder;
  write_file(folder.file("rows.parquet"), "PAR1 and more");
  const Status python = pack_files(folder.file("rows.parquet"), folder.file("out")).status();
  EXPECT_EQ(python.code(), Code::unsupported);
  EXPECT_NE(python.message().find("stoker pack"), std::string_view::npos);
  std::filesystem::create_directory(folder.file("in"));
  write_file(folder.file("in/a.txt"), "a");
  EXPECT_EQ(pack_files(folder.file("in"), folder.file("in/out")).status().code(),
            Code::invalid_argument);
  EXPECT_EQ(pack_files(folder.file("none"), folder.path() + "-out").status().code(),
            Code::not_found);
  EXPECT_EQ(pack_files(folder.file("in"), "s3://bucket/out").status().code(), Code::unsupported);
  EXPECT_FALSE(std::filesystem::exists("s3:"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
}

TEST(PackFilesTest, what_a_callback_throws_is_a_status) {
  const Folder folder;
  write_file(folder.file("a.jsonl"), "{\"txt\": \"a\"}\n");
  const Status status =
      pack_files(folder.file("a.jsonl"), folder.file("out"),
                 {.progress = [](const PackProgress&) { throw std::runtime_error("mine"); }})
          .status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("mine"), std::string_view::npos);
}

}  // namespace
}  // namespace stoker
