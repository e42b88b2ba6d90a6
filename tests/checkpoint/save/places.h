#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/place_ranks.h"
#include "support/hooked_file_ops.h"

namespace stoker::testing {

/// Ranks on nodes with private disks.
class PlacesTest : public ::testing::Test {
 protected:
  void save_all(std::initializer_list<std::uint64_t> steps) {
    for (const std::uint64_t step : steps)
      for (const Status& end : run_.save(step)) ASSERT_TRUE(end.ok()) << end.message();
  }
  void expect_restored(std::uint64_t step) {
    for (const auto& outcome : run_.restore()) {
      ASSERT_FALSE(outcome.failure) << outcome.failure->report.status.message();
      EXPECT_EQ(outcome.choice.name, step_name(step));
    }
    EXPECT_EQ(run_.restored(), std::vector<std::uint64_t>(PlacedRanks::kRanks, step));
  }
  std::set<std::string> files_of(std::uint32_t rank, std::uint64_t step) const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(run_.step_directory(rank, step)))
      names.insert(entry.path().filename());
    return names;
  }

  PlacedRanks run_;
};

/// A disk whose calls on some path fail.
class PlaceFaultTest : public PlacesTest {
 protected:
  /// Has `rank` fail every `op` on paths that contain `part`, while `is_broken_`.
  PlacedRanks::Change breaking(std::uint32_t rank, std::string op, std::string part, int error) {
    ops_ = std::make_unique<HookedFileOps>(
        posix_file_ops(), [this, op = std::move(op), part = std::move(part), error](
                              std::string_view called, const PathAt* path) {
          const bool is_hit = is_broken_ && called == op && path != nullptr &&
                              path->text().find(part) != std::string::npos;
          return is_hit ? Status::from_errno(error, called, path->text()) : Status();
        });
    return [this, rank](std::uint32_t one, SaverOptions& options) {
      if (one == rank) options.ops = ops_.get();
    };
  }

  std::unique_ptr<HookedFileOps> ops_;
  std::atomic<bool> is_broken_ = false;
};

}  // namespace stoker::testing
