#include "dataset/convert.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>

#include "dataset/pack_support.h"

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
  }
}

TEST(ConvertTest, arrays_become_numpy_files_in_a_tar_and_numbers_in_a_tfrecord) {
  const PackDir dir;
  write_text(dir.file("t.bin"), std::string("\1\0\2\0\3\0\4\0", 8));
  const auto source =
      open_source(dir.file("t.bin"), {.dtype = Dtype::uint16, .sequence_length = 2});
  ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("tok"), small_shards("tokens")).ok());
  ASSERT_TRUE(convert_to(dir.file("tok"), dir.file("tar"), "tar").ok());
  const auto in_tar = read_all(dir.file("tar"));
  ASSERT_EQ(in_tar.size(), 2U);
  EXPECT_TRUE(in_tar[1].second.at("tokens.npy").starts_with("\x93NUMPY"));
  EXPECT_TRUE(in_tar[1].second.at("tokens.npy").ends_with(std::string("\3\0\4\0", 4)));
  ASSERT_TRUE(convert_to(dir.file("tok"), dir.file("tf"), "tfrecord").ok());
  EXPECT_EQ(read_all(dir.file("tf"))[1].second.at("tokens"), int64_bytes(3) + int64_bytes(4));
  ASSERT_TRUE(convert_to(dir.file("tok"), dir.file("tok2"), "tokens").ok());
  EXPECT_EQ(visible_files(dir.file("tok2")), visible_files(dir.file("tok")));
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

TEST(ConvertTest, a_damaged_gzip_is_named) {
  const PackDir dir;
  make_tar(dir);
  gzip_file(dir.file("tar/shard-000000.tar"), dir.file("old.tar.gz"));
  std::string bytes = contents_of(dir.file("old.tar.gz"));
  write_text(dir.file("old.tar.gz"), bytes.substr(0, bytes.size() / 2));
  const auto report = convert_to(dir.file("old.tar.gz"), dir.file("dst"), "tar");
  EXPECT_EQ(report.status().code(), Code::corrupt);
  EXPECT_NE(report.status().message().find("old.tar.gz"), std::string::npos);
  EXPECT_TRUE(visible_files(dir.file("dst")).empty());
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
