#include "dataset/pack/convert.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "dataset/dataset_support.h"
#include "dataset/key_search.h"
#include "dataset/pack/pack_directory.h"
#include "dataset/pack/shard_output.h"
#include "dataset/pack/verify.h"
#include "dataset/pack_support.h"
#include "formats/mds/mds_encoding.h"
#include "formats/mds/mds_format.h"
#include "formats/mds/mds_index.h"
#include "formats/mds/mds_writer.h"
#include "formats/table/shard_formats.h"
#include "io/files/directories.h"

namespace stoker::testing {
namespace {

Result<PackReport> convert_to(const std::string& from, const std::string& to,
                              const std::string& format) {
  return convert(posix_file_ops(), {&from, 1}, to, {}, small_shards(format));
}

void make_tar(const PackDir& dir) {
  write_images(dir.file("src"), 22);
  ASSERT_TRUE(
      pack(posix_file_ops(), *open_source(dir.file("src")), dir.file("tar"), small_shards("tar"))
          .ok());
}

/// Two sequences of two.
void make_tokens(const PackDir& dir) {
  write_text(dir.file("t.bin"), std::string("\1\0\2\0\3\0\4\0", 8));
  const auto source =
      open_source(dir.file("t.bin"), {.dtype = Dtype::uint16, .sequence_length = 2});
  ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("tok"), small_shards("tokens")).ok());
}

void gzip_file(const std::string& from, const std::string& to) {
  const std::string bytes = contents_of(from);
  gzFile out = ::gzopen(to.c_str(), "wb");
  ASSERT_NE(out, nullptr);
  ASSERT_EQ(::gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  ASSERT_EQ(::gzclose(out), Z_OK);
}

TEST(ConvertTest, every_format_and_back_gives_the_same_tar) {
  const PackDir dir;
  make_tar(dir);
  for (const std::string format : {"mds", "tfrecord"}) {
    SCOPED_TRACE(format);
    auto report = convert_to(dir.file("tar"), dir.file(format), format);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->sample_count, 22U);
    report = convert_to(dir.file(format), dir.file("back-" + format), "tar");
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(read_all(dir.file("back-" + format)), read_all(dir.file("tar")));
    EXPECT_EQ(contents_of(dir.file(format + "/classes.json")),
              contents_of(dir.file("tar/classes.json")));
    EXPECT_TRUE(verify_shards(dir.file(format))->problems.empty());
  }
}

std::string encodings_in(const std::string& directory) {
  const auto shards = parse_mds_index(contents_of(directory + "/index.json"));
  EXPECT_TRUE(shards.ok());
  std::string text;
  for (const MdsColumn& column : shards->front().config.columns)
    text += column.name + "=" + column.encoding.text + " ";
  return text;
}

TEST(ConvertTest, images_of_a_tar_have_the_encodings_that_pack_gives_them) {
  const PackDir dir;
  make_tar(dir);
  ASSERT_TRUE(convert_to(dir.file("tar"), dir.file("mds"), "mds").ok());
  EXPECT_EQ(encodings_in(dir.file("mds")), "__key__=str cls=str jpg=jpeg ");
}

TEST(ConvertTest, columns_of_an_mds_keep_their_encodings) {
  const PackDir dir;
  std::filesystem::create_directory(dir.file("old"));
  const std::string name = "shard.00000.mds";
  const auto output = ShardOutput::make(posix_file_ops(), dir.file("old/" + name));
  ASSERT_TRUE(output.ok());
  auto writer = MdsWriter::make({.columns = {{"a", "ndarray:float32:2,3"},
                                             {"d", "str_decimal"},
                                             {"i", "int16"},
                                             {"l", "list[jpeg]"}},
                                 .basename = name},
                                **output);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  const std::string array = noise(24, 1);
  const std::array<std::uint64_t, 2> shape = {2, 3};
  SampleView sample;
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  sample.fields = {{.name = "a",
                    .bytes = bytes(array),
                    .type = FieldType::array,
                    .dtype = dtype_descr(Dtype::float32),
                    .shape = shape},
                   {.name = "d", .bytes = bytes("1.50"), .type = FieldType::text},
                   {.name = "i",
                    .bytes = bytes("ab"),
                    .type = FieldType::array,
                    .dtype = dtype_descr(Dtype::int16)},
                   {.name = "l", .bytes = bytes(std::string_view("\1\0\0\0\1\0\0\0x", 9))}};
  const Status appended = (*writer)->append(sample);
  ASSERT_TRUE(appended.ok()) << appended.message();
  ASSERT_TRUE((*writer)->finish().ok());
  ASSERT_TRUE((*output)->sync().ok() && (*output)->publish().ok());
  write_text(dir.file("old/index.json"), format_mds_index({(*writer)->shard()}));
  const auto report = convert_to(dir.file("old"), dir.file("new"), "mds");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(encodings_in(dir.file("new")),
            "__key__=str a=ndarray:float32:2,3 d=str_decimal i=int16 l=list[jpeg] ");
}

