#include "bench/gpu/gpu_bench.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/gpu/render_gpu.h"
#include "gpu/fake_driver.h"
#include "nlohmann/json.hpp"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

class GpuBenchTest : public ::testing::Test {
 protected:
  Result<GpuReport> run(std::stop_token stop = {}, std::uint64_t memory_bytes = 0) {
    return run_gpu_bench({.path = directory_.path(),
                          .sizes = {GpuBenchOptions::kBytesMin + 5000},
                          .memory_bytes = memory_bytes,
                          .threads = 3,
                          .sysfs = directory_.path(),
                          .direct = {.find_library = []() -> Result<const CuFile*> {
                                       return Status(Code::unsupported, "no library here");
                                     },
                                     .sysfs = directory_.path()}},
                         fake_.table(), posix_file_ops(), {}, stop);
  }

  const TempDir directory_;
  FakeDriver fake_;
};

TEST_F(GpuBenchTest, copies_and_reads_are_measured_and_everything_is_freed) {
  const Result<GpuReport> report = run();
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->cases.size(), 6U);
  for (const GpuCase& one : report->cases)
    EXPECT_TRUE(one.bytes_per_s() > 0 || !one.why.empty()) << one.name;
  EXPECT_EQ(report->pci_id, "0000:00:00.0");
  EXPECT_EQ(fake_.registered_count(), 0U);
  EXPECT_EQ(fake_.allocated_bytes(), 0U);
  EXPECT_EQ(fake_.retained_count(), 0);

  const std::string text = render_gpu_text(*report);
  EXPECT_NE(text.find("link: unknown"), std::string::npos) << text;
  EXPECT_NE(text.find("cuFile                           no direct reads: no library here"),
            std::string::npos)
      << text;
  const auto json = nlohmann::json::parse(render_gpu_json(*report));
  EXPECT_EQ(json["cases"].size(), 6U);
  EXPECT_EQ(json["cufile"]["measured"], false);
  EXPECT_EQ(json["cufile"]["direct"], false);
  EXPECT_EQ(json["cufile"]["why"], "no library here");
  EXPECT_TRUE(json["link"].is_null());
}

TEST_F(GpuBenchTest, a_file_that_the_page_cache_cannot_hold_is_left_out) {
  const Result<GpuReport> report = run({}, GpuBenchOptions::kBytesMin);
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->cases.size(), 6U);
  for (const GpuCase& one : report->cases) {
    const bool is_file = one.name.starts_with("file");
    EXPECT_EQ(one.why.find("the page cache must hold the file") != std::string::npos, is_file);
    EXPECT_EQ(one.bytes_per_s() > 0, !is_file) << one.name;
  }
}

TEST_F(GpuBenchTest, a_driver_that_fails_is_a_failure) {
  fake_.fail_call(40);
  EXPECT_FALSE(run().ok());
}

TEST_F(GpuBenchTest, bytes_that_the_device_lost_are_noticed) {
  std::size_t last_copy = 0;
  ASSERT_TRUE(run().ok());
  const std::vector<std::string> calls = fake_.calls();
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i] == "memcpy_htod_async") last_copy = i;
  fake_.fail_call(last_copy, FakeDriver::Fault::later);
  EXPECT_FALSE(run().ok());
}

TEST_F(GpuBenchTest, it_can_be_stopped) {
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(run(source.get_token()).status().code(), Code::cancelled);
}

TEST_F(GpuBenchTest, options_that_cannot_work_are_refused) {
  EXPECT_EQ(run_gpu_bench({.sizes = {1}}, fake_.table(), posix_file_ops(), {}, {}).status().code(),
            Code::invalid_argument);
  EXPECT_EQ(run_gpu_bench({.threads = 65}, fake_.table(), posix_file_ops(), {}, {}).status().code(),
            Code::invalid_argument);
}

}  // namespace
}  // namespace stoker::testing
