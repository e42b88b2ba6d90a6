#include "formats/json/json_text.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

using Members = std::vector<std::pair<std::string, std::string_view>>;
using Elements = std::vector<std::string_view>;

TEST(JsonTextTest, members_keep_their_order_and_spelling) {
  const Members expected = {{"z", "1.50"},
                            {"a", R"({"b": [1, "]}"], "c": {}})"},
                            {"\xc3\xa9", R"("\"}")"},
                            {"", "null"},
                            {"last", "-0.0"}};
  EXPECT_EQ(json_member_texts(
                R"( {"z":1.50 , "a" : {"b": [1, "]}"], "c": {}},"\u00e9":"\"}", "":null,
                     "last":-0.0} )"),
            expected);
  EXPECT_EQ(json_member_texts("{}"), Members());
}

TEST(JsonTextTest, elements_are_cut_where_they_end) {
  EXPECT_EQ(json_element_texts("[1,[2, [3]],\"a,b\\\\\" , {\"k\": [true]},false]"),
            (Elements{"1", "[2, [3]]", "\"a,b\\\\\"", "{\"k\": [true]}", "false"}));
  EXPECT_EQ(json_element_texts("[ ]"), Elements());
  EXPECT_EQ(json_element_texts("[\n{}\n]"), Elements{"{}"});
}

TEST(JsonTextTest, text_that_is_no_json_is_never_left) {
  const std::string text = R"([{"a": [1, "b\"c\\"], "d": {"e": 2}}, 3, "f"])";
  for (std::size_t begin = 0; begin <= text.size(); ++begin) {
    for (std::size_t size = 0; begin + size <= text.size(); ++size) {
      const std::string piece = text.substr(begin, size);
      for (const std::string_view element : json_element_texts(piece)) {
        EXPECT_LE(element.size(), piece.size());
      }
      json_member_texts(piece);
    }
  }
}

}  // namespace
}  // namespace stoker
