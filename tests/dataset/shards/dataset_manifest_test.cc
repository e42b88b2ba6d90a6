#include "dataset/shards/dataset_manifest.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "dataset/pack_support.h"

namespace stoker::testing {
namespace {

const std::string kDigits(64, 'a');

Manifest example() {
  const Sha256Digest digest = *parse_sha256(kDigits);
  Manifest manifest;
  manifest.format = "tar";
  manifest.created_by = "stoker 1.2.3";
  manifest.shards = {{.file = {"shard-000000.tar", 10240, digest}, .sample_count = 3},
                     {.file = {"shard-000001.tar", 20480, digest}, .sample_count = 4}};
  manifest.files = {{"classes.json", 20, digest}};
  return manifest;
}

/// One shard's entry with one member replaced.
std::string with_shard(const std::string& shard, const std::string& totals) {
  return R"({"version": 1, "format": "tar", "shards": [)" + shard + R"(], )" + totals +
         R"(, "created_by": "x"})";
}

std::string shard_named(const std::string& name) {
  return R"({"name": ")" + name + R"(", "size_bytes": 5, "samples": 2, "sha256": ")" + kDigits +
         "\"}";
}

const std::string kTotals = R"("samples": 2, "size_bytes": 5)";

TEST(ManifestTest, what_was_written_reads_back_equal) {
  const auto read = parse_manifest(format_manifest(example()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, example());
  EXPECT_EQ(read->sample_count(), 7U);
  EXPECT_EQ(read->size_bytes(), 30720U);
}

TEST(ManifestTest, its_text_is_the_documented_one) {
  Manifest manifest = example();
  manifest.shards.resize(1);
  manifest.files.clear();
  EXPECT_EQ(format_manifest(manifest),
            "{\n \"version\": 1,\n \"format\": \"tar\",\n \"shards\": [\n  {\n   \"name\": "
            "\"shard-000000.tar\",\n   \"size_bytes\": 10240,\n   \"samples\": 3,\n   \"sha256\": "
            "\"" +
                kDigits +
                "\"\n  }\n ],\n \"files\": [],\n \"samples\": 3,\n \"size_bytes\": 10240,\n "
                "\"created_by\": \"stoker 1.2.3\"\n}\n");
}

TEST(ManifestTest, the_dtype_of_arrays_that_do_not_say_theirs_is_kept) {
  Manifest manifest = example();
  manifest.format = "shard001";
  manifest.dtype = "int32";
  const std::string text = format_manifest(manifest);
  EXPECT_NE(text.find("\"format\": \"shard001\",\n \"dtype\": \"int32\",\n \"shards\""),
            std::string::npos)
      << text;
  const auto read = parse_manifest(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, manifest);
}

TEST(ManifestTest, a_type_of_a_later_version_is_read_as_bytes_and_written_as_such) {
  Manifest manifest = example();
  manifest.types = {{"label", FieldType::int64}, {"mask", FieldType::float32}};
  std::string text = format_manifest(manifest);
  const std::string_view known = "\"float32\"";
  text.replace(text.find(known), known.size(), "\"bfloat16\"");
  const auto read = parse_manifest(text);
  ASSERT_TRUE(read.ok()) << read.status().message();
  manifest.types["mask"] = FieldType::bytes;
  EXPECT_EQ(*read, manifest);
  const auto again = parse_manifest(format_manifest(*read));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, manifest);
}

TEST(ManifestTest, unknown_keys_and_a_missing_list_of_files_are_fine) {
  const auto read =
      parse_manifest(with_shard(shard_named("a.tar"), kTotals + R"(, "later": {"more": [1, 2]})"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->shards[0].file.name, "a.tar");
}

TEST(ManifestTest, names_that_lead_elsewhere_are_refused) {
  for (const std::string name : {"../a.tar", "/etc/passwd", "a/b.tar", "..", ".", "", "a\\nb",
                                 "a\\u0000b", "manifest.json"}) {
    const auto read = parse_manifest(with_shard(shard_named(name), kTotals));
    ASSERT_FALSE(read.ok()) << name;
    EXPECT_EQ(read.status().code(), Code::corrupt) << name;
  }
  EXPECT_FALSE(is_plain_file_name(std::string(256, 'a')));
  EXPECT_FALSE(is_plain_file_name("\xff"));
}

TEST(ManifestTest, hostile_text_is_refused_with_its_place) {
  const std::string two = shard_named("a.tar") + "," + shard_named("a.tar");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "manifest.json"},
      {"[]", "manifest.json"},
      {"{}", "version"},
      {R"({"version": 0})", "version"},
      {R"({"version": 1, "version": 1})", "manifest.json"},
      {R"({"version": "1"})", "version"},
      {with_shard("17", kTotals), "shards[0]"},
      {with_shard(R"({"name": "a"})", kTotals), "size_bytes"},
      {with_shard(shard_named("a.tar"), R"("samples": 3, "size_bytes": 5)"), "samples"},
      {with_shard(shard_named("a.tar"), R"("samples": 2, "size_bytes": 6)"), "size_bytes"},
      {with_shard(two, R"("samples": 4, "size_bytes": 10)"), "duplicate"},
      {with_shard(R"({"name": "a", "size_bytes": -1, "samples": 2, "sha256": "x"})", kTotals),
       "size_bytes"},
      {with_shard(R"({"name": "a", "size_bytes": 5, "samples": 2, "sha256": "AA"})", kTotals),
       "sha256"},
      {with_shard(R"({"name": "a", "size_bytes": 18446744073709551615, "samples": 2, "sha256": ")" +
                      kDigits + "\"}",
                  kTotals),
       "size_bytes"},
      {with_shard(shard_named("a.tar"), kTotals + R"(, "dtype": "int33")"), "dtype"},
      {with_shard(shard_named("a.tar"), kTotals + R"(, "dtype": 4)"), "dtype"},
      {std::string(100, '['), "manifest.json"}};
  for (const auto& [text, part] : cases) {
    const auto read = parse_manifest(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), Code::corrupt) << text;
    EXPECT_NE(read.status().message().find(part), std::string::npos) << read.status().message();
  }
}

