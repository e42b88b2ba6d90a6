#include "dataset/shards/shard_source.h"

#include <gtest/gtest.h>

#include "dataset/dataset_support.h"
#include "golden/litdata/litdata_golden.h"

namespace stoker::testing {
namespace {

using Names = std::vector<std::string>;

Result<std::unique_ptr<ShardSource>> open(const std::vector<std::string>& patterns,
                                          const ShardSourceOptions& options = {}) {
  return open_shards(patterns, options);
}

Names names_of(const ShardSource& source) {
  Names names;
  for (const ShardFile& shard : source.shards()) names.push_back(shard.name);
  return names;
}

class ShardSourceTest : public ::testing::Test {
 protected:
  /// The format that `patterns` open as; the code and message of the failure otherwise.
  std::string format_of(const std::vector<std::string>& patterns,
                        const ShardSourceOptions& options = {}) const {
    const auto source = open(patterns, options);
    if (source.ok()) return std::string((*source)->format());
    return std::string(code_name(source.status().code())) + ": " +
           std::string(source.status().message());
  }
  std::string file(const std::string& name) const { return dir_.file(name); }

  const DatasetDir dir_;
};

TEST_F(ShardSourceTest, every_format_is_recognised_by_its_content) {
  write_tar(file("a"), make_samples(2));
  EXPECT_EQ(format_of({file("a")}), "tar");
  write_tfrecord(file("b"), make_samples(2));
  EXPECT_EQ(format_of({file("b")}), "tfrecord");
  write_tokens(file("c"), TokenFormat::npy, 2, 3);
  EXPECT_EQ(format_of({file("c")}), "npy");
  write_tokens(file("d"), TokenFormat::shard001, 2, 4);
  EXPECT_EQ(format_of({file("d")}, {.dtype = Dtype::uint16}), "shard001");
  write_megatron(file("e"), std::vector<std::size_t>{3, 1});
  EXPECT_EQ(format_of({file("e.idx")}), "megatron");
  write_mds(file("mds"), make_samples(3), 2);
  EXPECT_EQ(format_of({file("mds")}), "mds");
  write_litdata(file("litdata"), kLitdataTreeChunk, kLitdataTreeIndex, "chunk-0-0.bin");
  EXPECT_EQ(format_of({file("litdata")}), "litdata");
}

TEST_F(ShardSourceTest, old_and_empty_archives_are_known_by_their_ending) {
  write_file(file("empty.tar"), bytes_of(std::string(1024, '\0')));
  EXPECT_EQ(format_of({file("empty.tar")}), "tar");
  write_file(file("empty.tfrecord"), {});
  EXPECT_EQ(format_of({file("empty.tfrecord")}), "tfrecord");
}

TEST_F(ShardSourceTest, arrays_without_a_header_need_a_name_and_a_dtype) {
  write_tokens(file("x.bin"), TokenFormat::raw, 2, 4);
  EXPECT_NE(format_of({file("x.bin")}).find("--format"), std::string::npos);
  EXPECT_EQ(format_of({file("x.bin")}, {.format = "raw", .dtype = Dtype::uint16}), "raw");
  EXPECT_TRUE(format_of({file("x.bin")}, {.format = "raw"}).starts_with("invalid_argument"));
  write_tokens(file("y.bin"), TokenFormat::counted, 2, 4);
  EXPECT_EQ(format_of({file("y.bin")}, {.format = "counted", .dtype = Dtype::uint16}), "counted");
  EXPECT_EQ(format_of({file("y.bin")}, {.format = "tarball"}),
            "invalid_argument: format \"tarball\": tar, tfrecord, mds, litdata, megatron, npy, "
            "raw, counted and shard001 are known");
}

TEST_F(ShardSourceTest, gzip_is_refused_with_the_way_out) {
  write_file(file("x.tar.gz"), bytes_of("\x1f\x8b\x08 and the rest"));
  const std::string answer = format_of({file("x.tar.gz")});
  EXPECT_TRUE(answer.starts_with("unsupported: " + file("x.tar.gz"))) << answer;
  EXPECT_NE(answer.find("stoker convert"), std::string::npos) << answer;
}

TEST_F(ShardSourceTest, shards_of_two_formats_are_no_dataset) {
  write_tar(file("a.tar"), make_samples(2));
  write_tfrecord(file("b.tfrecord"), make_samples(2));
  const std::string answer = format_of({file("a.tar"), file("b.tfrecord")});
  EXPECT_TRUE(answer.starts_with("invalid_argument: " + file("b.tfrecord"))) << answer;
  EXPECT_NE(answer.find("tfrecord, that of " + file("a.tar") + " is tar"), std::string::npos);
}

TEST_F(ShardSourceTest, token_files_of_two_dtypes_are_no_dataset) {
  write_tokens(file("a.npy"), TokenFormat::npy, 2, 4);
  MemorySink sink;
  auto writer = TokenWriter::make(sink, TokenFormat::npy, Dtype::int32, {0, 4});
  ASSERT_TRUE(writer.ok() && writer->finish().ok());
  write_file(file("b.npy"), sink.bytes);
  EXPECT_EQ(format_of({file("?.npy")}),
            "invalid_argument: " + file("b.npy") +
                ": contains int32, the first file uint16; name files of "
                "one dtype");
}

TEST_F(ShardSourceTest, a_directory_is_the_shards_in_it_in_bytewise_order) {
  for (const char* name : {"b.tar", "a.tar", "B.tar", ".hidden.tar"})
    write_tar(file(name), make_samples(1));
  write_file(file("classes.json"), bytes_of("{}"));
  write_file(file("a.idx"), bytes_of("v1.2 1"));  // DALI keeps its own beside tars
  const auto source = open({dir_.path()});
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ((*source)->format(), "tar");
  EXPECT_EQ(names_of(**source), (Names{"B.tar", "a.tar", "b.tar"}));
  EXPECT_EQ((*source)->directory(), dir_.path());
}

TEST_F(ShardSourceTest, numbered_tfrecords_are_found_in_a_directory) {
  write_tfrecord(file("train.tfrecord-00001-of-00002"), make_samples(1));
  write_tfrecord(file("train.tfrecord-00000-of-00002"), make_samples(1));
  const auto source = open({dir_.path()});
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_EQ(names_of(**source),
            (Names{"train.tfrecord-00000-of-00002", "train.tfrecord-00001-of-00002"}));
}

TEST_F(ShardSourceTest, a_format_that_was_named_wins_over_what_else_lies_there) {
  write_mds(dir_.path(), make_samples(3), 2);
  write_tar(file("a.tar"), make_samples(1));
  EXPECT_TRUE(format_of({dir_.path()}).starts_with("invalid_argument: ")) << "neither is left out";
  EXPECT_EQ(format_of({dir_.path()}, {.format = "mds"}), "mds");
  EXPECT_EQ(format_of({dir_.path()}, {.format = "tar"}), "tar");
}

TEST_F(ShardSourceTest, one_directory_has_one_set_of_names_however_it_is_written) {
  std::filesystem::create_directories(file("d/e"));
  write_tar(file("d/e/x.tar"), make_samples(1));
  for (const std::string& spelled :
       {file("d/e"), file("d/e/"), file("d//e//"), file("d/./e/."), "file://" + file("d/e"),
        file("d/e/x.tar"), file("d/e//x.tar"), file("d/e/*.tar")}) {
    const auto source = open({spelled});
    ASSERT_TRUE(source.ok()) << spelled << source.status().message();
    EXPECT_EQ(names_of(**source), Names{"x.tar"}) << spelled;
    EXPECT_EQ((*source)->directory(), file("d/e")) << spelled;
  }
}

TEST_F(ShardSourceTest, names_are_relative_to_the_directory_that_holds_all) {
  for (const char* name : {"x", "xy"}) {
    std::filesystem::create_directories(file(name));
    write_tar(file(std::string(name) + "/1.tar"), make_samples(1));
  }
  const auto source = open({file("x/1.tar"), file("xy/1.tar")});
  ASSERT_TRUE(source.ok());
  EXPECT_EQ((*source)->directory(), dir_.path());
  EXPECT_EQ(names_of(**source), (Names{"x/1.tar", "xy/1.tar"}));
}

TEST_F(ShardSourceTest, what_is_missing_or_no_shard_is_named) {
  write_tar(file("a.tar"), make_samples(1));
  std::filesystem::create_directories(file("empty"));
  write_file(file("notes.txt"), bytes_of("hello"));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{file("{a,b}.tar")}, "not_found: shard " + file("b.tar")},
      {{file("none*.tar")}, "not_found: " + file("none*.tar")},
      {{file("empty")}, "not_found: " + file("empty") + ": it contains no shards"},
      {{}, "not_found: no shards were named"},
      {{file("notes.txt")}, "invalid_argument: " + file("notes.txt")},
      {{file("a.tar"), file("empty")},
       "invalid_argument: " + file("empty") + ": name either direct"},
      {{"gs://bucket/x.tar"}, "unsupported: gs://bucket/x.tar: no such store"},
      {{"pipe:cat x.tar"}, "unsupported: pipe:"},
      {{file("a.tar"), "s3://bucket/x.tar"}, "invalid_argument: " + file("a.tar") + " and s3://"},
      {{"s3://bucket/a.tar", "s3://other/a.tar"}, "invalid_argument: s3://bucket/a.tar and s3://"},
  };
  for (const auto& [patterns, expected] : cases) {
    const std::string answer = format_of(patterns);
    EXPECT_TRUE(answer.starts_with(expected)) << answer;
  }
}

