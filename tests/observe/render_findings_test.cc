#include "observe/render_findings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stoker {
namespace {

using Json = nlohmann::json;

Findings sample() {
  return {{.subject = "io_uring", .seen = "works"},
          {.severity = Severity::note,
           .subject = "huge pages",
           .seen = "never",
           .why = "Slower.",
           .fix = "echo madvise > enabled"},
          {.severity = Severity::problem,
           .subject = "/data: mount options",
           .seen = "mounted with nobarrier",
           .why = "A power cut loses checkpoints.",
           .fix = "mount -o remount,barrier /data"}};
}

TEST(RenderTextTest, the_worst_comes_first_and_the_summary_last) {
  EXPECT_EQ(render_text(sample(), {}),
            "problem  /data: mount options\n"
            "         seen  mounted with nobarrier\n"
            "         why   A power cut loses checkpoints.\n"
            "         fix   mount -o remount,barrier /data\n"
            "\n"
            "note     huge pages\n"
            "         seen  never\n"
            "         why   Slower.\n"
            "         fix   echo madvise > enabled\n"
            "\n"
            "ok       io_uring: works\n"
            "\n"
            "1 problem, 0 warnings, 1 note, 1 ok\n");
}

TEST(RenderTextTest, long_text_is_wrapped_and_aligned_and_commands_are_not) {
  const Findings findings{{.severity = Severity::warning,
                           .subject = "x",
                           .seen = "one two three four five six",
                           .why = "w",
                           .fix = "a command that is longer than the width of the page"}};
  EXPECT_EQ(render_text(findings, {.width = 30}),
            "warning  x\n"
            "         seen  one two three\n"
            "               four five six\n"
            "         why   w\n"
            "         fix   a command that is longer than the width of the page\n"
            "\n"
            "0 problems, 1 warning, 0 notes, 0 ok\n");
}

TEST(RenderTextTest, colour_is_there_when_asked_for_and_only_then) {
  EXPECT_EQ(render_text(sample(), {}).find('\x1b'), std::string::npos);
  EXPECT_NE(render_text(sample(), {.color = true}).find("\x1b[1;31mproblem"), std::string::npos);
}

TEST(RenderTextTest, a_terminal_never_sees_control_characters_of_the_machine) {
  const Findings findings{{.severity = Severity::note,
                           .subject = "a\x1b[2Jb",
                           .seen = "c\x07",
                           .why = "d\re",
                           .fix = "f\ng"},
                          {.subject = "h\x7f", .seen = "i\x1b]0;x"}};
  const std::string text = render_text(findings, {});
  EXPECT_EQ(text.find_first_of("\x1b\x07\r\x7f"), std::string::npos);
  EXPECT_NE(text.find("f?g"), std::string::npos);
}

TEST(RenderJsonTest, findings_come_back_field_by_field_in_order) {
  const Json document = Json::parse(render_json(sample()));
  ASSERT_EQ(document["findings"].size(), 3U);
  EXPECT_EQ(document["findings"][2], (Json{{"severity", "problem"},
                                           {"subject", "/data: mount options"},
                                           {"seen", "mounted with nobarrier"},
                                           {"why", "A power cut loses checkpoints."},
                                           {"fix", "mount -o remount,barrier /data"}}));
  EXPECT_EQ(document["findings"][0]["severity"], "ok");
}

TEST(RenderJsonTest, bytes_that_are_no_text_still_give_valid_json) {
  const std::string text = render_json({{.subject = "\xff\xfe", .seen = std::string("\0\"", 2)}});
  EXPECT_TRUE(Json::accept(text)) << text;
}

TEST(RenderJsonTest, no_findings_are_an_empty_list) {
  EXPECT_EQ(Json::parse(render_json({})), (Json{{"findings", Json::array()}}));
}

TEST(CountBySeverityTest, each_severity_is_counted) {
  EXPECT_EQ(count_by_severity(sample()), (std::array<std::size_t, 4>{1, 1, 0, 1}));
}

}  // namespace
}  // namespace stoker
