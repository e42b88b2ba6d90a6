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

/// A checkpoint that is open for reading. Its files are opened immediately, as far as there are
/// descriptors, so that it stays readable when retention removes it.
///
/// Files on the disks of other nodes (manifest/places.h) cannot be read: what is only there is
/// `unsupported`, and the message says where it is.
///
/// Every read of a chunk reads and hashes all of it, unless its verified bytes were kept in memory.
///
/// Thread safety: const methods may be called from several threads at once; each call uses its own
/// threads and engines. Works in a forked child.
class CheckpointReader {
 public:
  struct Options {
    File::Options file = {};
    EngineFactory engine = {};     ///< Empty: the best engine available.
    std::size_t thread_count = 0;  ///< 0: one per core, at most 4.
    std::uint32_t depth = 4;       ///< Chunks of 4 MiB in flight per thread.
  };

  struct ReadOptions {
    std::stop_token stop = {};
    std::atomic<std::uint64_t>* read_bytes = nullptr;  ///< Incremented as chunks arrive.
    DeviceReadUse devices = {};                        ///< For targets on CUDA devices.
  };

  /// Opens the checkpoint `name` in `store`. `not_found` if it does not exist or was removed
  /// meanwhile; `corrupt` if its manifest is damaged or that of another step, or a file is
  /// missing, has another size or is not a regular file.
  static Result<CheckpointReader> open(const CheckpointStore& store, const std::string& name,
                                       const Options& options);
  /// Opens the checkpoint at `path`. Links in the path are followed, except in a last component
  /// that is the name of a step; links inside the checkpoint are not followed.
  static Result<CheckpointReader> open(FileOps& ops, const std::string& path,
                                       const Options& options);

  /// Opens safetensors files of any program, such as those of one model, as if they were a
  /// checkpoint. Nothing but their headers can be checked. `corrupt` if a header is damaged, or a
  /// name is in two files.
  static Result<CheckpointReader> open_plain(FileOps& ops, std::span<const std::string> paths,
                                             const Options& options);

  const std::string& directory() const noexcept { return directory_; }
  const CheckpointManifest& manifest() const noexcept { return *manifest_; }
  /// All tensors, sorted by name.
  const std::vector<TensorInfo>& tensors() const noexcept { return tensors_; }
  /// Returns the tensor with that name; null if there is none.
  const TensorInfo* find(std::string_view name) const noexcept;
  /// Returns the slices of one of tensors(), as indexes into the manifest's tensors.
  std::span<const std::uint32_t> slices_of(const TensorInfo& tensor) const noexcept;

  /// Fills every target, reading each chunk of the files at most once. The message of `corrupt`
  /// names file, offset and tensors. After a failure the contents of the targets are undefined.
  /// On return nothing writes to them any more. Targets on devices are complete then.
  Status read_all(std::span<const ReadTarget> targets, const ReadOptions& options) const;
  Status read_all(std::span<const ReadTarget> targets) const {
    return read_all(targets, ReadOptions());
  }
  /// Returns the digest of a tensor: from the manifest, or else by reading and hashing it in
  /// pieces.
  Result<Digest128> digest_of(const TensorInfo& tensor) const;

  /// Fills a single target.
  Status read(const ReadTarget& target) const { return read_all(std::span(&target, 1)); }

 private:
  CheckpointReader() = default;
  static Result<CheckpointReader> read_from(const OpenStep& step, const Options& options);
  void list_tensors();

  std::string directory_;
  Options options_;
  bool has_checksums_ = true;
  std::shared_ptr<const CheckpointManifest> manifest_;
  std::shared_ptr<StoredFiles> files_;
  std::shared_ptr<VerifiedChunks> verified_ = std::make_shared<VerifiedChunks>();
  std::vector<TensorInfo> tensors_;
  std::vector<std::vector<std::uint32_t>> slices_;  // of each tensor
};

}  // namespace stoker