TEST_F(ShardSourceTest, datasets_with_an_index_json_are_opened_by_their_directory) {
  write_mds(file("mds"), make_samples(3), 2);
  for (const char* name : {"mds/index.json", "mds/shard.00000.mds"}) {
    const std::string answer = format_of({file(name)});
    EXPECT_NE(answer.find("by their directory"), std::string::npos) << answer;
  }
  EXPECT_NE(format_of({file("mds/shard.00000.mds")}, {.format = "mds"}).find("by their directory"),
            std::string::npos);
}

TEST_F(ShardSourceTest, an_mds_shard_that_lost_bytes_is_named_when_it_is_opened) {
  write_mds(file("mds"), make_samples(3), 2);
  const std::string shard = file("mds/shard.00001.mds");
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
  const std::string answer = format_of({file("mds")});
  EXPECT_TRUE(answer.starts_with("corrupt: " + shard)) << answer;
}

TEST_F(ShardSourceTest, a_megatron_pair_needs_both_files) {
  write_megatron(file("x"), std::vector<std::size_t>{3});
  EXPECT_EQ(format_of({file("x.idx")}, {.dtype = Dtype::int32}),
            "invalid_argument: " + file("x.idx") + ": contains uint16, not int32");
  std::filesystem::remove(file("x.bin"));
  const std::string answer = format_of({file("x.idx")});
  EXPECT_TRUE(answer.starts_with("not_found")) << answer;
  EXPECT_NE(answer.find("x.bin"), std::string::npos) << answer;
}

}  // namespace
}  // namespace stoker::testing
