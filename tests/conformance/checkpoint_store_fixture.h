/// \file
/// The places that checkpoint_store_suite.h tests, and how its tests save to them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/lock_support.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/store/checkpoint_store.h"
#include "io/engine/engine.h"

namespace stoker::testing {

/// A place that is empty at first and can be opened again and again, each time as a process on
/// another machine does: no lock of one is seen by another but through the store.
class StorePlace {
 public:
  virtual ~StorePlace() = default;
  virtual std::shared_ptr<const CheckpointStore> open() = 0;
};

struct CheckpointStoreMaker {
  const char* name;
  std::unique_ptr<StorePlace> (*make)();
};

inline std::string checkpoint_store_name(
    const ::testing::TestParamInfo<CheckpointStoreMaker>& info) {
  return info.param.name;
}
inline std::ostream& operator<<(std::ostream& out, const CheckpointStoreMaker& maker) {
  return out << maker.name;
}

/// Nothing to look at once a note was changed.
inline Status is_fine() {
  return {};
}

class CheckpointStoreSuite : public ::testing::TestWithParam<CheckpointStoreMaker> {
 protected:
  using Files = std::map<std::string, std::string>;              // names and bytes
  static inline const std::string kLine = std::string(32, 'a');  // of all checkpoints
  static constexpr nanoseconds kLessThanTtl = std::chrono::seconds(1);
  static constexpr nanoseconds kMoreThanTtl = std::chrono::hours(1);

  /// A process that saves.
  struct Writer {
    std::shared_ptr<const CheckpointStore> store;
    std::unique_ptr<StoreLock> lock;
    std::unique_ptr<CheckpointWriter> writer;
  };

  Result<Writer> try_write(const std::string& host, nanoseconds timeout) {
    Writer made;
    made.store = place_->open();
    STOKER_ASSIGN(made.lock, made.store->lock(time_.options(timeout, machine_of(host))));
    made.writer = made.store->make_writer(*made.lock);
    return made;
  }
  Writer write(const std::string& host = "a") {
    Result<Writer> made = try_write(host, kMoreThanTtl);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *std::move(made);
  }

  /// Stages the files of rank 0 and seals the part. Those in `reused` are taken from a checkpoint.
  Status stage(const CheckpointStore& store, const std::string& staging, const Files& files,
               const std::map<std::string, ReuseSource>& reused = {}) {
    STOKER_ASSIGN(const std::unique_ptr<Engine> engine, make_sync_engine({}));
    StageRequest request{.staging = staging,
                         .files = {},
                         .engine = *engine,
                         .file = {.policy = CachePolicy::buffered}};
    for (const auto& [name, bytes] : files)
      request.files.push_back({.name = name, .size_bytes = bytes.size()});
    const std::unique_ptr<StagedPart> part = store.make_part(request);
    STOKER_TRY(part->begin());
    std::uint32_t index = 0;
    std::vector<std::uint32_t> created;
    for (const auto& [name, bytes] : files) {
      const std::uint32_t file = index++;
      if (const auto source = reused.find(name); source != reused.end()) {
        STOKER_ASSIGN(const std::optional<FileInfo> info, part->reuse(file, source->second));
        if (info) continue;
      }
      STOKER_TRY(part->create(file));
      created.push_back(file);
      std::string memory = bytes;
      STOKER_ASSIGN(const bool is_accepted,
                    part->submit({.file = file,
                                  .size_bytes = memory.size(),
                                  .memory = std::as_writable_bytes(std::span(memory))}));
      EXPECT_TRUE(is_accepted);
      Completion done;
      STOKER_ASSIGN(const std::size_t count, part->reap(std::span(&done, 1), 1, kForever));
      EXPECT_EQ(count, 1U);
      EXPECT_EQ(done.result, static_cast<std::int64_t>(bytes.size()));
    }
    part->all_written();
    for (const std::uint32_t file : created) {
      STOKER_ASSIGN(infos_[request.files[file].name], part->finish(file));
    }
    CheckpointPart manifest;
    manifest.files = described(files);
    return part->seal(0, format_checkpoint_part(manifest));
  }

  static std::vector<CheckpointFile> described(const Files& files) {
    std::vector<CheckpointFile> described;
    for (const auto& [name, bytes] : files)
      described.push_back({.name = name,
                           .size_bytes = bytes.size(),
                           .chunks = {xxh3_128(std::as_bytes(std::span(bytes)))}});
    return described;
  }

