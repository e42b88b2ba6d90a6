/// \file
/// Writes datasets: large shards, an index with checksums, and a manifest. DatasetWriter writes the
/// samples of a program, as Python's ingest() does; pack_files() packs files, as `stoker pack`
/// does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "stoker/api.h"
#include "stoker/dtype.h"
#include "stoker/fields.h"
#include "stoker/status.h"

namespace stoker {

struct PackProgress {
  std::uint64_t samples_done = 0;
  std::uint64_t sample_count = 0;
  std::uint64_t shards_done = 0;
  std::uint64_t shard_count = 0;
  std::uint64_t bytes_done = 0;     ///< Bytes packed by this run.
  std::uint64_t samples_found = 0;  ///< Part of samples_done: in shards finished by earlier runs.
};

/// Names of fields of which a format does not store everything: TFRecord lacks float64, and the
/// shape of arrays.
struct FieldLosses {
  using Names = std::set<std::string, std::less<>>;

  Names rounded = {};    ///< Real numbers have fewer bits than they had.
  Names flattened = {};  ///< Arrays of several dimensions became lists.

  bool operator==(const FieldLosses&) const = default;
};

struct PackReport {
  std::string format;
  std::uint64_t shard_count = 0;  ///< Of this run's task.
  std::uint64_t sample_count = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t shards_found = 0;  ///< Finished by an earlier run.
  bool is_complete = false;        ///< The manifest was written: the dataset is finished.
  FieldLosses losses = {};         ///< Empty if an earlier run has finished the job.
};

struct PackFilesOptions {
  /// "classes": one directory of images per class. "tree": files grouped by stem. "jsonl".
  /// "tokens": .npy and .bin arrays; "raw", "counted", "shard001": arrays of that layout. Empty:
  /// detected.
  std::string kind = {};
  std::optional<Dtype> dtype = {};    ///< Of arrays that do not store it.
  std::uint64_t sequence_length = 0;  ///< Cuts token arrays into sequences; 0: not cut.
  bool has_hidden = false;            ///< Packs hidden files of a tree as well.
  std::string classes = {};  ///< A classes.json of an earlier pack, with the numbers of classes.

  /// "tar", "mds", "tfrecord"; for arrays also "tokens", "counted", "shard001".
  std::string format = "tar";
  std::uint64_t samples_per_shard = 0;  ///< 0: limited by size only.
  std::uint64_t shard_bytes = std::uint64_t{256} << 20;
  std::optional<std::uint64_t> shuffle_seed = {};  ///< Nothing: the order of the source.
  std::string prefix = "shard";                    ///< Of the shards' names. MDS has fixed names.
  /// This call packs every `task_count`-th shard, from `task` on. If there is more than one task,
  /// call merge_pack() when all are done.
  std::uint64_t task = 0;
  std::uint64_t task_count = 1;
  unsigned thread_count = 0;  ///< Shards at a time; 0: one per core.

