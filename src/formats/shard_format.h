/// \file
/// The interface of every shard format: find the records of a shard, split a record into its
/// fields, write a shard. Pure: bytes in, views or a typed error out. The layers above read and
/// write the bytes.
///
/// The layers above know a format only by its ShardFormat; formats/table lists them. To add a
/// format, add its parser, its ShardFormat with a line in the table, and its tests. A format is
/// complete when it passes tests/conformance/shard_format_suite.h and has golden bytes, a hostile
/// corpus with reasons, a fuzz target, and an interop test with the original implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/dtype.h"
#include "stoker/fields.h"
#include "stoker/status.h"

namespace stoker {

/// A range of bytes in a shard.
struct ByteRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  std::uint64_t end_bytes() const noexcept { return offset_bytes + size_bytes; }
  bool operator==(const ByteRange&) const = default;
};

/// One sample. Reused for many records: clear() keeps the memory of `fields`. Can be moved but not
/// copied: the views of a copy would refer to the storage of the original.
///
/// Thread safety: none.
struct SampleView {
  SampleView() = default;
  SampleView(SampleView&&) noexcept = default;
  SampleView& operator=(SampleView&&) noexcept = default;
  SampleView(const SampleView&) = delete;
  SampleView& operator=(const SampleView&) = delete;

  std::string_view key;  ///< Empty if the format has no keys.
  std::vector<FieldView> fields;
  /// Owns bytes that are not part of the record: decoded varints, converted shapes.
  std::deque<std::vector<std::byte>> storage;

  void clear() {
    key = {};
    fields.clear();
    storage.clear();
  }
  /// Copies `text` into the storage.
  std::string_view keep(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    const std::vector<std::byte>& kept = storage.emplace_back(bytes.begin(), bytes.end());
    return {reinterpret_cast<const char*>(kept.data()), kept.size()};
  }
  /// Copies one number of 64 bits into the storage.
  std::span<const std::byte> keep_number(const void* value) {
    const auto* const bytes = static_cast<const std::byte*>(value);
    return storage.emplace_back(bytes, bytes + sizeof(std::uint64_t));
  }
  /// Returns the field with that name, or null.
  const FieldView* find(std::string_view name) const noexcept {
    for (const FieldView& field : fields)
      if (field.name == name) return &field;
    return nullptr;
  }
};

/// Receives each record that a scanner finds, in shard order.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// `record` is the range to read and pass to split(). `key` is valid during the call only, and
  /// empty if the format has no keys.
  virtual Status add(ByteRange record, std::string_view key) = 0;
};

/// Finds the records of one shard without reading their contents. The scanner says which bytes it
/// needs, is fed those, and continues from there, so that only the headers of a large shard are
/// read.
///
/// Thread safety: none.
class ShardScanner {
 public:
  virtual ~ShardScanner() = default;

  /// Returns the bytes it needs next, inside the shard; empty (size 0) when the shard is finished.
  virtual ByteRange wants() const = 0;

  /// Takes bytes that begin at `wants().offset_bytes`: all that were wanted, or more (from
  /// read-ahead). `corrupt` names the offset; the scanner is finished then.
  virtual Status feed(std::span<const std::byte> bytes, RecordSink& sink) = 0;
};

/// Reads the shards of one dataset.
///
/// Thread safety: const methods from any thread.
class ShardReader {
 public:
  virtual ~ShardReader() = default;

  /// Returns a scanner for a shard of `size_bytes`.
  virtual Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const = 0;

  /// Splits a record that scan() found into key and fields. `record_offset_bytes` is its offset in
  /// the shard, for messages. Views refer to `record`, to `out.storage`, or to the reader.
  virtual Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
                       SampleView& out) const = 0;
};

/// Receives a writer's bytes, in order.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
};

/// Writes one shard.
///
/// Thread safety: none.
class ShardWriter {
 public:
  /// An additional file of the shard, named "<shard>" + suffix.
  struct Sidecar {
    std::string suffix;
    std::vector<std::byte> bytes;
  };

