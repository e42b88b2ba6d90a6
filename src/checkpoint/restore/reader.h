#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/restore/box_copy.h"
#include "checkpoint/restore/checkpoint_read.h"
#include "checkpoint/store/checkpoint_store.h"
#include "io/chunk_reader.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"

namespace stoker {

/// A tensor as a whole, however many slices it was saved in.
struct TensorInfo {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t size_bytes = 0;
  /// Of the whole tensor's bytes; nothing where it was saved in several slices, or by version 0.1.
  std::optional<Digest128> digest = {};
  std::vector<std::uint32_t> slices;  ///< Indices into the manifest's tensors.
};

/// One checkpoint, open for reading. As many of its files as descriptors suffice for are open from
/// the beginning, so that it stays readable when retention removes it.
///
/// No byte reaches a caller unchecked: every read of a chunk reads and hashes all of it, unless its
/// bytes were kept when they were.
///
/// Thread safety: const methods may be called from any thread, also several at once; each call uses
/// threads and engines of its own. Works in a forked child.
class CheckpointReader {
 public:
  struct Options {
    File::Options file = {};
    EngineFactory engine = {};     ///< Nothing: the best one here.
    std::size_t thread_count = 0;  ///< 0: one per core, at most 4.
    std::uint32_t depth = 4;       ///< Chunks of 4 MiB in flight for each thread.
  };

  struct ReadOptions {
    std::stop_token stop = {};
    std::atomic<std::uint64_t>* read_bytes = nullptr;  ///< Counted up as chunks arrive.
  };

  /// Opens the checkpoint `name` in `store`. `not_found` if there is none or it was removed
  /// meanwhile; `corrupt` if its manifest is damaged, or a file is missing, of another size or
  /// none.
  static Result<CheckpointReader> open(const CheckpointStore& store, const std::string& name,
                                       const Options& options);
  /// Opens the checkpoint that `path` leads to. Where its last name is that of a step it must be a
  /// directory; links on the way to it are followed, none below it is.
  static Result<CheckpointReader> open(FileOps& ops, const std::string& path,
                                       const Options& options);

  const std::string& directory() const noexcept { return directory_; }
  const CheckpointManifest& manifest() const noexcept { return *manifest_; }
  /// By name.
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  /// Null if there is none of that name.
  const TensorInfo* find(std::string_view name) const noexcept;

  /// Fills every target, each chunk of the files being read once. `corrupt` names file, offset and
  /// tensor. After a failure the targets hold anything.
  Status read_all(std::span<const ReadTarget> targets, const ReadOptions& options) const;
  Status read_all(std::span<const ReadTarget> targets) const {
    return read_all(targets, ReadOptions());
  }
  /// Of a tensor's bytes: what the manifest says, or else read and hashed piece by piece.
  Result<Digest128> digest_of(const TensorInfo& tensor) const;

  /// A single target.
  Status read(const ReadTarget& target) const { return read_all(std::span(&target, 1)); }

 private:
  CheckpointReader() = default;
  static Result<CheckpointReader> read_from(const OpenStep& step, const Options& options);
  void list_tensors();

  std::string directory_;
  Options options_;
  std::shared_ptr<const CheckpointManifest> manifest_;
  std::shared_ptr<StoredFiles> files_;
  std::shared_ptr<VerifiedChunks> verified_ = std::make_shared<VerifiedChunks>();
  std::vector<TensorInfo> tensors_;
};

}  // namespace stoker
