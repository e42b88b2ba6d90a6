#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/render_cliff.h"
#include "bench/render_disk.h"

namespace stoker {
namespace {

using nlohmann::json;

DiskReport make_report() {
  DiskReport report{.path = "/data",
                    .filesystem = "ext4",
                    .kernel = "6.1.0",
                    .size_bytes = std::uint64_t{4} << 30,
                    .engine = "uring",
                    .engine_reason = "asked for",
                    .registered_buffers = true};
  report.results.push_back({.kind = CaseKind::seq_write,
                            .engine = "uring",
                            .policy = {.cache = CachePolicy::direct},
                            .io_path = "direct",
                            .block_bytes = 4 << 20,
                            .depth = 8,
                            .bytes = std::uint64_t{4} << 30,
                            .count = 1024,
                            .elapsed_ns = 864'000'000,
                            .bytes_per_s = 4.97e9,
                            .iops = 1185,
                            .p50_ns = 6'700'000,
                            .p99_ns = 9'000'000,
                            .max_ns = 9'500'000});
  report.results.push_back({.kind = CaseKind::seq_write,
                            .engine = "uring",
                            .policy = {.cache = CachePolicy::buffered},
                            .block_bytes = 4 << 20,
                            .depth = 8,
                            .skipped = "no room"});
  report.results.push_back({.kind = CaseKind::small_read,
                            .engine = "uring",
                            .policy = {.cache = CachePolicy::buffered},
                            .io_path = "buffered",
                            .block_bytes = 4096,
                            .depth = 1,
                            .cache = CacheState::warm,
                            .resident_before = 0.5,
                            .iops = 127'000,
                            .note = "not cold: 50 % stayed in memory after eviction"});
  return report;
}

TEST(RenderDiskTest, json_has_the_documented_keys) {
  const json root = json::parse(render_disk_json(make_report()));
  for (const char* key : {"path", "filesystem", "kernel", "size_bytes", "engine", "engine_reason",
                          "registered_buffers", "buffer_pages", "time_per_case_ns", "results"})
    EXPECT_TRUE(root.contains(key)) << key;
  const json& write = root["results"][0];
  EXPECT_EQ(write["name"], "seq_write");
  EXPECT_EQ(write["policy"], "direct");
  EXPECT_EQ(write["cache"], "n/a");
  EXPECT_TRUE(write["resident_before"].is_null());
  for (const char* key : {"engine", "block_bytes", "depth", "bytes", "count", "elapsed_ns",
                          "bytes_per_s", "iops", "p50_ns", "p99_ns", "max_ns", "io_path"})
    EXPECT_TRUE(write.contains(key)) << key;
  EXPECT_EQ(root["results"][1]["skipped"], "no room");
  EXPECT_FALSE(root["results"][1].contains("bytes_per_s")) << "a skipped case has no figures";
  EXPECT_EQ(root["results"][2]["files_per_s"], 127'000);
  EXPECT_EQ(root["results"][2]["resident_before"], 0.5);
}

TEST(RenderDiskTest, path_that_is_no_text_still_gives_json) {
  DiskReport report = make_report();
  report.path = "/data/\xff\xfe";
  EXPECT_TRUE(json::accept(render_disk_json(report)));
}

TEST(RenderDiskTest, table_shows_bars_rates_skips_and_notes) {
  const std::string table = render_disk_table(make_report());
  for (const char* part : {"████████████████████", "4.97 GB/s", "skipped: no room", "127k files/s",
                           "(not cold: 50 %", "registered buffers", "p99"})
    EXPECT_NE(table.find(part), std::string::npos) << part << " is missing in\n" << table;
  EXPECT_EQ(table.find("random read"), std::string::npos) << "a section without results";
}

CliffReport make_cliff_report(bool with_cliff) {
  CliffReport report{.path = "/data", .filesystem = "ext4", .engine = "uring", .io_path = "direct"};
  report.window_bytes = 1'000'000;
  for (int i = 0; i < 100; ++i)
    report.windows.push_back({1'000'000, nanoseconds(with_cliff && i >= 40 ? 2'000'000 : 500'000)});
  report.cliff = find_cliff(report.windows);
  return report;
}

TEST(RenderCliffTest, cliff_is_told_with_bytes_rates_and_limit) {
  const CliffReport report = make_cliff_report(true);
  ASSERT_TRUE(report.cliff);
  const std::string text = render_cliff_text(report);
  for (const char* part : {"A cliff after 38.1 MiB", "2 GB/s before", "500 MB/s after", "75 % less",
                           "limit writes to 475 MB/s", "█▃"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  const json root = json::parse(render_cliff_json(report));
  EXPECT_EQ(root["cliff"]["bytes_before"], 40'000'000);
  EXPECT_EQ(root["cliff"]["limit_bytes_per_s"], 475'000'000);
  EXPECT_EQ(root["windows"].size(), 100u);
}

TEST(RenderCliffTest, disk_without_a_cliff_is_told_so) {
  const CliffReport report = make_cliff_report(false);
  EXPECT_NE(render_cliff_text(report).find("No cliff in 95.4 MiB: 2 GB/s"), std::string::npos);
  EXPECT_TRUE(json::parse(render_cliff_json(report))["cliff"].is_null());
}

}  // namespace
}  // namespace stoker
