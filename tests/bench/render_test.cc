#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/cliff/render_cliff.h"
#include "bench/disk/render_disk.h"

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

DiskReport make_full_report() {
  DiskReport report = make_report();
  report.path = "/mnt/a/path/that/is/rather/long/and/takes/most/of/the/line/alone";
  report.results[1].skipped =
      "O_DIRECT is refused by this filesystem, which is a long story to tell";
  report.results.push_back({.kind = CaseKind::seq_read,
                            .policy = {.cache = CachePolicy::direct},
                            .block_bytes = 4 << 20,
                            .depth = 8,
                            .cache = CacheState::cold,
                            .bytes_per_s = 2.1e9,
                            .iops = 500});
  for (const std::uint32_t block : {4096U, 1U << 20})
    report.results.push_back({.kind = CaseKind::rand_read,
                              .policy = {.cache = CachePolicy::direct},
                              .block_bytes = block,
                              .depth = 128,
                              .cache = CacheState::cold,
                              .bytes_per_s = 19'000.0 * block,
                              .iops = 19'000});
  report.results.push_back({.kind = CaseKind::rand_read,
                            .policy = {.cache = CachePolicy::buffered},
                            .block_bytes = 4096,
                            .depth = 1,
                            .cache = CacheState::warm,
                            .bytes_per_s = 4e9,
                            .iops = 1e6});
  for (const CaseKind kind : {CaseKind::fsync, CaseKind::fdatasync})
    report.results.push_back({.kind = kind,
                              .block_bytes = 4096,
                              .depth = 1,
                              .iops = 123'456,
                              .p50_ns = 412'345,
                              .p99_ns = 2'112'345});
  report.results.push_back({.kind = CaseKind::small_read,
                            .block_bytes = 4096,
                            .depth = 1,
                            .cache = CacheState::cold,
                            .bytes_per_s = 12.3e6,
                            .iops = 3'000});
  return report;
}

TEST(RenderDiskTest, table_ends_with_a_verdict_of_three_lines) {
  const std::string table = render_disk_table(make_full_report());
  const std::string verdict =
      "\nverdict\n"
      "  reads   2.1 GB/s in order, 19k IOPS of 4 KiB (cold, direct)\n"
      "  writes  4.97 GB/s durable (direct), an fsync takes 412 us (p99 2.11 ms)\n"
      "  files   3k small files/s of 4 KiB (cold); shards are 171 times faster\n";
  EXPECT_TRUE(table.ends_with(verdict)) << table;
}

TEST(RenderDiskTest, narrow_table_fits_into_80_columns_and_loses_no_line) {
  const DiskReport report = make_full_report();
  std::istringstream lines(render_disk_table(report, 80));
  std::size_t figures = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u) << line;
    if (line.find("p99 ") != std::string::npos && line.starts_with("    ")) ++figures;
  }
  EXPECT_EQ(figures, report.results.size() - 1) << "all but the skipped one";
  EXPECT_EQ(render_disk_table(report, 112), render_disk_table(report)) << "room enough";
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