  virtual ~ShardWriter() = default;

  /// Adds a sample. `invalid_argument`, with how to fix it, if the format cannot represent the
  /// sample; the shard is then unchanged.
  virtual Status append(const SampleView& sample) = 0;

  /// Writes the rest of the shard. Nothing may be appended afterwards.
  virtual Result<std::vector<Sidecar>> finish() = 0;

  virtual std::uint64_t sample_count() const noexcept = 0;
  /// Size of the shard if it were finished now, to decide when to start another.
  virtual std::uint64_t size_bytes() const noexcept = 0;
  /// Range that the last appended sample will have, for an index written along with the shard.
  virtual ByteRange last_record() const noexcept = 0;
};

/// What a writer must know about the samples before the first one. Each format uses what applies.
struct ShardWriterOptions {
  std::string shard_name = {};
  std::string key_field = {};  ///< Field that stores the key, in formats without keys.
  std::vector<std::pair<std::string, std::string>> columns = {};  ///< Name and encoding.
  std::uint64_t size_limit_bytes = 0;
  Dtype dtype = Dtype::int32;   ///< Element type, for array formats.
  std::uint64_t row_bytes = 0;  ///< For rows of one length; 0: the length of the first row.
};

/// A shard format: one row of the table.
struct ShardFormat {
  /// Name in indexes and manifests, and for opening: "tar". At most 15 bytes.
  std::string_view name;
  /// Name for writing: "tokens" for Megatron's. Empty if the format is read-only.
  std::string_view written_as = {};
  /// What a user has to know to choose it for writing, for help texts: "rows of one length".
  std::string_view written_note = {};

  bool has_keys = false;        ///< Records begin with their keys, which a scan finds.
  bool has_checksums = false;   ///< Records contain checksums.
  bool has_name_types = false;  ///< The ending of a field's name determines its type.
  bool has_lists = false;       ///< Numbers are always lists: one number is a list of one.
  bool has_columns = false;     ///< A writer must be given the columns first.
  bool is_array = false;        ///< A sample is one array of numbers and nothing else.
  bool lacks_dtype = false;     ///< Files do not state their dtype: the manifest does.
  bool has_index_json = false;  ///< A dataset is a directory with an index.json to open it by.
  bool keeps_folders = false;   ///< Shards of the same name in different folders are distinct.

  /// Whether a file with this name is a shard, when a directory is opened. Null: not recognized by
  /// name.
  bool (*is_shard_name)(std::string_view name) = nullptr;
  /// Whether a shard begins with these bytes: the first 512, or all of a shorter file. Null: not
  /// recognized by contents.
  bool (*is_shard_head)(std::span<const std::byte> head) = nullptr;

  /// For formats whose shards are self-contained; null for the others, whose sources are in
  /// dataset/shards.
  std::unique_ptr<ShardReader> (*make_reader)() = nullptr;
  /// Null if the format is read-only. An implementation may write the beginning of the shard here.
  Result<std::unique_ptr<ShardWriter>> (*make_writer)(const ShardWriterOptions& options,
                                                      ByteSink& sink) = nullptr;
  /// Converts a field to a type that the format can store, losing only what
  /// docs/formats/manifest.md says; `invalid_argument` if there is none. Null: fields are stored
  /// unchanged.
  Status (*fit)(SampleView& sample, FieldView& field) = nullptr;

  /// The least that a field takes in a shard in addition to its bytes.
  std::uint64_t field_overhead_bytes = 64;
  std::uint64_t shard_bytes_max = UINT64_MAX;
  std::string_view ending = {};  ///< File name extension of written shards: "tar".
  /// Returns the name of a written shard, if the format has a convention; null: prefix, number and
  /// ending.
  std::string (*shard_name)(std::uint64_t shard) = nullptr;
  /// File name extension of the additional file of each shard: "idx". Empty: there is none.
  std::string_view sidecar_ending = {};
};

}  // namespace stoker
