/// \file
/// tf.Example: a map from names to lists, as the payload of TFRecords. Bytes to fields and back.
///
///     Example  { Features features = 1; }
///     Features { map<string, Feature> feature = 1; }
///     Feature  { oneof kind { BytesList = 1; FloatList = 2; Int64List = 3; } }
///     each List{ repeated value = 1; }                 numbers packed; unpacked ones are read too
///
/// How a feature becomes a field, and the field the same feature again:
///
///     BytesList of one value     bytes, a view of the value
///     BytesList of none, several array of dtype kBytesListDtype and shape {count}: its bytes are
///                                the encoded BytesList itself; BytesListReader walks the values
///     FloatList                  float32, none or more
///     Int64List                  int64, none or more
///     none of the three          no field, as if the name were absent (so does TensorFlow)
///
/// Merging is protobuf's: of a duplicate name the last value counts, a list that comes in parts
/// is all of them. Unknown fields are skipped. A known field of another wire type, which protobuf
/// would skip, is an error here, and so is a SequenceExample: skipping would lose its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/shard_format.h"
#include "formats/tfrecord/protobuf_wire.h"
#include "stoker/status.h"

namespace stoker {

/// FieldView::dtype of a BytesList that has not exactly one value.
inline constexpr std::string_view kBytesListDtype = "tf.BytesList";

/// More features in one Example are refused: `unsupported`.
inline constexpr std::size_t kExampleFeaturesMax = 65'536;

/// Fills `out.fields`, sorted by name, from an encoded Example that lies at `offset_bytes` of its
/// shard. Memory: a view for each feature, and at most 8 times the size of the Example, where
/// varints become int64. `corrupt` names the offset.
Status split_example(std::span<const std::byte> example, std::uint64_t offset_bytes,
                     SampleView& out);

/// Appends the Example of `sample` to `out`: features sorted by name, so equal samples have equal
/// bytes, the ones that protobuf writes when asked to be deterministic. `text` and `json` become
/// BytesLists of one value, as `bytes` do. A `key_field` that is not empty names a further feature
/// for the sample's key; else the key is not written, for an Example has none.
///
/// `invalid_argument`, with `out` as before, for what an Example cannot hold: float64 and arrays, a
/// duplicate name, or one that is not UTF-8, numbers of half a size, 2 GiB and more.
Status put_example(const SampleView& sample, std::string_view key_field,
                   std::vector<std::byte>& out);

/// The values of an encoded BytesList.
///
/// Thread safety: none.
class BytesListReader {
 public:
  explicit BytesListReader(std::span<const std::byte> list, std::uint64_t offset_bytes = 0) noexcept
      : wire_(list, offset_bytes) {}

  /// The next value; false after the last. `corrupt` as split_example().
  Result<bool> next(std::span<const std::byte>& value);

  /// Whether a field was skipped that is not a value.
  bool skipped() const noexcept { return skipped_; }

 private:
  WireReader wire_;
  bool skipped_ = false;
};

}  // namespace stoker
