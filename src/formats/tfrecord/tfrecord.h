/// \file
/// TFRecord: a sequence of records, without header, footer or index.
///
///     u64 length | u32 masked CRC32C of those 8 bytes | data | u32 masked CRC32C of data
///
/// All little-endian. scan() reads 12 bytes of each record and checks its length; split() checks
/// length and data, and parses the data as a tf.Example (tf_example.h). A shard that ends between
/// two records is complete: it does not say how many it should have. One that ends elsewhere is
/// `corrupt`. A file compressed as a whole is `unsupported`: it has no random access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "formats/shard_format.h"

namespace stoker {

/// The name of the field for a record's data in raw mode.
inline constexpr std::string_view kTfRecordRawField = "data";

struct TfRecordReaderOptions {
  /// Each record is one field, kTfRecordRawField, with any contents. Checksums are still verified.
  bool raw = false;
};

std::unique_ptr<ShardReader> make_tfrecord_reader(TfRecordReaderOptions options = {});

struct TfRecordWriterOptions {
  /// Each sample is one field, kTfRecordRawField, and its bytes are the record's data.
  bool raw = false;
  /// The feature that stores the sample's key; empty: the key is not written.
  std::string key_field = {};
};

/// `sink` outlives the writer. Each sample is one write() of the whole record.
std::unique_ptr<ShardWriter> make_tfrecord_writer(ByteSink& sink,
                                                  TfRecordWriterOptions options = {});

namespace internal {

inline constexpr std::uint64_t kTfRecordHeaderBytes = 12;
inline constexpr std::uint64_t kTfRecordFrameBytes = 16;

/// TFRecord's masked CRC32C: rotated, plus a constant, so that a CRC may be stored among bytes that
/// another CRC covers.
std::uint32_t masked_crc32c(std::span<const std::byte> data) noexcept;

}  // namespace internal
}  // namespace stoker