TEST(ConvertTest, truth_values_become_numbers_in_an_mds) {
  const std::array<std::byte, 2> values = {std::byte{1}, std::byte{0}};
  const std::array<std::uint64_t, 1> shape = {2};
  SampleView sample;
  const FieldView one{.name = "one",
                      .bytes = std::span(values).first(1),
                      .type = FieldType::array,
                      .dtype = dtype_descr(Dtype::boolean)};
  sample.fields = {one, one};
  sample.fields[1].bytes = values;
  sample.fields[1].shape = shape;
  ASSERT_TRUE(fit_fields(mds_format(), sample).ok());
  EXPECT_EQ(choose_mds_encoding(sample.fields[0])->text, "int");
  EXPECT_EQ(text_of(sample.fields[0].bytes), int64_bytes(1));
  EXPECT_EQ(choose_mds_encoding(sample.fields[1])->text, "ndarray:uint8");
}

TEST(ConvertTest, keys_that_are_fields_are_found) {
  const PackDir dir;
  make_tar(dir);
  for (const std::string format : {"mds", "tfrecord"}) {
    SCOPED_TRACE(format);
    ASSERT_TRUE(convert_to(dir.file("tar"), dir.file(format), format).ok());
    const auto dataset = ShardDataset::open(dir.file(format));
    ASSERT_TRUE(dataset.ok());
    SampleRecord record;
    ASSERT_TRUE((*dataset)->read(9, record).ok());
    EXPECT_EQ(record.key(), read_all(dir.file("tar"))[9].first);
    EXPECT_EQ(find_key(**dataset, record.key()).status().message(), "");
    EXPECT_EQ(*find_key(**dataset, record.key()), 9U);
    const std::string numbered = (*dataset)->numbered_key(9, 2);
    EXPECT_EQ(*find_key(**dataset, numbered), 9U);
    EXPECT_EQ(find_key(**dataset, "absent").status().code(), Code::not_found);
  }
}

TEST(ConvertTest, arrays_become_numpy_files_in_a_tar_and_numbers_in_a_tfrecord) {
  const PackDir dir;
  make_tokens(dir);
  ASSERT_TRUE(convert_to(dir.file("tok"), dir.file("tar"), "tar").ok());
  const auto in_tar = read_all(dir.file("tar"));
  ASSERT_EQ(in_tar.size(), 2U);
  EXPECT_EQ(in_tar[1].second.at("tokens.npy"), std::string("\3\0\4\0", 4));
  std::filesystem::remove(dir.file("tar/manifest.json"));
  EXPECT_TRUE(read_all(dir.file("tar"))[1].second.at("tokens.npy").starts_with("\x93NUMPY"));
  ASSERT_TRUE(convert_to(dir.file("tok"), dir.file("tf"), "tfrecord").ok());
  EXPECT_EQ(read_all(dir.file("tf"))[1].second.at("tokens"), int64_bytes(3) + int64_bytes(4));
  ASSERT_TRUE(convert_to(dir.file("tok"), dir.file("tok2"), "tokens").ok());
  EXPECT_EQ(visible_files(dir.file("tok2")), visible_files(dir.file("tok")));
}

TEST(ConvertTest, a_list_of_a_tfrecord_is_one_in_every_sample) {
  const PackDir dir;
  write_text(dir.file("a.jsonl"), "{\"f\": [1], \"n\": 5}\n{\"f\": [2, 3], \"n\": 6}\n");
  const auto source = open_source(dir.file("a.jsonl"));
  ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("tf"), small_shards("tfrecord")).ok());
  ASSERT_TRUE(convert_to(dir.file("tf"), dir.file("tar"), "tar").ok());
  for (const auto& [key, fields] : read_all(dir.file("tar"))) {
    EXPECT_TRUE(fields.contains("f.npy")) << key;
    EXPECT_TRUE(fields.contains("n")) << key;
  }
  ASSERT_TRUE(convert_to(dir.file("tf"), dir.file("mds"), "mds").ok());
  EXPECT_EQ(read_all(dir.file("mds"))[0].second.at("f"), int64_bytes(1));
  EXPECT_EQ(read_all(dir.file("mds"))[1].second.at("f"), int64_bytes(2) + int64_bytes(3));
  ASSERT_TRUE(convert_to(dir.file("tf"), dir.file("again"), "tfrecord").ok());
  EXPECT_EQ(visible_files(dir.file("again")), visible_files(dir.file("tf")));
}

