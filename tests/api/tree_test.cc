#include "stoker/tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace stoker {
namespace {

std::string text_of(const Tree& tree) {
  const Result<std::string> text = format_tree(tree);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : std::string();
}

Tree tree_of(const std::string& json) {
  const Result<Tree> tree = parse_tree(json);
  EXPECT_TRUE(tree.ok()) << json << ": " << tree.status().message();
  return tree.ok() ? *tree : Tree();
}

TEST(TreeTest, plain_values_are_plain_json_in_their_order) {
  const Tree tree = {{"z", nullptr},
                     {"a", true},
                     {"n", -7},
                     {"big", std::uint64_t{1} << 53},
                     {"real", 1.0},
                     {"text", "\"ä\""},
                     {"list", Tree::list({1, "two", Tree::list({})})},
                     {"map", {{"inner", 0.1}}}};
  EXPECT_EQ(text_of(tree),
            "{\"z\": null, \"a\": true, \"n\": -7, \"big\": 9007199254740992, \"real\": 1.0, "
            "\"text\": \"\\\"ä\\\"\", \"list\": [1, \"two\", []], \"map\": {\"inner\": 0.1}}");
  EXPECT_EQ(text_of(tree_of(text_of(tree))), text_of(tree));
}

TEST(TreeTest, what_json_lacks_has_a_tag) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::vector<std::byte> bytes{std::byte{0}, std::byte{255}, std::byte{16}, std::byte{131}};
  const Tree tree = {{"nan", std::nan("")},
                     {"inf", -kInfinity},
                     {"large", std::numeric_limits<std::uint64_t>::max()},
                     {"small", std::numeric_limits<std::int64_t>::min()},
                     {"bytes", bytes},
                     {"none", std::vector<std::byte>()},
                     {"keys", {{"!odd", 1}, {"even", 2}}}};
  EXPECT_EQ(text_of(tree),
            R"({"nan": {"!float": "nan"}, "inf": {"!float": "-inf"}, )"
            R"("large": {"!int": "18446744073709551615"}, )"
            R"("small": {"!int": "-9223372036854775808"}, "bytes": {"!bytes": "AP8Qgw=="}, )"
            R"("none": {"!bytes": ""}, "keys": {"!dict": [["!odd", 1], ["even", 2]]}})");
  const Tree read = tree_of(text_of(tree));
  EXPECT_TRUE(std::isnan(*read.find("nan")->real()));
  EXPECT_EQ(read.find("large")->uint64(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(read.find("large")->int64(), std::nullopt);
  EXPECT_EQ(*read.find("bytes")->bytes(), bytes);
  EXPECT_EQ(read.find("keys")->find("!odd")->int64(), 1);
}

/// What only Python has: written by it, read as plain content, and written as it was.
TEST(TreeTest, values_of_python_are_read_as_their_content_and_kept) {
  const std::string texts[] = {
      R"({"!tuple": [1, {"!tuple": []}]})",
      R"({"!set": [1, 2]})",
      R"({"!frozenset": ["a"]})",
      R"({"!dict": [[1, "one"], [{"!tuple": [2, 3]}, {"!torch": "w"}]]})",
      R"({"!ordered_dict": {"b": 1, "a": 2}})",
      R"({"!counter": {"!dict": [[1, 2]]}})",
      R"({"!default_dict": ["int", {"a": 1}]})",
      R"({"!default_dict": [null, {"!dict": [[1, 2]]}]})",
      R"({"!namespace": {"lr": 0.1}})",
      R"({"!enum": {"!tuple": [1]}})",
      R"({"!path": "/data"})",
      R"({"!pure_path": "data"})",
      R"({"!numpy_dtype": "<f4"})",
      R"({"!torch_dtype": "float32"})",
      R"({"!torch_device": "cuda:0"})",
      R"({"!torch_size": [2, 3]})",
      R"({"!complex": [1.0, {"!float": "nan"}]})",
      R"({"!int": "123456789012345678901234567890"})",
      R"({"!tensor": "w"})",
      R"({"!array": ["w", "<c16"]})",
      R"({"!torch": ["w", "<c16"]})",
      R"({"!scalar": {"!array": ["w", "<M8[ns]"]}})",
      R"({"!slice": {"!torch": "w"}})",
      R"({"!bytes_io": {"!tensor": "w"}})",
      R"({"!trainable": {"base": "00", "state": {"!ordered_dict": {"w": {"!torch": "w"}}}}})",
      R"({"!flattened": {"tensors": {"a": {"!torch": "a"}}, "context": null, "dtype": "float32", "shape": [2]}})",
  };
  for (const std::string& text : texts) EXPECT_EQ(text_of(tree_of(text)), text);

  const Tree pair = tree_of(R"({"!tuple": [1, "a"]})");
  EXPECT_EQ(pair.tag(), "!tuple");
  EXPECT_EQ(pair.kind(), Tree::Kind::list);
  EXPECT_EQ(*pair.items()[1].text(), "a");
  EXPECT_EQ(tree_of(R"({"!default_dict": ["int", {"a": 1}]})").tag(), "!default_dict");
  EXPECT_EQ(tree_of(R"({"!default_dict": ["int", {"a": 1}]})").find("a")->int64(), 1);
  EXPECT_EQ(*tree_of(R"({"!path": "/data"})").text(), "/data");
  const Tree tensor = tree_of(R"({"!scalar": {"!array": ["w", "<c16"]}})");
  EXPECT_EQ(tensor.tensor()->name, "w");
  EXPECT_EQ(tensor.tensor()->element, "<c16");
}

TEST(TreeTest, damage_is_corrupt_and_an_unknown_tag_is_not) {
  for (const std::string text :
       {"", "{", R"({"a": 1, "a": 2})", R"({"!tuple": 1})", R"({"!bytes": "AP8"})",
        R"({"!bytes": "A==="})", R"({"!float": "1"})", R"({"!int": "1.5"})", R"({"!int": ""})",
        R"({"!scalar": 1})", R"({"!scalar": {"!slice": {"!tensor": "w"}}})", R"({"!tensor": 1})",
        R"({"!array": "w"})", R"({"!dict": [[1]]})", R"({"!dict": [["a", 1], ["a", 2]]})",
        R"({"!default_dict": {}})", R"({"!ordered_dict": []})"})
    EXPECT_EQ(parse_tree(text).status().code(), Code::corrupt) << text;
  EXPECT_EQ(parse_tree(R"({"!pickle": "x"})").status().code(), Code::unsupported);
  EXPECT_EQ(text_of(tree_of(R"({"!a": 1, "b": 2})")), R"({"!dict": [["!a", 1], ["b", 2]]})");
}

TEST(TreeTest, what_cannot_be_written_is_refused_with_its_place) {
  const Result<std::string> text = format_tree({{"a", {{"b", "\xff"}}}});
  EXPECT_EQ(text.status().code(), Code::invalid_argument);
  EXPECT_NE(text.status().message().find("tree.a.b"), std::string_view::npos);
  Tree deep;
  for (int i = 0; i < 70; ++i) deep = Tree::list({deep});
  EXPECT_EQ(format_tree(deep).status().code(), Code::invalid_argument);
}

TEST(TreeTest, fields_are_found_added_and_replaced) {
  Tree tree;
  tree["a"]["b"] = 1;
  tree["a"]["b"] = "two";
  EXPECT_EQ(*tree.find("a")->find("b")->text(), "two");
  EXPECT_EQ(tree.find("c"), nullptr);
  EXPECT_EQ(tree.size(), 1U);
  Tree list = Tree::list_of(std::vector<double>{1, 2});
  list.append(3.5);
  EXPECT_EQ(list.items()[2].real(), 3.5);
  const Tree copy = list;
  list.items()[0] = 7;
  EXPECT_EQ(copy.items()[0].real(), 1);
  EXPECT_EQ((Tree{{"a", 1}, {"a", 2}}).find("a")->int64(), 2);
}

}  // namespace
}  // namespace stoker
