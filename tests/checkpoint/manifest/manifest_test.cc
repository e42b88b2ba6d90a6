#include "checkpoint/manifest/manifest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "checkpoint/manifest/manifest_json.h"
#include "checkpoint/manifest_support.h"
#include "formats/json/strict_json.h"

namespace stoker::testing {
namespace {

constexpr const char* kLine = "00112233445566778899aabbccddeeff";

std::string example_text() {
  return format_checkpoint_manifest(example_manifest());
}

CheckpointPart example_part() {
  const CheckpointManifest manifest = example_manifest();
  CheckpointPart part;
  part.rank = 7;
  part.files = manifest.files;
  part.tensors = manifest.tensors;
  part.state_json = manifest.state_json[0];
  return part;
}

TEST(CheckpointManifestTest, what_was_written_reads_back_equal) {
  const auto read = parse_checkpoint_manifest(example_text(), "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, example_manifest());
  const auto part = parse_checkpoint_part(format_checkpoint_part(example_part()), "p");
  ASSERT_TRUE(part.ok()) << part.status().message();
  EXPECT_EQ(*part, example_part());
  CheckpointManifest smallest;
  const auto small = parse_checkpoint_manifest(format_checkpoint_manifest(smallest), "m");
  ASSERT_TRUE(small.ok()) << small.status().message();
  EXPECT_EQ(*small, smallest);
}

TEST(CheckpointManifestTest, its_text_is_the_one_of_the_golden_file) {
  std::ifstream file(STOKER_GOLDEN_DIR "/checkpoint/manifest.json", std::ios::binary);
  const std::string golden{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(example_text(), golden);
  const auto read = parse_checkpoint_manifest(golden, "golden");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, example_manifest());
}

TEST(CheckpointManifestTest, every_flipped_bit_is_refused) {
  for (const std::string& text : {example_text(), format_checkpoint_part(example_part())}) {
    const bool is_part = text.find("-part") != std::string::npos;
    for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
      std::string damaged = text;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      const Status status = is_part ? parse_checkpoint_part(damaged, "m").status()
                                    : parse_checkpoint_manifest(damaged, "m").status();
      ASSERT_EQ(status.code(), Code::corrupt) << "bit " << bit;
    }
  }
}

TEST(CheckpointManifestTest, every_truncation_and_every_addition_is_refused) {
  const std::string text = example_text();
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto read = parse_checkpoint_manifest(std::string_view(text).substr(0, size), "m");
    ASSERT_EQ(read.status().code(), Code::corrupt) << size;
  }
  for (const std::string& added : {"\n" + text, text + "\n", text + " ", text + text}) {
    EXPECT_EQ(parse_checkpoint_manifest(added, "m").status().code(), Code::corrupt);
  }
}

TEST(CheckpointManifestTest, a_part_is_no_manifest_and_a_manifest_no_part) {
  EXPECT_EQ(parse_checkpoint_part(example_text(), "m").status().code(), Code::corrupt);
  const std::string part = format_checkpoint_part(example_part());
  EXPECT_EQ(parse_checkpoint_manifest(part, "m").status().code(), Code::corrupt);
}

TEST(CheckpointManifestTest, reference_values_that_json_lacks_come_back) {
  CheckpointManifest manifest = example_manifest();
  manifest.reference = {{"nan", std::nan("")}, {"low", -HUGE_VAL}, {"zero", -0.0}};
  manifest.reference["tiny"] = 5e-324;
  const auto read = parse_checkpoint_manifest(format_checkpoint_manifest(manifest), "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_TRUE(std::isnan(read->reference.at("nan")));
  EXPECT_EQ(read->reference.at("low"), -HUGE_VAL);
  EXPECT_TRUE(std::signbit(read->reference.at("zero")));
  EXPECT_EQ(read->reference.at("tiny"), 5e-324);
}

TEST(CheckpointManifestTest, integers_up_to_64_bits_are_exact) {
  CheckpointManifest manifest;
  manifest.step = std::numeric_limits<std::uint64_t>::max();
  manifest.generation = kGenerationMax;
  manifest.line = kLine;
  manifest.parent = CheckpointParent{.step = manifest.step - 2, .generation = kGenerationMax - 1};
  const auto read = parse_checkpoint_manifest(format_checkpoint_manifest(manifest), "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, manifest);
}

TEST(CheckpointManifestTest, lineages_come_back_and_others_are_refused) {
  CheckpointManifest manifest = example_manifest();
  manifest.generation = 10;
  manifest.parent->generation = 9;
  const std::string other(32, 'a');
  manifest.lineage = {{kLine, 1, 4}, {other, 5, 6}, {kLine, 9, 9}};
  const std::string text = format_checkpoint_manifest(manifest);
  const auto read = parse_checkpoint_manifest(text, "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, manifest);
  const std::string spelled = internal::lineage_text(manifest.lineage);
  for (const char* const wrong :
       {"[L, 6, 6], [L, 1, 4]", "[L, 4, 1]", "[L, 0, 1]", "[L, 9, 10]", "[L, 1]", "[1, 2]", "7",
        "[L, -1, 1]", "[L, 1.5, 2]", "[L, 1, 4], [L, 4, 6]", "{}", R"(["short", 1, 2])"}) {
    std::string ranges = wrong;
    for (std::size_t at = 0; (at = ranges.find('L', at)) != std::string::npos; at += 34)
      ranges.replace(at, 1, '"' + std::string(kLine) + '"');
    const auto refused =
        parse_checkpoint_manifest(respelled(text, spelled, "[" + ranges + "]"), "m");
    EXPECT_EQ(refused.status().code(), Code::corrupt) << wrong;
    EXPECT_NE(refused.status().message().find("ancestors"), std::string::npos) << wrong;
  }
}

TEST(CheckpointManifestTest, a_lineage_of_version_0_1_has_no_lines) {
  CheckpointManifest manifest = example_manifest();
  manifest.lineage = {{kLine, 1, 4}};
  const auto read = parse_checkpoint_manifest(
      respelled(format_checkpoint_manifest(manifest),
                "\"ancestors\": " + internal::lineage_text(manifest.lineage),
                "\"lineage\": [[1, 2], [5, 5]]"),
      "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->lineage, (Lineage{{"", 1, 2}, {"", 5, 5}}));
}

TEST(CheckpointManifestTest, trees_keep_their_text_and_so_the_order_of_keys) {
  CheckpointManifest manifest;
  manifest.world_size = 3;
  manifest.state_json = {R"({"b":[1, {"a":"]}\\\""}],"a":1.50})", "[]", "-0.0"};
  manifest.extra_json = R"({ "state" : [0] })";
  const auto read = parse_checkpoint_manifest(format_checkpoint_manifest(manifest), "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->state_json, manifest.state_json);
  EXPECT_EQ(read->extra_json, manifest.extra_json);
}

TEST(CheckpointManifestTest, trees_of_ranks_that_are_written_alike_come_back_for_each) {
  CheckpointManifest manifest;
  manifest.world_size = 5;
  manifest.state_json = {R"({"a":1})", R"({"a":1})", R"({"a":10})", "[1]", "[1]"};
  const std::string text = format_checkpoint_manifest(manifest);
  const auto read = parse_checkpoint_manifest(text, "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->state_json, manifest.state_json);
  manifest.state_json.pop_back();
  EXPECT_NE(parse_checkpoint_manifest(format_checkpoint_manifest(manifest), "m")
                .status()
                .message()
                .find("m.state: 4 trees for 5 ranks"),
            std::string_view::npos);
  manifest.state_json = std::vector<std::string>(5, R"({"a": {"!tensor": "gone"}})");
  EXPECT_EQ(parse_checkpoint_manifest(format_checkpoint_manifest(manifest), "m").status().message(),
            "m.state[0][\"a\"].!tensor: there is no tensor \"gone\"");
}

TEST(CheckpointManifestTest, unknown_members_and_later_minor_versions_are_read) {
  std::string text = respelled(example_text(), R"("2.0")", R"("2.7")");
  text = respelled(text, R"("step": 1000,)", R"("step": 1000, "later": {"step": [2]},)");
  text = respelled(text, R"("dtype": "F32")", R"("dtype": "F32", "codec": null)");
  const auto read = parse_checkpoint_manifest(text, "m");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, example_manifest());
}

TEST(CheckpointManifestTest, what_a_newer_stoker_wrote_is_unsupported_and_says_so) {
  for (const auto& [from, to] : {std::pair(R"("2.0")", R"("4.0")"),
                                 std::pair(R"("checksum": "xxh3_128")", R"("checksum": "blake3")"),
                                 std::pair("4194304", "8388608"), std::pair("F32", "F128")}) {
    const auto read = parse_checkpoint_manifest(respelled(example_text(), from, to), "m");
    EXPECT_EQ(read.status().code(), Code::unsupported) << to << ": " << read.status().message();
  }
}

TEST(CheckpointManifestTest, trees_that_a_manifest_cannot_hold_are_refused_before_the_save) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(check_state_json(nested(kStateDepthMax), "state").ok());
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("nan"), std::string("1 2"),
        std::string(R"({"a": 1, "a": 2})"), std::string("\"\xff\""), nested(kStateDepthMax + 1)}) {
    EXPECT_EQ(check_state_json(text, "state").code(), Code::invalid_argument) << text;
  }
  CheckpointManifest deep;
  deep.state_json = {nested(kStateDepthMax)};
  EXPECT_TRUE(parse_checkpoint_manifest(format_checkpoint_manifest(deep), "m").ok());
}

}  // namespace
}  // namespace stoker::testing