TEST(ConvertTest, a_field_of_numbers_becomes_tokens) {
  const PackDir dir;
  make_tokens(dir);
  for (const std::string format : {"tar", "tfrecord"})
    ASSERT_TRUE(convert_to(dir.file("tok"), dir.file(format), format).ok());

  ASSERT_TRUE(convert_to(dir.file("tar"), dir.file("of-tar"), "tokens").ok());
  EXPECT_EQ(visible_files(dir.file("of-tar")), visible_files(dir.file("tok")));
  for (const std::string format : {"counted", "shard001"}) {
    ASSERT_TRUE(convert_to(dir.file("tar"), dir.file(format), format).ok());
    EXPECT_EQ(read_all(dir.file(format))[1].second.at("tokens"), std::string("\3\0\4\0", 4));
  }
  ASSERT_TRUE(convert_to(dir.file("tfrecord"), dir.file("of-tf"), "tokens").ok());
  EXPECT_EQ(read_all(dir.file("of-tf"))[1].second.at("tokens"), int64_bytes(3) + int64_bytes(4));

  const PackDir images;
  make_tar(images);
  const auto refused = convert_to(images.file("tar"), dir.file("none"), "tokens");
  EXPECT_EQ(refused.status().code(), Code::invalid_argument);
  EXPECT_NE(refused.status().message().find("use tar, mds or tfrecord"), std::string::npos);
}

TEST(ConvertTest, a_gzipped_tar_is_inflated_on_the_way_and_nothing_of_it_stays) {
  const PackDir dir;
  make_tar(dir);
  gzip_file(dir.file("tar/shard-000000.tar"), dir.file("old.tar.gz"));
  const auto report = convert_to(dir.file("old.tar.gz"), dir.file("dst"), "tar");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(contents_of(dir.file("dst/shard-000000.tar")),
            contents_of(dir.file("tar/shard-000000.tar")));
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst/.stoker/inflated")));
  const auto again = convert_to(dir.file("old.tar.gz"), dir.file("dst"), "tar");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->shards_found, 1U);
}

TEST(ConvertTest, a_directory_of_compressed_tars_is_converted_in_order) {
  const PackDir dir;
  make_tar(dir);
  for (const char* name : {"shard-000000", "shard-000001", "shard-000002"})
    gzip_file(dir.file("tar/" + std::string(name) + ".tar"),
              (std::filesystem::create_directories(dir.file("old")),
               dir.file("old/" + std::string(name) + ".tar.gz")));
  const auto opened = ShardDataset::open(dir.file("old"));
  EXPECT_EQ(opened.status().code(), Code::unsupported);
  EXPECT_NE(opened.status().message().find("stoker convert"), std::string::npos);
  const auto report = convert_to(dir.file("old"), dir.file("dst"), "tar");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->sample_count, 12U);
  for (const char* name : {"shard-000000.tar", "shard-000001.tar", "shard-000002.tar"})
    EXPECT_EQ(contents_of(dir.file("dst/" + std::string(name))),
              contents_of(dir.file("tar/" + std::string(name))));
}

TEST(ConvertTest, other_compressions_are_named_with_what_to_do) {
  const PackDir dir;
  write_text(dir.file("a.tar.zst"), "\x28\xb5\x2f\xfd...");
  write_text(dir.file("a.tar.bz2"), "BZh91AY");
  write_text(dir.file("a.tar.xz"),
             "\xfd"
             "7zXZ");
  EXPECT_NE(ShardDataset::open(dir.file("a.tar.zst")).status().message().find("stoker convert"),
            std::string::npos);
  for (const char* name : {"a.tar.bz2", "a.tar.xz"}) {
    const Status status = ShardDataset::open(dir.file(name)).status();
    EXPECT_EQ(status.code(), Code::unsupported) << name;
    EXPECT_NE(status.message().find("unpack it first"), std::string::npos) << status.message();
  }
}

TEST(ConvertTest, a_damaged_gzip_is_named) {
  const PackDir dir;
  make_tar(dir);
  gzip_file(dir.file("tar/shard-000000.tar"), dir.file("old.tar.gz"));
  std::string bytes = contents_of(dir.file("old.tar.gz"));
  write_text(dir.file("old.tar.gz"), bytes.substr(0, bytes.size() / 2));
  const auto report = convert_to(dir.file("old.tar.gz"), dir.file("dst"), "tar");
  EXPECT_EQ(report.status().code(), Code::corrupt);
  EXPECT_NE(report.status().message().find("old.tar.gz"), std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(dir.file("dst")));
}

