/// \file
/// What every shard format offers: find the records of a shard, split a record into its fields,
/// write a shard. Pure: bytes in, views or a typed error out. Who reads and writes the bytes is the
/// business of the layers above.
///
/// What the layers above know of a format is its ShardFormat, and nothing else: formats/table lists
/// them. To add one: its parser, its ShardFormat with a line in the table, its tests.
/// Conformance: a format is done when it passes tests/conformance/shard_format_suite.h, has golden
/// bytes, a hostile corpus with reasons, a fuzz target, and an interop test with the real peer.
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

#include "formats/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// A part of a shard.
struct ByteRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;

  std::uint64_t end_bytes() const noexcept { return offset_bytes + size_bytes; }
  bool operator==(const ByteRange&) const = default;
};

/// What a field's bytes are, where the format says so. Numbers are little-endian.
enum class FieldType : std::uint8_t {
  bytes,    ///< Anything: an image, a tensor, or nothing known.
  text,     ///< UTF-8.
  json,     ///< UTF-8 JSON.
  int64,    ///< One or more.
  float32,  ///< One or more.
  float64,  ///< One or more.
  array,    ///< Elements of `dtype`, `shape` given.
};

/// One field of a sample: views into the record it was split from, or into SampleView::storage.
struct FieldView {
  std::string_view name;
  std::span<const std::byte> bytes;
  FieldType type = FieldType::bytes;
  std::string_view dtype = {};                ///< NumPy's name ("<f4") for `array`.
  std::span<const std::uint64_t> shape = {};  ///< For `array`; {1} says that one number is a list.
};

/// One sample. Reused from record to record: clear() keeps the memory. Moved, never copied: a
/// copy's views would still look into the storage of the original.
///
/// Thread safety: none.
struct SampleView {
  SampleView() = default;
  SampleView(SampleView&&) noexcept = default;
  SampleView& operator=(SampleView&&) noexcept = default;
  SampleView(const SampleView&) = delete;
  SampleView& operator=(const SampleView&) = delete;

  std::string_view key;  ///< Empty where the format has none.
  std::vector<FieldView> fields;
  /// Owns what could not be a view into the record: decoded varints, converted shapes.
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
  /// The same for one number of 64 bits.
  std::span<const std::byte> keep_number(const void* value) {
    const auto* const bytes = static_cast<const std::byte*>(value);
    return storage.emplace_back(bytes, bytes + sizeof(std::uint64_t));
  }
  /// The field of that name, or null.
  const FieldView* find(std::string_view name) const noexcept {
    for (const FieldView& field : fields)
      if (field.name == name) return &field;
    return nullptr;
  }
};

/// Told of each record that a scanner finds, in the order of the shard.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// `record` is what split() wants later, read whole. `key` is valid during the call only, and
  /// empty where the format has none.
  virtual Status add(ByteRange record, std::string_view key) = 0;
};

/// Finds the records of one shard without reading their contents. It says which bytes it wants,
/// gets them, and goes on from there, so that a shard of gigabytes costs its headers only.
///
/// Thread safety: none.
class ShardScanner {
 public:
  virtual ~ShardScanner() = default;

  /// The bytes it wants next, inside the shard; empty (size 0) when the shard is finished.
  virtual ByteRange wants() const = 0;

  /// Takes bytes from `wants().offset_bytes` on: all that were wanted, or more (what a read ahead
  /// brought). `corrupt` names the offset; the scanner is finished then.
  virtual Status feed(std::span<const std::byte> bytes, RecordSink& sink) = 0;
};

/// Reads the shards of one dataset.
///
/// Thread safety: const methods from any thread.
class ShardReader {
 public:
  virtual ~ShardReader() = default;

  /// A scanner for a shard of `size_bytes`.
  virtual Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const = 0;

  /// Splits a record that scan() found into key and fields. `record_offset_bytes` is where it lies
  /// in its shard, for messages. Every view is inside `record` or `out.storage`.
  virtual Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
                       SampleView& out) const = 0;
};

