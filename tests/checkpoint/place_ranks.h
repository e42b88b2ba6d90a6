#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/inspect/verify.h"
#include "checkpoint/mortal_coordinator.h"
#include "checkpoint/restore/restore_agreement.h"
#include "checkpoint/save_support.h"

namespace stoker::testing {

/// Four ranks on two nodes with a disk each: ranks 0 and 1 have one directory, 2 and 3 another.
/// Every rank is a thread, and the messages are in a third directory.
///
/// Every rank saves `own`, which differs, a slice of `cut`, and `same`, which is equal on all.
class PlacedRanks {
 public:
  static constexpr std::uint32_t kRanks = 4;

  /// Changes the options of a rank before its checkpointer is made.
  using Change = std::function<void(std::uint32_t rank, SaverOptions&)>;

  std::string directory(std::uint32_t rank) const {
    return rank < 2 ? first_.path() : second_.path();
  }
  std::string step_directory(std::uint32_t rank, std::uint64_t step) const {
    return directory(rank) + "/" + step_name(step);
  }

  /// Starts the ranks, as a launcher does: without any memory of an earlier start.
  void start(const Change& change = {}) {
    ++session_;
    coordinators_.clear();
    savers_.clear();
    for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
      coordinators_.push_back(coordinator(rank));
      SaverOptions options = quiet_options(directory(rank));
      options.has_private_disks = true;
      options.coordinator = coordinators_.back();
      options.parent = parent_;
      options.retention.seen = seen_[rank];
      options.deadline = std::chrono::seconds(60);  // ends a test that would hang
      if (change) change(rank, options);
      savers_.push_back(make_saver(std::move(options)));
    }
  }
  /// Closes them all.
  void end() {
    on_all([&](std::uint32_t rank) { static_cast<void>(savers_[rank]->close()); });
    savers_.clear();
  }

  /// Saves on all ranks and waits; returns how it ended on each. `awaits_removals`: of old
  /// checkpoints, too.
  std::vector<Status> save(std::uint64_t step, bool awaits_removals = true) {
    std::vector<Status> ends(kRanks);
    outcomes_.assign(kRanks, std::nullopt);
    on_all([&](std::uint32_t rank) {
      std::vector<OwnedTensor> tensors = tensors_of(rank, step);
      SaveRequest request = request_of(step, tensors);
      SaveTensor& cut = request.tensors[1];
      cut.global_shape = {kRanks * 4};
      cut.offsets = {rank * 4};
      request.tensors[0].is_per_rank = true;
      Result<PendingSave> pending = savers_[rank]->save(std::move(request));
      ends[rank] = pending.ok() ? pending->wait() : pending.status();
      if (pending.ok()) outcomes_[rank] = pending->outcome();
      if (awaits_removals) static_cast<void>(savers_[rank]->wait());
    });
    return ends;
  }
  bool is_acknowledged_anywhere() const {
    return std::ranges::any_of(outcomes_,
                               [](const auto& one) { return one == SaveOutcome::committed; });
  }

  /// Restores on all ranks; returns the outcome of each. A restore that succeeds is continued by
  /// the next start().
  std::vector<RestoreAgreement::Outcome> restore(const std::string& name = {}) {
    ++session_;
    std::vector<RestoreAgreement::Outcome> outcomes(kRanks);
    restored_.assign(kRanks, 0);
    on_all([&](std::uint32_t rank) {
      const auto spoken = coordinator(rank);
      RestoreAgreement agreement(*spoken, deadline_after(std::chrono::seconds(60)));
      const RestoreTrial trial{.check = [](const CheckpointReader&) { return RestoreReport(); },
                               .read =
                                   [&](const CheckpointReader& reader) {
                                     restored_[rank] = reader.manifest().step;
                                     if (rank == 0)
                                       parent_ = CheckpointParent{
                                           .step = reader.manifest().step,
                                           .generation = reader.manifest().generation,
                                           .line = reader.manifest().line};
                                     return RestoreReport{.status = read_back(reader, rank)};
                                   }};
      const auto outcome = agreement.restore(
          {.path = directory(rank),
           .open = [this, rank]() -> Result<StoreHandle> {
             STOKER_ASSIGN(const CheckpointDirectory opened,
                           CheckpointDirectory::open(posix_file_ops(), directory(rank)));
             return StoreHandle(opened);
           },
           .name = name,
           .has_private_disks = true},
          trial);
      EXPECT_TRUE(outcome.ok()) << outcome.status().message();
      if (outcome.ok()) outcomes[rank] = *outcome;
      EXPECT_TRUE(agreement.take_leave());
      see(rank);
    });
    return outcomes;
  }
  /// The step that each rank has read last.
  const std::vector<std::uint64_t>& restored() const { return restored_; }

