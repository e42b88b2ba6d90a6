#include "store/text/xml.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker::testing {
namespace {

TEST(XmlTest, elements_text_entities_and_comments_are_read) {
  const auto root = parse_xml(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a -->\n"
      "<a xmlns=\"http://x/\" b='>'><c>1 &lt;&amp;&#65;&#x20AC;</c><s3:d/><!-- <c> --> "
      "<c>2</c></a>\n");
  ASSERT_TRUE(root.ok()) << root.status().message();
  EXPECT_EQ(root->name, "a");
  ASSERT_EQ(root->children.size(), 3U);
  EXPECT_EQ(root->text_of("c"), "1 <&A\xe2\x82\xac");
  EXPECT_EQ(root->children[1].name, "d");
  EXPECT_EQ(root->text_of("none"), "");
  EXPECT_EQ(root->text, "");
}

TEST(XmlTest, what_is_not_strictly_xml_is_corrupt) {
  for (const char* const text : {"",
                                 "a",
                                 "<a>",
                                 "<a></b>",
                                 "<a></a",
                                 "<a></ab>",
                                 "<a/><b/>",
                                 "<a>&nbsp;</a>",
                                 "<a>&#0;</a>",
                                 "<a>&#xD800;</a>",
                                 "<a>&#x110000;</a>",
                                 "<a>&lt</a>",
                                 "<a b></a>",
                                 "<a b=c></a>",
                                 "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>",
                                 "<a><![CDATA[b]]></a>",
                                 "<a><?b c?></a>",
                                 "<a><!-- b</a>",
                                 "< a/>",
                                 "<a b='></a>"}) {
    const auto root = parse_xml(text);
    EXPECT_EQ(root.status().code(), Code::corrupt) << text;
  }
}

TEST(XmlTest, depth_size_and_number_of_elements_are_limited) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  EXPECT_EQ(parse_xml(deep).status().code(), Code::corrupt);
  EXPECT_TRUE(parse_xml("<a><a/></a>", {.depth_max = 2}).ok());
  EXPECT_FALSE(parse_xml("<a><a/></a>", {.depth_max = 1}).ok());
  EXPECT_FALSE(parse_xml("<a><a/></a>", {.element_count_max = 1}).ok());
  EXPECT_FALSE(parse_xml("<a></a>", {.text_bytes_max = 6}).ok());
}

}  // namespace
}  // namespace stoker::testing
