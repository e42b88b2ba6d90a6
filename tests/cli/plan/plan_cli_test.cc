// `stoker plan`: every kind through the command, what it refuses, files that it reads and writes.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_command.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}

Ran plan(const std::string& line) {
  return run_stoker({.args = words_of("plan " + line)});
}

/// A kind with its inputs of the worked examples, a value to find, and its digits.
struct Case {
  const char* line;
  const char* value;
  double expected;
};

TEST(PlanCliTest, each_kind_prints_one_json_object_with_inputs_and_values) {
  const Case cases[] = {
      {"read --gpus 8 --batch 256 --sample 130KB --step 200ms", "needed", 1.3312e9},
      {"read --gpus 1 --batch 400 --sample 114660.07B --step 0.224s", "needed", 204'750'125},
      {"epoch --samples 1e12 --sample 4B --time 30d --gpus 2000", "gpu_rate", 771.604938},
      {"checkpoint --parameters 70e9 --drives 8 --write-rate 6.5GB/s --interval 500s --links 8 "
       "--link-rate 55GB/s",
       "asynchronous_loss", 0.00443479},
      {"interval --save 60s --mtbf 3h --restart 300s", "daly", 1098.77079},
      {"endurance --size 140GB --writes 48/d --tbw 700TB", "life", 9'000'000},
      {"cliff --size 140GB --from example-qlc-4tb", "limit", 933'333'333.3},
      {"raid --drives 8 --read-rate 6.5GB/s", "drives_rate", 52e9},
      {"targets --read-load 102.4MB/s --write-size 2TB --write-time 10s --target-rate 4GB/s",
       "targets", 51},
      {"share --targets 40 --target-rate 4GB/s --clients 100", "share", 1.6e9},
      {"stall --gpus 512 --price 3USD/h --stall 60s --stalls 4/h --time 7d", "cost", 17203.2},
      {"rule --flops 16000TFLOP/s --read-rate 7GB/s", "drives", 23},
      {"prefetch --depth 4 --batch 256 --decoded 602112B --workers 8", "total", 4'932'501'504},
      {"objects --dataset 20TB --object 256MiB --rate 10GB/s", "requests_at_once", 118},
      {"path --lanes 4 --from pcie-4.0", "pcie_rate", 7'876'923'076.9},
      {"iops --rate 1.3312GB/s --request 130KB", "iops", 10'240},
      {"tracking --runs 10 --metrics 5 --steps 100", "total", 120'000},
  };
  for (const Case& example : cases) {
    const Ran ran = plan(std::string(example.line) + " --json");
    ASSERT_EQ(ran.exit_code, 0) << example.line << "\n" << ran.err;
    EXPECT_EQ(ran.err, "");
    const json root = json::parse(ran.out);
    EXPECT_NEAR(root["values"][example.value].get<double>(), example.expected,
                1e-6 * example.expected)
        << example.line;
    EXPECT_FALSE(root["inputs"].empty());
  }
}

TEST(PlanCliTest, a_refusal_is_one_line_that_names_the_option) {
  const auto refused = [](const std::string& line, const std::vector<std::string>& parts) {
    const Ran ran = plan(line);
    EXPECT_EQ(ran.exit_code, 2) << line << ran.out;
    EXPECT_TRUE(is_one_line_with(ran.err, parts)) << ran.err;
  };
  refused("checkpoint --parameters 70e9 --bytes-per-parameter 2",
          {"stoker plan checkpoint: --bytes-per-parameter: ", "has no unit"});
  refused("read --gpus 8 --batch 256 --sample 130KB/s --step 1s", {"--sample: ", "is a rate"});
  refused("read --gpus 0 --batch 256 --sample 130KB --step 1s", {"--gpus: is zero"});
  refused("read --gpus=-8 --batch 256 --sample 130KB --step 1s", {"--gpus: ", "is negative"});
  refused("read --gpus nan --batch 256 --sample 130KB --step 1s", {"--gpus: "});
  refused("read --gpus 1e25 --batch 256 --sample 130KB --step 1s", {"--gpus: is larger than"});
  refused("read --batch 256", {"--gpus: is missing"});
  refused("read --from nothing", {"--from: there is no device", "stoker plan devices"});
  refused("checkpoint --parameters 1 --optimizer lion", {"--optimizer"});
  refused("cluster", {"WORKLOAD is missing", "--example"});
}

TEST(PlanCliTest, a_cluster_is_designed_from_a_file_and_options_precede_it) {
  const TempDir dir;
  const Ran example = plan("cluster --example");
  ASSERT_EQ(example.exit_code, 0);
  const std::string file = dir.path() + "/w.toml";
  std::ofstream(file) << example.out;
  const Ran text = plan("cluster " + file);
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("NVMe cache"), std::string::npos);
  const Ran more = plan("cluster " + file + " --gpus 2000 --json");
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_EQ(json::parse(more.out)["values"]["nodes"], 250.0);
}

TEST(PlanCliTest, hostile_files_are_refused_at_once) {
  const TempDir dir;
  const auto refused = [&](const std::string& path, const std::string& part) {
    const Ran ran = plan("cluster " + path);
    EXPECT_NE(ran.exit_code, 0) << path;
    EXPECT_TRUE(is_one_line_with(ran.err, {"stoker plan cluster: ", part})) << ran.err;
  };
  const std::string fifo = dir.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  refused(fifo, "WORKLOAD");
  refused(dir.path(), "WORKLOAD");
  refused(dir.path() + "/none", "No such file");
  refused("/dev/zero", "WORKLOAD");
  const auto file_of = [&](const std::string& text) {
    const std::string path = dir.path() + "/hostile.toml";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  };
  refused(file_of(std::string(2 << 20, '#')), "WORKLOAD");
  refused(file_of(std::string(100'000, '[')), "line 1");
  refused(file_of("gpus = {a={a={a={}}}}\n"), "line 1: gpus: expected a number");
  refused(file_of("gpus = 8\n\xff\n"), "not UTF-8");
  refused(file_of("x = \"\x1b[31m\"\n"), "line 1: a control character");
}

TEST(PlanCliTest, a_plot_is_written_as_a_file_and_never_over_something_else) {
  const TempDir dir;
  const std::string line = "cliff --size 140GB --from example-qlc-4tb --plot ";
  const std::string svg = dir.path() + "/cliff.svg";
  ASSERT_EQ(plan(line + svg).exit_code, 0);
  std::ifstream file(svg);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_TRUE(text.starts_with("<svg ")) << text;
  const std::string link = dir.path() + "/link";
  std::filesystem::create_symlink(svg, link);
  for (const std::string& path : {link, dir.path(), std::string("/dev/null")}) {
    const Ran ran = plan(line + path);
    EXPECT_EQ(ran.exit_code, 2) << path;
    EXPECT_TRUE(is_one_line_with(ran.err, {"--plot", "not a regular file"})) << ran.err;
  }
}

TEST(PlanCliTest, measured_rates_take_the_place_of_the_catalogue) {
  const TempDir dir;
  const Ran ran = plan(
      "checkpoint --size 10GB --from samsung-pm9a3-7.68tb --read-rate 1GB/s "
      "--json --measure " +
      dir.path());
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json inputs = json::parse(ran.out)["inputs"];
  EXPECT_TRUE(inputs["write_rate"]["origin"].get<std::string>().starts_with("measured in "));
  EXPECT_GT(inputs["write_rate"]["value"].get<double>(), 1e5);
  EXPECT_EQ(inputs["read_rate"]["origin"], "given");
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  const Ran none = plan("checkpoint --size 10GB --measure " + dir.path() + "/none");
  EXPECT_NE(none.exit_code, 0);
  EXPECT_TRUE(is_one_line_with(none.err, {"--measure"})) << none.err;
}

TEST(PlanCliTest, devices_are_listed_with_their_sources_and_extended_by_a_file) {
  const TempDir dir;
  const std::string file = dir.path() + "/mine.toml";
  std::ofstream(file) << "[[ssd]]\nname = \"mine\"\nsource = \"measured, 2026\"\nread_rate = "
                         "\"1GB/s\"\n";
  const Ran ran = plan("devices --json --catalogue " + file);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json first = json::parse(ran.out.substr(0, ran.out.find('\n')));
  EXPECT_EQ(first["name"], "mine");
  EXPECT_EQ(first["values"]["read_rate"], "1GB/s");
  EXPECT_EQ(first["units"], "GB = 10^9 bytes, GiB = 2^30 bytes");
  EXPECT_TRUE(plan("devices").out.starts_with("(GB = 10^9 bytes, GiB = 2^30 bytes)\n"));
  const Ran printed = plan("devices --print");
  std::ofstream(file) << printed.out;
  EXPECT_EQ(plan("devices --catalogue " + file).exit_code, 0);
  const Ran used = plan("raid --drives 2 --from mine --json --catalogue " + file);
  EXPECT_EQ(used.exit_code, 2) << "the file has been replaced";
}

}  // namespace
}  // namespace stoker::testing
