/// \file
/// What the tests of checkpoints through the public headers share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/checkpoint.h"
#include "support/temp_dir.h"

namespace stoker::testing {

class CheckpointTest : public ::testing::Test {
 protected:
  std::string directory() const { return dir_.file("run"); }

  std::unique_ptr<Checkpointer> open(CheckpointerOptions options = {}) const {
    if (options.directory.empty()) options.directory = directory();
    auto opened = Checkpointer::open(std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  static void save(Checkpointer& saver, std::uint64_t step, const Tree& trees,
                   const SaveOptions& options = {}) {
    const Result<PendingSave> pending = saver.save(step, trees, options);
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    const Status status = pending->wait();
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(pending->is_durable());
  }

  static Restored restore(Checkpointer& saver, Tree& trees, const RestoreOptions& options = {}) {
    auto done = saver.restore(trees, options);
    EXPECT_TRUE(done.ok()) << done.status().message();
    EXPECT_TRUE(done.ok() && done->has_value());
    return done.ok() && *done ? **std::move(done) : Restored();
  }

  static Status refused(Checkpointer& saver, Tree trees, const RestoreOptions& options = {}) {
    const auto done = saver.restore(trees, options);
    EXPECT_FALSE(done.ok());
    return done.status();
  }

  /// Changes a byte in the data of a checkpoint.
  void damage(std::uint64_t step) const {
    std::string name = std::to_string(step);
    name.insert(0, 12 - name.size(), '0');
    std::fstream file(directory() + "/step-" + name + "/rank-00000.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.good());
    file.seekp(4096);
    file.put('\x7f');
  }

  TempDir dir_{fast_parent()};
};

inline std::vector<double> counted(std::size_t count, double first = 0) {
  std::vector<double> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

inline bool has(const Status& status, std::string_view text) {
  return status.message().find(text) != std::string_view::npos;
}

}  // namespace stoker::testing