  /// Reads what a rank has saved, and compares it.
  static Status read_back(const CheckpointReader& reader, std::uint32_t rank) {
    const std::uint64_t step = reader.manifest().step;
    for (const OwnedTensor& wanted : tensors_of(rank, step)) {
      std::vector<float> values(wanted.values.size());
      ReadTarget target{.name = wanted.name, .memory = std::as_writable_bytes(std::span(values))};
      if (wanted.name == "own") target.name = rank_tensor_name(rank, "own");
      if (wanted.name == "cut") {
        target.offsets = {rank * 4};
        target.shape = {4};
      }
      STOKER_TRY(reader.read(target));
      if (values != wanted.values) return Status(Code::invalid_argument, wanted.name + " differs");
    }
    return {};
  }

  /// The damage in both directories.
  std::vector<CheckpointDamage> damages() const {
    std::vector<CheckpointDamage> found;
    for (const std::uint32_t rank : {0U, 2U}) {
      const Result<CheckpointVerifyReport> report = verify_checkpoints(opened(directory(rank)), {});
      EXPECT_TRUE(report.ok());
      if (report.ok()) std::ranges::copy(report->damages, std::back_inserter(found));
    }
    return found;
  }
  /// The names of the checkpoints of a rank's node, oldest first.
  std::vector<std::string> steps(std::uint32_t rank) const {
    std::vector<std::string> names;
    const Result<Catalog> catalog = list_checkpoints(opened(directory(rank)));
    EXPECT_TRUE(catalog.ok());
    for (const CatalogStep& step : catalog->steps) names.insert(names.begin(), step.name);
    return names;
  }

  const std::vector<std::optional<SaveOutcome>>& outcomes() const { return outcomes_; }
  /// From the next start() on every broadcast whose key begins with `key` fails on `rank`, after it
  /// has arrived there, or was sent.
  void break_broadcasts(std::uint32_t rank, std::string key) {
    broken_rank_ = rank;
    broken_key_ = std::move(key);
  }

  /// Lets `latest` of both nodes lead to a step: no save was acknowledged after it.
  void point_latest(std::uint64_t step) const {
    for (const std::string& directory : {first_.path(), second_.path()}) {
      std::filesystem::remove(directory + "/latest");
      std::filesystem::create_symlink(step_name(step), directory + "/latest");
    }
  }

  /// From now on `rank` neither sends nor receives, as if its process had ended.
  void silence(std::uint32_t rank) { living_.silence(rank); }
  void speak_again() { living_.revive_all(); }

  void on_all(const std::function<void(std::uint32_t rank)>& act) {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&act, rank] { act(rank); });
  }

 private:
  static std::vector<OwnedTensor> tensors_of(std::uint32_t rank, std::uint64_t step) {
    const auto first = static_cast<float>(1000 * step);
    return {counted("own", 3, first + static_cast<float>(100 * rank)),
            counted("cut", 4, first + static_cast<float>(rank)), counted("same", 5, first)};
  }

  std::shared_ptr<Coordinator> coordinator(std::uint32_t rank) {
    auto made = make_shared_directory_coordinator(
        {.place = opened(messages_.path()),
         .word = "job",
         .session = std::to_string(session_),
         .rank = rank,
         .world_size = kRanks,
         .pause =
             [this](nanoseconds time) {
               living_.await_news(time);
               return Status();
             },
         .find_loss =
             [this](std::uint32_t other) {
               return living_.is_silent(other)
                          ? Status(Code::unavailable,
                                   "rank " + std::to_string(other) + " has ended")
                          : Status();
             }});
    EXPECT_TRUE(made.ok());
    return std::make_shared<MortalCoordinator>(*std::move(made), living_,
                                               rank == broken_rank_ ? broken_key_ : "");
  }

  /// Notes what was there at a restore, as RetentionRules::seen.
  void see(std::uint32_t rank) {
    const Result<Catalog> catalog = list_checkpoints(opened(directory(rank)));
    if (!catalog.ok()) return;
    for (const CatalogStep& step : catalog->steps) {
      if (!step.is_valid()) continue;
      std::uint64_t& seen = seen_[rank][step.summary->line];
      seen = std::max(seen, step.generation);
    }
  }

  TempDir first_{fast_parent()};
  TempDir second_{fast_parent()};
  TempDir messages_{fast_parent()};
  std::uint64_t session_ = 0;
  LivingRanks living_{kRanks};
  std::uint32_t broken_rank_ = 0;
  std::string broken_key_;
  std::vector<std::shared_ptr<Coordinator>> coordinators_;
  std::vector<std::unique_ptr<CheckpointSaver>> savers_;
  std::vector<std::optional<SaveOutcome>> outcomes_;
  std::vector<std::uint64_t> restored_;
  std::optional<CheckpointParent> parent_;
  std::array<std::map<std::string, std::uint64_t>, kRanks> seen_;
};

}  // namespace stoker::testing
