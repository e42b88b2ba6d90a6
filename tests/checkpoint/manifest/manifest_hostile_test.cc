// Manifests whose checksum is right and whose content is not: each with its reason.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/manifest_support.h"

namespace stoker::testing {
namespace {

struct Hostile {
  const char* from;
  const char* to;
  const char* reason;  ///< In the message.
};

void expect_refused(const std::string& text, const char* reason) {
  const auto read = parse_checkpoint_manifest(text, "step-7/manifest.json");
  ASSERT_FALSE(read.ok()) << reason;
  EXPECT_EQ(read.status().code(), Code::corrupt) << reason;
  const std::string message(read.status().message());
  EXPECT_NE(message.find(reason), std::string::npos) << message;
  EXPECT_NE(message.find("step-7/manifest.json"), std::string::npos) << message;
}

TEST(CheckpointManifestHostileTest, each_wrong_text_is_refused_with_its_reason) {
  const std::string text = format_checkpoint_manifest(example_manifest());
  const Hostile cases[] = {
      {"\"2.0\"", "1", "not a string"},
      {"\"2.0\"", "\"1\"", "not a version"},
      {"\"2.0\"", "\"0.9\"", "not a version"},
      {"\"2.0\"", "\"1.0x\"", "not a version"},
      {"\"step\": 1000", "\"step\": -1", "negative"},
      {"\"step\": 1000", "\"step\": 1e3", "not an integer"},
      {"\"step\": 1000", "\"step\": 18446744073709551616", "not an integer"},
      {"\"step\": 1000", "\"step\": 1, \"step\": 2", "duplicate"},
      {"\"step\": 1000,", "", "step: missing"},
      {"\"generation\": 9007199254740992", "\"generation\": 18446744073709551615", "is more than"},
      {"\"time_s\": 1763241668.25", "\"time_s\": null", "time_s"},
      {"\"digest\": \"fe", "\"digest\": \"", "digest"},
      {"\"world_size\": 2", "\"world_size\": 0", "is 0"},
      {"\"world_size\": 2", "\"world_size\": 3", "2 trees for 3 ranks"},
      {"\"rank-00000.", "\"../", "not the name of a file"},
      {"\"rank-00000.safetensors\"", "\"..\"", "not the name of a file"},
      {"\"rank-00000.safetensors\"", "\"\"", "not the name of a file"},
      {"\"rank-00000.safetensors\"", "\"a\\u0000b\"", "not the name of a file"},
      {"\"rank-00000.safetensors\"", "\"manifest.json\"", "the manifest itself"},
      {"rank-00000", "rank-00001", "duplicate"},
      {"fedcba", "FEDCBA", "checksum 0 is not 32"},
      {"\"fedcba98765432100123456789abcdef\"", "7", "checksum 0 is not 32"},
      {"\"fedcba98765432100123456789abcdef\", ", "", "has 1 checksums, not 2"},
      {"\"size_bytes\": 4160", "\"size_bytes\": 4194305", "has 1 checksums, not 2"},
      {"\"size_bytes\": 4160", "\"size_bytes\": 9223372036854775808", "is more than"},
      {"\"size_bytes\": 4160", "\"size_bytes\": 4135", "not in the data"},
      {"\"begin_bytes\": 4128, \"end_bytes\": 4136", "\"begin_bytes\": 0, \"end_bytes\": 8",
       "not in the data"},
      {"\"begin_bytes\": 4128, \"end_bytes\": 4136", "\"begin_bytes\": 4136, \"end_bytes\": 4128",
       "not in the data"},
      {"\"end_bytes\": 4134", "\"end_bytes\": 4135", "has 6 bytes by its shape, 7 by its range"},
      {"\"begin_bytes\": 4128, \"end_bytes\": 4134", "\"begin_bytes\": 4096, \"end_bytes\": 4102",
       R"(tensors "b \x22\xc3\xa9\x22" and "w": their bytes in "rank-00000.safetensors" overlap)"},
      {"\"begin_bytes\": 4128, \"end_bytes\": 4134", "\"begin_bytes\": 4127, \"end_bytes\": 4133",
       "overlap"},
      {"\"begin_bytes\": 4128, \"end_bytes\": 4134", "\"begin_bytes\": 4091, \"end_bytes\": 4097",
       "overlap"},
      {"\"begin_bytes\": 4128, \"end_bytes\": 4136", "\"begin_bytes\": 4100, \"end_bytes\": 4108",
       "overlap"},
      {"\"file\": 1", "\"file\": 2", "refers to file 2 of 2"},
      {"\"file\": 1", "\"file\": 4294967296", "is more than"},
      {"\"offsets\": [2, 0]", "\"offsets\": [3, 0]", "is outside of it"},
      {"\"offsets\": [2, 0]", "\"offsets\": [4611686018427387904, 0]", "is outside of it"},
      {"\"offsets\": [2, 0]", "\"offsets\": [1, 0]", "overlap"},
      {"\"offsets\": [2, 0]", "\"offsets\": [0, 0]", "duplicate"},
      {"\"offsets\": [2, 0]", "\"offsets\": [2]", "another number of dimensions"},
      {"\"offsets\": [2, 0]", "\"offsets\": null", "needs both"},
      {"\"global_shape\": [4, 4]", "\"global_shape\": [5, 4]", "disagree"},
      {"\"shape\": [0, 7]", "\"shape\": [4611686018427387904, 7, 0]", "more than 2^64"},
      {"\"loss\": 0.1", "\"loss\": \"0.1\"", "not an object"},
      {"\"loss\": 0.1", "\"loss\": {\"!float\": \"NaN\"}", "not a number"},
      {"\"loss\": 0.1", "\"loss\": 1e999", "too large for a double"},
      {"\"files\": [", "\"files\": {\"a\": [", "not valid JSON"},
      {"{\n", "[\n", "not valid JSON"},
  };
  for (const Hostile& hostile : cases) {
    SCOPED_TRACE(hostile.to);
    expect_refused(respelled(text, hostile.from, hostile.to), hostile.reason);
  }
}

// Tensors without elements have no bytes, wherever they say that these are.
TEST(CheckpointManifestHostileTest, an_empty_tensor_overlaps_nothing) {
  const std::string text = format_checkpoint_manifest(example_manifest());
  for (const char* place : {"4096", "4100", "4128", "4160"}) {
    const std::string to = fmt::format("\"begin_bytes\": {0}, \"end_bytes\": {0}", place);
    const auto read = parse_checkpoint_manifest(
        respelled(text, "\"begin_bytes\": 4134, \"end_bytes\": 4134", to), "m");
    EXPECT_TRUE(read.ok()) << place << ": " << read.status().message();
  }
}

// Whoever restores makes room by what the reference says, and reads what is stored.
TEST(CheckpointManifestHostileTest, references_that_say_other_than_what_is_stored_are_refused) {
  const std::string text = format_checkpoint_manifest(example_manifest());
  const std::string b = R"("b \"\u00e9\"")";  // three BF16
  const std::pair<std::string, const char*> cases[] = {
      {R"({"!tensor": "none"})", "there is no tensor"},
      {R"({"!tensor": 7})", "not a tensor's name"},
      {R"({"!tensor": ["scalar", "<i8"]})", "not a tensor's name"},
      {R"({"!array": "scalar"})", "not a tensor's name"},
      {R"({"!array": ["scalar", "<i8", 1]})", "not a tensor's name"},
      {R"({"!array": ["scalar", "<i8"]})", "has other elements"},
      {R"({"!array": ["scalar", "O"]})", "no elements of type"},
      {R"({"!array": ["scalar", "<U4611686018427387905"]})", "no elements of type"},
      {R"({"!array": ["w", "<c16"]})", "has other elements"},
      {R"({"!torch": ["w", "<M8[ns]"]})", "no elements of type"},
      {R"({"!scalar": {"!tensor": "w"}})", "is not a scalar"},
      {R"({"!scalar": {"!tensor": )" + b + "}}", "is not a scalar"},
      {R"({"!scalar": 7})", "not a reference"},
      {R"({"!slice": {"!scalar": {"!tensor": "scalar"}}})", "not a reference"},
      {R"({"deep": [[{"!tuple": [{"!array": ["scalar", "<V16"]}]}]]})", "has other elements"},
      {R"({"!dict": [[1, {"!tensor": "none"}]]})", "there is no tensor"},
  };
  for (const auto& [reference, reason] : cases) {
    SCOPED_TRACE(reference);
    const std::string node = R"("z": )" + reference;
    expect_refused(respelled(text, R"("z": 1)", node), reason);
    expect_refused(respelled(text, R"("cursor": "AAAA")", R"("cursor": )" + reference), reason);
  }
  for (const std::string& valid :
       {std::string(R"({"!tensor": "w"})"), std::string(R"({"!scalar": {"!torch": "scalar"}})"),
        std::string(R"({"!slice": {"!tensor": "not stored"}})"), R"({"!torch": )" + b + "}"}) {
    const auto read =
        parse_checkpoint_manifest(respelled(text, R"("z": 1)", R"("z": )" + valid), "m");
    EXPECT_TRUE(read.ok()) << valid << read.status().message();
  }
}

TEST(CheckpointManifestHostileTest, deep_nesting_ends_in_an_error_and_not_on_the_stack) {
  const std::string text = format_checkpoint_manifest(example_manifest());
  const std::string deep = R"("later": )" + std::string(1'000'000, '[');
  expect_refused(respelled(text, "\"tool\"", deep + ", \"tool\""), "nested more than 64 deep");
  const std::string inner(63, '[');
  const std::string closed = R"("later": )" + inner + std::string(63, ']') + ", \"tool\"";
  EXPECT_TRUE(parse_checkpoint_manifest(respelled(text, "\"tool\"", closed), "m").ok());
}

TEST(CheckpointManifestHostileTest, text_after_a_zero_byte_is_not_overlooked) {
  std::string body = format_checkpoint_manifest(example_manifest());
  body.insert(body.size() - 1, 1, '\0');
  expect_refused(body, "checksum");
  // A second document, sealed, behind the end of a first one.
  const std::string hidden = std::string("{}\0\n", 4);
  expect_refused(seal_json(hidden), "byte 2");
}

TEST(CheckpointManifestHostileTest, names_in_messages_are_printable) {
  const std::string text = format_checkpoint_manifest(example_manifest());
  const auto read = parse_checkpoint_manifest(
      respelled(text, "\"rank-00000.safetensors\"", R"("\u001b[31m/\u009b")"), "m");
  ASSERT_FALSE(read.ok());
  for (const char c : read.status().message()) EXPECT_TRUE(c >= ' ' && c <= '~');
}

}  // namespace
}  // namespace stoker::testing