TEST(ManifestTest, a_newer_version_is_unsupported) {
  const auto read = parse_manifest(R"({"version": 2})");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), Code::unsupported);
}

TEST(ManifestTest, a_directory_opens_only_with_the_shards_that_its_manifest_names) {
  const PackDir dir;
  write_images(dir.file("src"), 9);
  const auto source = open_source(dir.file("src"));
  ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("d"), small_shards("tar")).ok());
  const std::string shard = dir.file("d/shard-000001.tar");
  const auto refusal = [&] { return ShardDataset::open(dir.file("d")).status(); };
  ASSERT_TRUE(refusal().ok()) << refusal().message();

  std::filesystem::rename(shard, dir.file("moved"));
  EXPECT_EQ(refusal().code(), Code::not_found);
  EXPECT_TRUE(refusal().message().starts_with(shard + ": missing, but listed"))
      << refusal().message();
  EXPECT_TRUE(ShardDataset::open(dir.file("d/*.tar")).ok()) << "whoever names files wants these";

  std::filesystem::copy_file(dir.file("moved"), shard);
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) + 512);
  EXPECT_EQ(refusal().code(), Code::corrupt);
  EXPECT_TRUE(refusal().message().starts_with(shard + ": ")) << refusal().message();

  std::filesystem::rename(dir.file("moved"), shard);
  std::filesystem::copy_file(shard, dir.file("d/shard-000009.tar"));
  EXPECT_EQ(refusal().code(), Code::invalid_argument);
  EXPECT_NE(refusal().message().find("shard-000009.tar"), std::string_view::npos);

  for (const char* foreign : {"{\"name\": \"of another tool\"}", "{\"a\": 1}\n{\"a\": 2}\n"}) {
    write_text(dir.file("d/manifest.json"), foreign);
    EXPECT_TRUE(refusal().ok()) << refusal().message();
  }
}

TEST(ManifestTest, a_manifest_that_is_cut_short_anywhere_is_no_stranger_s) {
  const PackDir dir;
  write_images(dir.file("src"), 9);
  const auto source = open_source(dir.file("src"));
  ASSERT_TRUE(pack(posix_file_ops(), *source, dir.file("d"), small_shards("tar")).ok());
  const std::string path = dir.file("d/manifest.json");
  const std::string whole = contents_of(path);
  for (std::size_t size = 0; size + 2 < whole.size(); size += 7) {
    write_text(path, whole.substr(0, size));
    const Status refusal = ShardDataset::open(dir.file("d")).status();
    EXPECT_EQ(refusal.code(), Code::corrupt) << size;
    EXPECT_NE(refusal.message().find("manifest.json"), std::string_view::npos);
  }
  write_text(path, std::string(whole.size(), '\0'));
  EXPECT_EQ(ShardDataset::open(dir.file("d")).status().code(), Code::corrupt);
}

TEST(ManifestTest, a_directory_without_one_has_none) {
  const PackDir dir;
  EXPECT_EQ(read_manifest(dir.path()).status().code(), Code::not_found);
  ASSERT_TRUE(publish_manifest(posix_file_ops(), dir.path(), example()).ok());
  const auto read = read_manifest(dir.path());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, example());
}

}  // namespace
}  // namespace stoker::testing