/// Where a writer's bytes go, in order.
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
  /// A file that belongs to the shard beside its own bytes: "<shard>" + suffix.
  struct Sidecar {
    std::string suffix;
    std::vector<std::byte> bytes;
  };

  virtual ~ShardWriter() = default;

  /// Adds a sample. `invalid_argument` if the format cannot hold it (and how to fix that); the
  /// shard is then as before.
  virtual Status append(const SampleView& sample) = 0;

  /// Writes what is still missing. Nothing may be appended afterwards.
  virtual Result<std::vector<Sidecar>> finish() = 0;

  virtual std::uint64_t sample_count() const noexcept = 0;
  /// Size of the shard if it were finished now: for cutting shards by bytes.
  virtual std::uint64_t size_bytes() const noexcept = 0;
  /// Where the sample appended last will lie, for an index written along with the shard.
  virtual ByteRange last_record() const noexcept = 0;
};

/// What a writer is told of the samples that will come. Each format takes what concerns it.
struct ShardWriterOptions {
  std::string shard_name = {};
  std::string key_field = {};  ///< The field for keys, where the format has none of its own.
  std::vector<std::pair<std::string, std::string>> columns = {};  ///< Name and encoding.
  std::uint64_t size_limit_bytes = 0;
  Dtype dtype = Dtype::int32;   ///< Of arrays.
  std::uint64_t row_bytes = 0;  ///< Of rows of one length; 0: as the first.
};

/// A format of shards: one row of the table.
struct ShardFormat {
  /// By which it is opened, and called in indexes and manifests: "tar". At most 15 bytes.
  std::string_view name;
  /// By which it is written: "tokens" for Megatron's. Empty if it is only read.
  std::string_view written_as = {};

  bool has_keys = false;        ///< Records begin with their keys, which a scan finds.
  bool has_checksums = false;   ///< Records have checksums of their own.
  bool has_name_types = false;  ///< A field's type is what the ending of its name promises.
  bool has_lists = false;       ///< Numbers come in lists alone: one number is a list of one.
  bool has_columns = false;     ///< A writer is told the columns first.
  bool is_array = false;        ///< A sample is one array of numbers, and nothing else.
  bool is_silent = false;       ///< Arrays that do not say their dtype: the manifest does.
  bool has_index_json = false;  ///< A dataset is a directory with an index.json, and opened by it.
  bool keeps_folders = false;   ///< Shards of one name in several folders are different ones.

  /// Whether a file of that name is a shard, in a directory that is opened as a whole. Null: by
  /// their contents.
  bool (*is_shard_name)(std::string_view name) = nullptr;
  /// Whether a shard begins with these bytes: 512, or all it has. Null: by its name alone.
  bool (*is_shard_head)(std::span<const std::byte> head) = nullptr;

  /// For formats whose shards say everything themselves; null for the others, whose sources are in
  /// dataset/shards.
  std::unique_ptr<ShardReader> (*make_reader)() = nullptr;
  /// Null if it is only read. What a shard begins with is written here, and not with its first
  /// record.
  Result<std::unique_ptr<ShardWriter>> (*make_writer)(const ShardWriterOptions& options,
                                                      ByteSink& sink) = nullptr;
  /// Turns a field into what the format can hold, losing only what docs/formats/manifest.md says;
  /// `invalid_argument` for what has no such form. Null: fields stay as they are.
  Status (*fit)(SampleView& sample, FieldView& field) = nullptr;

  /// What a field takes in a shard beside its bytes, at least.
  std::uint64_t field_overhead_bytes = 64;
  std::uint64_t shard_bytes_max = UINT64_MAX;
  std::string_view ending = {};  ///< Of the names of shards that are written: "tar".
  /// Of the names of shards that are written, where there is a convention; null: prefix, number and
  /// ending.
  std::string (*shard_name)(std::uint64_t shard) = nullptr;
  /// Of the file beside each shard: "idx". Empty: there is none.
  std::string_view sidecar_ending = {};
};

}  // namespace stoker
