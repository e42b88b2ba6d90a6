#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/device/device_saves.h"
#include "checkpoint/opened.h"

namespace stoker::testing {

/// Two ranks of one process, each with a device of its number.
class DeviceRanks : public DeviceSaves {
 protected:
  static constexpr std::uint32_t kRanks = 2;
  using Savers = std::vector<std::unique_ptr<CheckpointSaver>>;

  /// Makes their checkpointers, from what options() gives for each.
  Savers savers_in(const std::string& directory) {
    Savers savers;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      SaverOptions own = options(directory);
      auto made = make_shared_directory_coordinator({.place = opened(directory),
                                                     .word = "job",
                                                     .session = "1",
                                                     .rank = rank,
                                                     .world_size = kRanks});
      EXPECT_TRUE(made.ok());
      own.coordinator = *std::move(made);
      copiers_.push_back(own.copier);
      savers.push_back(make_saver(std::move(own)));
    }
    return savers;
  }

  template <typename Body>
  static void on_every_rank(const Body& body) {
    std::vector<std::jthread> ranks;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      ranks.emplace_back([&body, rank] { body(rank); });
  }

  /// Saves on all of them, and returns how it has ended for each. `request_of` gets the rank.
  template <typename RequestOf>
  static std::vector<Status> save_on_all(Savers& savers, const RequestOf& request_of) {
    std::vector<Status> ends(kRanks);
    on_every_rank([&](std::uint32_t rank) {
      Result<PendingSave> pending = savers[rank]->save(request_of(rank));
      ends[rank] = pending.ok() ? pending->wait() : pending.status();
    });
    return ends;
  }

  static void close_all(Savers& savers) {
    on_every_rank([&](std::uint32_t rank) { savers[rank].reset(); });
  }

  std::vector<std::shared_ptr<TensorCopier>> copiers_;  // of all savers
};

}  // namespace stoker::testing
