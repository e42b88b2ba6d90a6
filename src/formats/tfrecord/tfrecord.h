/// \file
/// TFRecord: records one after the other, without header, footer or index.
///
///     u64 length | u32 masked CRC32C of those 8 bytes | data | u32 masked CRC32C of data
///
/// All little-endian. scan() reads 12 bytes of each record and checks its length; split() checks
/// length and data, and takes the data for a tf.Example (tf_example.h). A shard that ends between
/// two records is whole: nothing in it says how many there should be. One that ends elsewhere is
/// `corrupt`. A file compressed as a whole is `unsupported`: it has no places to go to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "formats/shard_format.h"

namespace stoker {

/// The name of the field that holds a record's data where it is no Example.
inline constexpr std::string_view kTfRecordRawField = "data";

struct TfRecordReaderOptions {
  /// Each record is one field, kTfRecordRawField, whatever it holds. Its checksums are checked all
  /// the same.
  bool raw = false;
};

std::unique_ptr<ShardReader> make_tfrecord_reader(TfRecordReaderOptions options = {});

struct TfRecordWriterOptions {
  /// Each sample is one field, kTfRecordRawField, and its bytes are the record's data.
  bool raw = false;
  /// The feature that gets the sample's key; empty: the key is not written.
  std::string key_field = {};
};

/// `sink` outlives the writer. A sample becomes one write() to it, of the whole record.
std::unique_ptr<ShardWriter> make_tfrecord_writer(ByteSink& sink,
                                                  TfRecordWriterOptions options = {});

namespace internal {

inline constexpr std::uint64_t kTfRecordHeaderBytes = 12;
inline constexpr std::uint64_t kTfRecordFrameBytes = 16;

/// TFRecord's form of a CRC32C: rotated and shifted, so that a CRC may be stored among the bytes
/// that another one covers.
std::uint32_t masked_crc32c(std::span<const std::byte> data) noexcept;

}  // namespace internal
}  // namespace stoker
