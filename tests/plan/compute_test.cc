// Requests as the command and Python make them: texts, devices, workload files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/embedded.h"
#include "stoker/plan.h"

namespace stoker::plan {
namespace {

std::string request_error(const Request& request) {
  const Result<Answer> answer = compute(request);
  return answer.ok() ? "" : std::string(answer.status().message());
}

Request cluster_of(std::string workload) {
  return {.kind = "cluster", .workload = std::move(workload)};
}

/// The example with one line replaced.
std::string example_with(std::string_view from, std::string_view to) {
  std::string text(example_workload());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ComputeTest, what_is_given_precedes_devices_and_these_precede_defaults) {
  const Result<Answer> answer =
      compute({.kind = "read",
               .settings = {{.name = "gpus", .text = "2"}, {.name = "batch", .text = "14"}},
               .devices = {"mlperf-unet3d-h100"}});
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  const auto origin = [&](std::string_view name) {
    return std::ranges::find(answer->given, name, &Given::name)->origin;
  };
  EXPECT_EQ(origin("batch"), "given");
  EXPECT_EQ(origin("sample"), "catalogue: mlperf-unet3d-h100");
  EXPECT_EQ(origin("request"), "default");
  EXPECT_DOUBLE_EQ(answer->find<BytesPerSecond>("needed")->count(), 2 * 14 * 146600628.0 / 0.323);
  EXPECT_FALSE(answer->find<Bytes>("needed")) << "of another unit";
}

TEST(ComputeTest, unknown_names_and_devices_that_give_nothing_are_refused) {
  EXPECT_TRUE(request_error({.kind = "guess"}).starts_with("kind: \"guess\" is not one of read, "));
  EXPECT_TRUE(request_error({.kind = "read", .settings = {{.name = "gpu", .text = "1"}}})
                  .starts_with("gpu: read has no such field; it has gpus, "));
  EXPECT_TRUE(request_error({.kind = "read", .devices = {"x"}})
                  .starts_with("from: there is no device \"x\""));
  EXPECT_EQ(request_error({.kind = "read", .devices = {"pcie-5.0"}}),
            "from: pcie-5.0 has no value for a field of read");
  EXPECT_EQ(
      request_error({.kind = "stall",
                     .settings = {{.name = "gpus", .text = "1"}, {.name = "gpus", .text = "2"}}}),
      "gpus: is set twice");
}

TEST(ComputeTest, the_example_of_a_cluster_is_a_design_with_a_tier_that_binds) {
  const Result<Answer> answer = compute(cluster_of(std::string(example_workload())));
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  for (const Given& given : answer->given) EXPECT_TRUE(given.is_used) << given.name;
  EXPECT_EQ(*answer->find<double>("nodes"), 125);
  EXPECT_DOUBLE_EQ(answer->find<BytesPerSecond>("reads")->count(), 1000 * 64 * 130e3 / 0.2);
  EXPECT_DOUBLE_EQ(answer->find<Bytes>("checkpoint")->count(), 5.6e12);
  EXPECT_EQ(*answer->find<double>("cache_drives"), 3);
  EXPECT_EQ(*answer->find<Money>("cache_cost"), Money{125 * 3 * 900});
  EXPECT_EQ(*answer->find<double>("filesystem_targets"), 3);
  // A restore of 5.6 TB from 12 GB/s, and a save that is safe after 30 s and 10 min.
  const double cycle = std::expm1((1800 + 5.6e12 / (1000 * 46.8e9)) / 180'000);
  const double repeated = std::exp((300 + 5.6e12 / 12e9 + 600 + 30) / 180'000);
  EXPECT_NEAR(answer->find<Share>("goodput_without_caches")->of_one,
              1800 / (180'000 * repeated * cycle), 1e-9);
  EXPECT_LT(*answer->find<Share>("goodput_without_caches"), *answer->find<Share>("goodput"));
  ASSERT_EQ(answer->table.size(), 5u);
  for (std::size_t i = 1; i < answer->table.size(); ++i)
    EXPECT_NE(answer->table[i].back().find(':'), std::string::npos) << answer->table[i].back();
  EXPECT_TRUE(answer->binds[0].starts_with("filesystem, by writes of a save: it has 1.29 times"))
      << answer->binds[0];
}

TEST(ComputeTest, each_tier_grows_with_what_it_holds) {
  const auto step = [](const std::string& workload, std::string_view name) {
    const Result<Answer> answer = compute(cluster_of(workload));
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    return answer.ok() ? *answer->find<double>(name) : -1;
  };
  EXPECT_EQ(step(example_with("\"2PB\"", "\"4PB\""), "cache_drives"), 5);
  EXPECT_EQ(step(example_with("\"30min\"", "\"10min\""), "cache_drives_for_life"), 1);
  EXPECT_EQ(step(example_with("\"10min\"", "\"5min\""), "filesystem_targets"), 5);
  EXPECT_EQ(step(example_with("\"4h\"", "\"2h\""), "objects_requests_at_once"), 3268);
  EXPECT_EQ(request_error(cluster_of(example_with("write_time = \"30s\"", "write_time = \"1h\""))),
            "cache_write_time (the workload file, line 27): is longer than interval: saves would "
            "pile up");
  const Result<Answer> small = compute(cluster_of(example_with("\"2TiB\"", "\"32GiB\"")));
  EXPECT_TRUE(small->binds[0].starts_with("memory: it is too small")) << small->binds[0];
}

TEST(ComputeTest, a_message_quotes_names_as_short_ASCII) {
  const std::string right_to_left = "\u202eGB";
  const std::string longest(100'000, 'A');
  for (const std::string& name : {right_to_left, longest}) {
    const std::string table = "[[ssd]]\nname = \"" + name + "\"\nsource = \"us\"\n";
    for (const Request& request :
         {cluster_of("device = \"" + name + "\"\n"), cluster_of(longest + " = 1\n"),
          cluster_of("[[" + longest + "]]\n"), Request{.kind = "read", .devices = {name}},
          Request{.kind = name}, Request{.kind = "read", .catalogue = table + table},
          Request{.kind = "read", .settings = {{.name = name, .text = "1"}}},
          Request{.kind = "checkpoint", .settings = {{.name = "optimizer", .text = name}}}}) {
      const std::string error = request_error(request);
      EXPECT_NE(error, "");
      EXPECT_LT(error.size(), 500u);
      EXPECT_TRUE(std::ranges::all_of(error, [](char c) { return c >= ' ' && c <= '~'; })) << error;
    }
  }
}

TEST(ComputeTest, mistakes_in_a_workload_name_the_line) {
  EXPECT_EQ(request_error(cluster_of(example_with("gpus = 1000", "gpu = 1000"))),
            "the workload file, line 6: gpu is not a field of cluster");
  EXPECT_EQ(request_error(cluster_of(example_with("\"130KB\"", "\"130KB/s\""))),
            "the workload file, line 9: sample: \"130KB/s\" is a rate of bytes; give a size, like "
            "130KB or 4MiB");
  EXPECT_EQ(request_error(cluster_of(example_with("\"130KB\"", "130"))),
            "the workload file, line 9: sample: \"130\" has no unit; give a size, like 130KB or "
            "4MiB");
  EXPECT_TRUE(request_error(cluster_of(example_with("micron-7450-pro-7.68tb", "x")))
                  .starts_with("the workload file, line 25: there is no device \"x\""));
  EXPECT_EQ(request_error(cluster_of(example_with("micron-7450-pro-7.68tb", "pcie-5.0"))),
            "the workload file, line 25: pcie-5.0 has no value for this table");
  EXPECT_EQ(request_error(cluster_of("[[cache]]\n")),
            "the workload file, line 1: [[cache]]: a workload has tables like [cache]");
  EXPECT_EQ(request_error(cluster_of("cache_capacity = \"1TB\"\n[cache]\ncapacity = \"1TB\"\n")),
            "the workload file, line 3: cache_capacity is set twice");
  EXPECT_TRUE(request_error(cluster_of("gpus = 8\n")).starts_with("batch: is missing"));
  EXPECT_EQ(request_error(cluster_of(example_with("gpus = 1000", "gpus = 0"))),
            "gpus (the workload file, line 6): is zero: it must be larger");
  EXPECT_EQ(request_error({.kind = "raid",
                           .settings = {{.name = "drives", .text = "2"}},
                           .devices = {"mine"},
                           .catalogue = "[[ssd]]\nname = \"mine\"\nsource = \"us\"\nread_rate = "
                                        "\"0GB/s\"\n"}),
            "read_rate (catalogue: mine): is zero: it must be larger");
}

}  // namespace
}  // namespace stoker::plan