  /// Called from any thread, one call at a time: about ten times a second, and after each shard.
  std::function<void(const PackProgress&)> progress = {};
  /// Gets, on the calling thread, what a person should know: files that were left out, a tree that
  /// looks like several datasets, numbers that were rounded, arrays without their shape.
  std::function<void(const std::string& text)> on_remark = {};
  std::stop_token stop = {};
};

/// Packs a directory or a file into `directory`, which is new, empty, or that of an earlier run of
/// the same job: shards that it has finished are kept. `already_exists` if it has anything else,
/// `unavailable` while another run uses it, `unsupported` for files that Stoker reads with Python
/// (Parquet, Arrow, HDF5, LMDB) and for a URI, `cancelled` if `stop` fires. After a failure or a
/// kill, every file with a final name is complete, and the same call continues.
///
/// Thread safety: from any thread. Its threads end before it returns.
STOKER_API Result<PackReport> pack_files(const std::string& source, const std::string& directory,
                                         const PackFilesOptions& options = {});

/// Merges the tasks of a job: writes index and manifest. `unavailable` if shards are missing; the
/// message names the first.
///
/// Thread safety: from any thread.
STOKER_API Result<PackReport> merge_pack(const std::string& directory);

/// A field with text, for DatasetWriter::write(). Views: the text must outlive the call.
inline FieldView text_field(std::string_view name, std::string_view text) noexcept {
  return {.name = name, .bytes = std::as_bytes(std::span(text)), .type = FieldType::text};
}
/// A field with any bytes, such as an image.
inline FieldView bytes_field(std::string_view name, std::span<const std::byte> bytes) noexcept {
  return {.name = name, .bytes = bytes};
}
/// A field with a number. Refers to it.
inline FieldView number_field(std::string_view name, const std::int64_t& number) noexcept {
  return {.name = name, .bytes = std::as_bytes(std::span(&number, 1)), .type = FieldType::int64};
}
inline FieldView number_field(std::string_view name, const double& number) noexcept {
  return {.name = name, .bytes = std::as_bytes(std::span(&number, 1)), .type = FieldType::float64};
}
/// A field with an array: elements of `dtype` in C order. Refers to both.
inline FieldView array_field(std::string_view name, Dtype dtype,
                             std::span<const std::byte> elements,
                             std::span<const std::uint64_t> shape) noexcept {
  return {.name = name,
          .bytes = elements,
          .type = FieldType::array,
          .dtype = dtype_descr(dtype),
          .shape = shape};
}

struct DatasetWriterOptions {
  std::string directory = {};  ///< New or empty. Required.
  /// "tar", "mds", "tfrecord"; for samples of one array each "tokens", and "counted" or "shard001"
  /// if all have the same length.
  std::string format = "tar";
  std::uint64_t samples_per_shard = 1000;  ///< At least 1.
  std::uint64_t shard_bytes = 0;  ///< A shard ends when its samples have this many; 0: no limit.
};

/// Writes a dataset of samples that are made one after the other:
///
///     STOKER_ASSIGN(auto writer, stoker::DatasetWriter::open({.directory = "shards"}));
///     for (...)
///       STOKER_TRY(writer.write("0001", {bytes_field("jpg", image), number_field("cls", 3)}));
///     STOKER_ASSIGN(auto report, std::move(writer).commit());
///
/// The samples of one shard are kept in memory. Each shard is published, complete and durable, when
/// it is full; index and manifest are written by commit(). A value without a type in the format is
/// written in the nearest one: in a tar, numbers become text and arrays .npy files; the manifest
/// records the types, so that a Dataset returns the values.
///
/// Thread safety: none. In a forked child, write() and commit() return `unsupported`, and the
/// destructor does nothing. The destructor removes what was written unless commit() has succeeded:
/// there is a whole dataset, or none. What a killed program leaves has no manifest, and is refused
/// by the next open(): remove the directory.
class STOKER_API DatasetWriter {
 public:
  /// Creates the directory and takes its lock. `already_exists` if it has files, `unavailable` if
  /// another process writes there, `invalid_argument` for options that can never work.
  static Result<DatasetWriter> open(const DatasetWriterOptions& options);
  DatasetWriter(DatasetWriter&& other) noexcept;
  DatasetWriter& operator=(DatasetWriter&& other) noexcept;
  ~DatasetWriter();

  /// Adds a sample, whose fields are copied. An empty key is the sample's number, in nine digits.
  /// The first sample determines the columns of MDS and the type of tokens. `invalid_argument`
  /// names a sample that the format cannot store. After a failure, nothing can be written: the
  /// dataset lacks samples.
  Status write(std::string_view key, std::span<const FieldView> fields);
  Status write(std::string_view key, std::initializer_list<FieldView> fields) {
    return write(key, std::span(fields.begin(), fields.size()));
  }

  /// Samples that were written.
  std::uint64_t size() const noexcept;

  /// Writes the last shard, the index and the manifest: the dataset is complete and durable.
  /// `invalid_argument` if there is no sample.
  Result<PackReport> commit() &&;

 private:
  class [[gnu::visibility("hidden")]] Impl;
  explicit DatasetWriter(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
