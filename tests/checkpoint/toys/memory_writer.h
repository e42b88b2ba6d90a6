/// \file
/// The side of MemoryCheckpointStore that saves and removes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/toys/memory_checkpoint_store.h"

namespace stoker::testing {

class MemoryLock final : public StoreLock {
 public:
  MemoryLock(const MemoryCheckpointStore& store, std::string token)
      : store_(store), token_(std::move(token)) {}
  ~MemoryLock() override;

  const std::string& token() const noexcept override { return token_; }
  std::optional<std::string> find_successor() const override;

 private:
  const MemoryCheckpointStore store_;
  const std::string token_;
};

class MemoryWriter final : public CheckpointWriter {
 public:
  MemoryWriter(const MemoryCheckpointStore& store, std::string token)
      : store_(store), token_(std::move(token)) {}

  const CheckpointStore& store() const noexcept override { return store_; }
  bool is_owner() const override;
  std::string staging_name(std::uint64_t step, std::uint64_t number) const override;
  Status commit(const StepCommit& commit, CommitStage& stage) const override;
  void discard_staged(const std::string& staging) const override;
  Result<std::optional<std::string>> retire(const Retirement& retirement) const override;
  Status remove(std::string_view condemned) const override;

 private:
  Status remove_all(const std::string& prefix) const;

  const MemoryCheckpointStore store_;
  const std::string token_;
};

/// Keeps what is written in memory of its own; each file is one put.
class MemoryPart final : public StagedPart {
 public:
  MemoryPart(const MemoryCheckpointStore& store, StageRequest request)
      : store_(store), request_(std::move(request)), bytes_(request_.files.size()) {}

  std::string path_of(std::uint32_t file) const override { return key_of(file); }
  Status begin() override { return {}; }
  Status create(std::uint32_t file) override;
  Result<std::optional<FileInfo>> reuse(std::uint32_t file, const ReuseSource& source) override;
  Result<bool> submit(const StagedWrite& write) override;
  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override;
  std::size_t in_flight() const noexcept override { return done_.size(); }
  void all_written() override {}
  Result<FileInfo> finish(std::uint32_t file) override;
  Status seal(std::uint32_t rank, const std::string& part_manifest) override;
  void abandon(Deadline /*deadline*/) override { done_.clear(); }

 private:
  std::string key_of(std::uint32_t file) const {
    return data_key(request_.staging, request_.files[file].name);
  }

  const MemoryCheckpointStore store_;
  const StageRequest request_;
  std::vector<std::string> bytes_;
  std::deque<Completion> done_;
};

}  // namespace stoker::testing
