// Manifests of nodes with private disks.
#include "checkpoint/manifest/places.h"

#include <gtest/gtest.h>

#include "checkpoint/manifest/names.h"
#include "checkpoint/manifest_support.h"

namespace stoker::testing {
namespace {

/// The example, with a rank on each of two nodes, and `b` on both.
CheckpointManifest placed_manifest() {
  CheckpointManifest manifest = example_manifest();
  manifest.places = {{.host = "node-a", .ranks = {0}}, {.host = "node \"b\"", .ranks = {1}}};
  manifest.files[1].place = 1;
  CheckpointTensor copy = manifest.tensors[2];
  copy.file = 1;
  copy.begin_bytes = 4136;
  copy.end_bytes = 4142;
  manifest.duplicates = {copy};
  return manifest;
}

Status parsed(const std::string& text) {
  return parse_checkpoint_manifest(text, "manifest.json").status();
}

TEST(CheckpointPlacesTest, a_manifest_of_several_places_comes_back) {
  const std::string text = format_checkpoint_manifest(placed_manifest());
  EXPECT_NE(text.find("\"format_version\": \"3.0\""), std::string::npos);
  const Result<CheckpointManifest> again = parse_checkpoint_manifest(text, "manifest.json");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, placed_manifest());
}

TEST(CheckpointPlacesTest, each_wrong_place_or_duplicate_is_refused) {
  const std::string text = format_checkpoint_manifest(placed_manifest());
  const std::pair<const char*, const char*> cases[] = {
      {"\"place\": 1", "\"place\": 2"},
      {"\"place\": 1, ", ""},  // the duplicate is then in the place of its tensor
      {"\"ranks\": [1]", "\"ranks\": [0]"},
      {"\"ranks\": [1]", "\"ranks\": []"},
      {"\"ranks\": [1]", "\"ranks\": [2]"},
      {"\"ranks\": [1]", "\"ranks\": 1"},
      {"\"host\": \"node-a\", ", ""},
      {"\"begin_bytes\": 4136, \"end_bytes\": 4142", "\"begin_bytes\": 4132, \"end_bytes\": 4138"},
      {"\"begin_bytes\": 4136, \"end_bytes\": 4142", "\"begin_bytes\": 4136, \"end_bytes\": 4143"},
      {"\"begin_bytes\": 4136, \"end_bytes\": 4142", "\"begin_bytes\": 4156, \"end_bytes\": 4162"},
  };
  for (const auto& [from, to] : cases)
    EXPECT_EQ(parsed(respelled(text, from, to)).code(), Code::corrupt) << from << " as " << to;
  CheckpointManifest manifest = placed_manifest();
  manifest.duplicates[0].digest->low += 1;
  EXPECT_EQ(parsed(format_checkpoint_manifest(manifest)).code(), Code::corrupt);
  manifest = placed_manifest();
  manifest.duplicates[0].name = "another";
  EXPECT_EQ(parsed(format_checkpoint_manifest(manifest)).code(), Code::corrupt);
}

TEST(CheckpointPlacesTest, a_reader_uses_the_copy_that_it_has) {
  CheckpointManifest second = placed_manifest();
  const std::vector<std::string> names = {"manifest.json", "place-00001", "rank-00001.safetensors"};
  ASSERT_TRUE(find_places(second, names, "step").ok());
  EXPECT_TRUE(second.files[0].is_elsewhere);
  EXPECT_FALSE(second.files[1].is_elsewhere);
  EXPECT_EQ(second.tensors[2].file, 1U);
  EXPECT_EQ(second.tensors[2].begin_bytes, 4136U);
  EXPECT_EQ(second.tensors[0].file, 0U);  // nobody else has it
  EXPECT_EQ(place_text(second, second.files[0]), "on the disk of \"node-a\" (rank 0)");
  second.places[0].host = "\x1b[2J";  // from a file: it must not reach a terminal
  EXPECT_EQ(place_text(second, second.files[0]).find('\x1b'), std::string::npos);

  CheckpointManifest both = placed_manifest();
  ASSERT_TRUE(find_places(both, std::vector{place_name(0), place_name(1)}, "step").ok());
  EXPECT_EQ(both, placed_manifest());
}

TEST(CheckpointPlacesTest, a_directory_must_say_which_place_it_is) {
  CheckpointManifest manifest = placed_manifest();
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"manifest.json"}, {"place-1"}, {"place-00002"}})
    EXPECT_EQ(find_places(manifest, names, "step").code(), Code::corrupt);
  CheckpointManifest ordinary = example_manifest();
  EXPECT_TRUE(find_places(ordinary, {}, "step").ok());
}

}  // namespace
}  // namespace stoker::testing