  static CheckpointManifest manifest_of(std::uint64_t step, std::uint64_t generation,
                                        const Files& files) {
    CheckpointManifest manifest;
    manifest.step = step;
    manifest.generation = generation;
    manifest.line = kLine;
    manifest.files = described(files);
    manifest.state_json = {"null"};
    manifest.tool = "test";
    return manifest;
  }

  Status commit(const Writer& writer, const std::string& staging,
                const CheckpointManifest& manifest,
                std::optional<std::uint64_t> superseded = std::nullopt) {
    CommitStage stage = CommitStage::complete;
    const Status status =
        writer.writer->commit({.staging = staging,
                               .manifest = manifest,
                               .manifest_text = format_checkpoint_manifest(manifest),
                               .superseded = superseded},
                              stage);
    EXPECT_EQ(stage, status.ok() ? CommitStage::complete : CommitStage::staged);
    return status;
  }

  /// All of it.
  void save(const Writer& writer, std::uint64_t step, std::uint64_t generation,
            const Files& files) {
    const std::string staging = writer.writer->staging_name(step, ++number_);
    const Status staged = stage(*writer.store, staging, files);
    ASSERT_TRUE(staged.ok()) << staged.message();
    const Status committed = commit(writer, staging, manifest_of(step, generation, files));
    ASSERT_TRUE(committed.ok()) << committed.message();
  }

  std::set<std::string> names() {
    const Result<std::vector<StoredStep>> steps = place_->open()->list_steps();
    EXPECT_TRUE(steps.ok()) << steps.status().message();
    std::set<std::string> names;
    if (steps.ok())
      for (const StoredStep& step : *steps) names.insert(step.name);
    return names;
  }

  /// Reads a file of a checkpoint, as a restore does.
  class Kept final : public ChunkHandler {
   public:
    Status chunk_read(std::size_t index, std::span<const std::byte> bytes) override {
      const MutexLock lock(mutex_);
      text_[index].assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }
    Status chunk_failed(std::size_t /*index*/, const Status& status) override { return status; }
    std::map<std::size_t, std::string> take() {
      const MutexLock lock(mutex_);
      return text_;
    }

   private:
    Mutex mutex_;
    std::map<std::size_t, std::string> text_ STOKER_GUARDED_BY(mutex_);
  };

  Result<Files> read_files(const OpenStep& step) {
    STOKER_ASSIGN(const CheckpointManifest manifest, step.read_manifest());
    const std::shared_ptr<StoredFiles> files =
        step.files(manifest.files, {.policy = CachePolicy::buffered});
    STOKER_TRY(files->open_all());
    std::vector<ChunkRead> reads;
    for (std::uint32_t i = 0; i < manifest.files.size(); ++i)
      reads.push_back(
          {.file = i, .size_bytes = static_cast<std::size_t>(manifest.files[i].size_bytes)});
    Kept kept;
    STOKER_TRY(files->read(reads, kept, {.engine = [] { return make_sync_engine({}); }}));
    Files found;
    for (const auto& [index, text] : kept.take()) found[manifest.files[index].name] = text;
    return found;
  }
  Result<Files> read_step(const std::string& name) {
    STOKER_ASSIGN(const std::unique_ptr<OpenStep> step, place_->open()->open_step(name));
    return read_files(*step);
  }
  void expect_files(const std::string& name, const Files& files) {
    const Result<Files> found = read_step(name);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(*found, files);
  }

  CatalogStep catalog_step(const CheckpointStore& store, const std::string& name) {
    const Result<Catalog> catalog = list_checkpoints(store);
    EXPECT_TRUE(catalog.ok()) << catalog.status().message();
    const CatalogStep* const step = catalog.ok() ? catalog->find(name) : nullptr;
    EXPECT_NE(step, nullptr) << name;
    return step == nullptr ? CatalogStep() : *step;
  }

  const Files small_{{"rank-00000.safetensors", "the bytes of a rank"},
                     {"rank-00000-group-000.safetensors", std::string(10'000, 'g')}};
  const Files other_{{"rank-00000.safetensors", "other bytes"}};
  const std::unique_ptr<StorePlace> place_ = GetParam().make();
  FakeTime time_;
  std::map<std::string, FileInfo> infos_;  // of the files that were staged last
  std::uint64_t number_ = 0;
};

}  // namespace stoker::testing
