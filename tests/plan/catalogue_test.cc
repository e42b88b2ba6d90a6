#include "plan/kinds/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/embedded.h"

namespace stoker::plan {
namespace {

std::string catalogue_error(std::string_view text) {
  const auto devices = parse_catalogue(text, "mine.toml");
  return devices.ok() ? "" : std::string(devices.status().message());
}

TEST(CatalogueTest, ours_has_every_kind_of_device_with_a_dated_source) {
  const auto devices = all_devices("");
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  std::set<std::string> found;
  for (const Device& device : *devices) {
    found.insert(device.kind);
    EXPECT_NE(device.source.find("20"), std::string::npos) << device.name;  // a year
    EXPECT_FALSE(device.settings.empty()) << device.name;
  }
  EXPECT_EQ(found, (std::set<std::string>{"filesystem", "gpu", "nic", "objects", "pcie", "ssd",
                                          "workload"}));
}

TEST(CatalogueTest, files_to_start_from_say_what_a_GB_is) {
  for (const std::string_view text : {device_catalogue(), example_workload()})
    EXPECT_NE(text.find("GB = 10^9 bytes, GiB = 2^30 bytes"), std::string::npos);
}

TEST(CatalogueTest, a_device_of_the_user_replaces_ours) {
  const auto devices = all_devices(
      "[[gpu]]\nname = \"h100-sxm\"\nsource = \"our contract, 2026-11\"\nprice = \"2USD/h\"\n");
  ASSERT_TRUE(devices.ok()) << devices.status().message();
  EXPECT_EQ(std::ranges::count(*devices, "h100-sxm", &Device::name), 1);
  EXPECT_EQ(devices->front().source, "our contract, 2026-11");
  const Result<Answer> answer =
      compute({.kind = "stall",
               .settings = {{.name = "stall", .text = "1h"}},
               .devices = {"h100-sxm"},
               .catalogue = "[[gpu]]\nname = \"h100-sxm\"\nsource = \"us\"\nprice = \"2USD/h\"\n"});
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_EQ(answer->find<Money>("cost_of_one")->count(), 2);
  EXPECT_EQ(answer->given[1].origin, "catalogue: h100-sxm");
  EXPECT_EQ(answer->given[1].source, "us");
}

TEST(CatalogueTest, errors_name_the_line) {
  EXPECT_EQ(catalogue_error("[[ssd]]\nsource = \"s\"\n"),
            "mine.toml, line 1: the device has no name");
  EXPECT_TRUE(
      catalogue_error("[[ssd]]\nname = \"a\"\n").starts_with("mine.toml, line 1: a has no source"));
  const std::string head = "[[ssd]]\nname = \"a\"\nsource = \"s\"\n";
  EXPECT_EQ(catalogue_error(head + "speed = \"1GB/s\"\n"),
            "mine.toml, line 4: speed is not a field of any plan");
  EXPECT_EQ(catalogue_error(head + "read_rate = \"1GB\"\n"),
            "mine.toml, line 4: read_rate: \"1GB\" is a size; give a rate of bytes, like 6.5GB/s");
  EXPECT_EQ(catalogue_error(head + head), "mine.toml, line 4: a again");
  EXPECT_TRUE(
      catalogue_error("[ssd]\nname = \"a\"\n").starts_with("mine.toml, line 1: a device begins"));
  EXPECT_TRUE(
      catalogue_error("\nname = \"a\"\n").starts_with("mine.toml, line 2: a device begins"));
}

}  // namespace
}  // namespace stoker::plan
