#include "bench/gpu/pcie_link.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

TEST(PcieLink, theory_follows_from_generation_and_width) {
  const auto link = parse_pcie_link("32.0 GT/s PCIe\n", "16\n");
  ASSERT_TRUE(link.has_value());
  EXPECT_EQ(link->generation(), 5U);
  EXPECT_NEAR(link->bytes_per_s(), 63.0e9, 0.1e9);
  EXPECT_NEAR(parse_pcie_link("8.0 GT/s PCIe", "4")->bytes_per_s(), 3.94e9, 0.01e9);
  EXPECT_NEAR(parse_pcie_link("2.5 GT/s PCIe", "1")->bytes_per_s(), 0.25e9, 1e6);
  EXPECT_EQ(parse_pcie_link("7 GT/s", "1")->generation(), 0U);
}

TEST(PcieLink, what_the_kernel_does_not_know_is_missing) {
  EXPECT_FALSE(parse_pcie_link("Unknown", "16").has_value());
  EXPECT_FALSE(parse_pcie_link("", "").has_value());
  EXPECT_FALSE(parse_pcie_link("8.0 GT/s PCIe", "0").has_value());
  EXPECT_FALSE(parse_pcie_link("8.0 GT/s PCIe", "255").has_value());
  const PcieLinks none = read_pcie_links("/nowhere");
  EXPECT_FALSE(none.now || none.most);
}

TEST(PcieLink, it_is_read_from_the_files_of_a_device) {
  const TempDir directory;
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(std::filesystem::path(directory.path()) / name) << text;
  };
  write("current_link_speed", "16.0 GT/s PCIe\n");
  write("current_link_width", "8\n");
  write("max_link_speed", "32.0 GT/s PCIe\n");
  write("max_link_width", "16\n");
  const PcieLinks links = read_pcie_links(directory.path());
  ASSERT_TRUE(links.now && links.most);
  EXPECT_EQ(links.now->generation(), 4U);
  EXPECT_EQ(links.now->width, 8U);
  EXPECT_EQ(links.most->generation(), 5U);
}

}  // namespace
}  // namespace stoker::testing
