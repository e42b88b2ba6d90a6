#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "stoker/plan.h"

namespace stoker::plan {
namespace {

Result<Answer> example() {
  return compute({.kind = "read",
                  .settings = {{.name = "gpus", .text = "8"},
                               {.name = "batch", .text = "256"},
                               {.name = "sample", .text = "130KB"},
                               {.name = "step", .text = "200ms"}}});
}

TEST(RenderTest, the_report_says_units_inputs_formulas_and_what_binds) {
  const std::string text = render_text(*example());
  for (const char* part :
       {"GB = 10^9 bytes, GiB = 2^30 bytes", "  needed = 1.3312 GB/s (1.2398 GiB/s)\n",
        "  sample   130KB\n", "  request  4MiB   default\n",
        "      = samples_per_second * sample = 10,240/s * 130 KB\n", "What binds\n",
        "What would change it\n"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find(" \n"), std::string::npos) << "no trailing spaces";
}

TEST(RenderTest, json_echoes_the_inputs_and_has_whole_numbers_of_base_units) {
  const nlohmann::json json = nlohmann::json::parse(render_json(*example()));
  EXPECT_EQ(json["kind"], "read");
  EXPECT_EQ(json["units"], "GB = 10^9 bytes, GiB = 2^30 bytes");
  EXPECT_EQ(json["inputs"]["sample"]["text"], "130KB");
  EXPECT_EQ(json["inputs"]["sample"]["value"], 130000.0);
  EXPECT_EQ(json["inputs"]["sample"]["unit"], "B");
  EXPECT_EQ(json["inputs"]["request"]["origin"], "default");
  EXPECT_EQ(json["values"]["needed"], 1331200000.0);
  EXPECT_EQ(json["steps"][1]["formula"], "samples_per_second * sample");
  EXPECT_EQ(json["steps"][1]["numbers"], "10,240/s * 130 KB");
  EXPECT_EQ(json["results"][0], "needed");
  EXPECT_FALSE(json["binds"].empty());
}

TEST(RenderTest, an_input_that_is_not_used_says_so) {
  const Result<Answer> answer =
      compute({.kind = "checkpoint",
               .settings = {{.name = "size", .text = "1GB"}, {.name = "gpus", .text = "8"}}});
  const std::string text = render_text(*answer);
  EXPECT_NE(text.find("  gpus       8     not used\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  precision  bf16  default, not used\n"), std::string::npos) << text;
  const nlohmann::json json = nlohmann::json::parse(render_json(*answer));
  EXPECT_EQ(json["inputs"]["gpus"]["used"], false);
  EXPECT_EQ(json["inputs"]["size"]["used"], true);
}

TEST(RenderTest, a_curve_is_drawn_where_there_is_one) {
  EXPECT_EQ(std::string(render_svg(*example()).status().message()),
            "plot: read has no curve to draw for these inputs");
  const Result<Answer> answer = interval({.save = Seconds{60}, .mtbf = Seconds{10800}});
  const Result<std::string> svg = render_svg(*answer);
  ASSERT_TRUE(svg.ok());
  EXPECT_TRUE(svg->starts_with("<svg ") && svg->ends_with("</svg>\n"));
  EXPECT_NE(svg->find("<polyline"), std::string::npos);
  EXPECT_NE(svg->find("GB = 10^9 bytes, GiB = 2^30 bytes"), std::string::npos);
  EXPECT_EQ(svg->find("nan"), std::string::npos);
  EXPECT_EQ(svg->find("inf"), std::string::npos);
}

}  // namespace
}  // namespace stoker::plan
