/// \file
/// What the tests of `stoker stream` and `stoker tune` share: a dataset, and lists of keys.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run_command.h"
#include "dataset/dataset_support.h"

namespace stoker::testing {

inline std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// 60 samples in 3 shards.
class StreamCliTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kSamples = 60;

  StreamCliTest() {
    std::filesystem::create_directories(shards_);
    for (std::size_t i = 0; i < 3; ++i)
      write_tar(shards_ + "/s" + std::to_string(i) + ".tar", make_samples(20, 20 * i));
  }

  /// `stoker stream SHARDS` and what is given.
  Ran stream(const std::vector<std::string>& more) const {
    return run_stoker({.args = command(more)});
  }
  std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"stream", shards_};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  /// The keys of a stream that must end well.
  std::vector<std::string> keys(std::vector<std::string> more) const {
    more.emplace_back("--print-keys");
    const Ran ran = stream(more);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return lines_in(ran.out);
  }
  nlohmann::json report(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const Ran ran = stream(more);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return nlohmann::json::parse(ran.out, nullptr, false);
  }

  const DatasetDir dir_;
  const std::string shards_ = dir_.file("shards");
  const std::string cursor_ = dir_.file("at.json");
};

}  // namespace stoker::testing