TEST(ConvertTest, what_is_wrong_inside_a_gzip_is_said_of_the_users_file) {
  const PackDir dir;
  make_tar(dir);
  std::string bytes = contents_of(dir.file("tar/shard-000000.tar"));
  bytes[148] = 'x';  // the checksum of its first header
  write_text(dir.file("plain.tar"), bytes);
  gzip_file(dir.file("plain.tar"), dir.file("old.tar.gz"));
  write_text(dir.file("notes.csv"), "a,b\n1,2\n");
  gzip_file(dir.file("notes.csv"), dir.file("notes.csv.gz"));
  for (const char* name : {"old.tar.gz", "notes.csv.gz"}) {
    const Status status = convert_to(dir.file(name), dir.file("dst"), "tar").status();
    EXPECT_TRUE(status.message().starts_with(dir.file(name) + " (inflated): ")) << status.message();
    EXPECT_EQ(status.message().find(".stoker"), std::string_view::npos) << status.message();
    EXPECT_TRUE(std::filesystem::is_empty(dir.file("dst"))) << name;
  }
}

TEST(ConvertTest, inflated_tars_that_others_may_use_stay_after_a_failure) {
  const PackDir dir;
  make_tar(dir);
  std::string bytes = contents_of(dir.file("tar/shard-000000.tar"));
  bytes[148] = 'x';  // the checksum of its first header
  write_text(dir.file("plain.tar"), bytes);
  gzip_file(dir.file("plain.tar"), dir.file("old.tar.gz"));
  const std::string from = dir.file("old.tar.gz");
  PackOptions options = small_shards("tar");
  options.task_count = 2;
  EXPECT_FALSE(convert(posix_file_ops(), {&from, 1}, dir.file("tasks"), {}, options).ok());
  EXPECT_FALSE(std::filesystem::is_empty(dir.file("tasks/.stoker/inflated")));

  ASSERT_TRUE(make_directories(posix_file_ops(), dir.file("busy/.stoker")).ok());
  const auto lock = internal::lock_pack(posix_file_ops(),
                                        PathAt(*open_root(posix_file_ops(), dir.file("busy")), ""),
                                        LockMode::shared);
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_FALSE(convert_to(from, dir.file("busy"), "tar").ok());
  EXPECT_FALSE(std::filesystem::is_empty(dir.file("busy/.stoker/inflated")));
}

TEST(ConvertTest, what_a_killed_convert_has_inflated_goes_with_the_next_pack) {
  const PackDir dir;
  write_images(dir.file("src"), 22);
  std::filesystem::create_directories(dir.file("dst/.stoker/inflated/hash"));
  write_text(dir.file("dst/.stoker/inflated/hash/old.tar"), "inflated");
  ASSERT_TRUE(
      pack(posix_file_ops(), *open_source(dir.file("src")), dir.file("dst"), small_shards("tar"))
          .ok());
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst/.stoker/inflated")));
}

TEST(ConvertTest, samples_of_a_gzip_have_keys_of_its_own_name) {
  const PackDir dir;
  write_tfrecord(dir.file("train.tfrecord"), make_samples(2));
  gzip_file(dir.file("train.tfrecord"), dir.file("train.tfrecord.gz"));
  ASSERT_TRUE(convert_to(dir.file("train.tfrecord"), dir.file("plain"), "tar").ok());
  const auto report = convert_to(dir.file("train.tfrecord.gz"), dir.file("dst"), "tar");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(read_all(dir.file("dst"))[1].first, read_all(dir.file("plain"))[1].first);
}

TEST(ConvertTest, a_plain_mds_shard_is_held_against_its_digests_first) {
  const PackDir dir;
  write_mds(dir.file("old"), make_samples(20), 10);
  ASSERT_TRUE(convert_to(dir.file("old"), dir.file("whole"), "tar").ok());
  const std::string path = dir.file("old/shard.00001.mds");
  std::string bytes = contents_of(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(path, bytes);
  const auto report = convert_to(dir.file("old"), dir.file("dst"), "tar");
  EXPECT_EQ(report.status().code(), Code::corrupt);
  EXPECT_TRUE(report.status().message().starts_with(path + ": ")) << report.status().message();
  EXPECT_NE(report.status().message().find("sha256"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst/manifest.json")));
}

TEST(ConvertTest, a_damaged_sample_stops_it_by_name) {
  const PackDir dir;
  make_tar(dir);
  const std::string path = dir.file("tar/shard-000003.tar");
  struct stat before{};
  ASSERT_EQ(::stat(path.c_str(), &before), 0);
  std::string bytes = contents_of(path);
  bytes[600] = static_cast<char>(bytes[600] ^ 1);
  write_text(path, bytes);
  const timespec times[2] = {before.st_mtim, before.st_mtim};  // as a bit that rots
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  const auto report = convert_to(dir.file("tar"), dir.file("dst"), "mds");
  EXPECT_EQ(report.status().code(), Code::corrupt);
  EXPECT_NE(report.status().message().find("shard-000003.tar"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst/index.json")));
}

}  // namespace
}  // namespace stoker::testing
