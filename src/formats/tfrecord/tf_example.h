/// \file
/// tf.Example: a map from names to lists, the payload of TFRecords. Converts bytes to fields and
/// back.
///
///     Example  { Features features = 1; }
///     Features { map<string, Feature> feature = 1; }
///     Feature  { oneof kind { BytesList = 1; FloatList = 2; Int64List = 3; } }
///     each List{ repeated value = 1; }                 numbers packed; unpacked ones are read too
///
/// The mapping between features and fields, in both directions:
///
///     BytesList of one value     bytes, a view of the value
///     BytesList of none, several array of dtype kBytesListDtype and shape {count}: its bytes are
///                                the encoded BytesList itself; BytesListReader walks the values
///     FloatList                  float32, none or more
///     Int64List                  int64, none or more
///     none of the three          no field, as if the name were absent (so does TensorFlow)
///
/// Merging follows protobuf: the last value of a duplicate name wins, and the parts of a list are
/// concatenated. Unknown fields are skipped. A known field with a wrong wire type, which protobuf
/// would skip, is an error, and so is a SequenceExample: skipping would lose its data.
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

/// FieldView::dtype of a BytesList with no value or more than one.
inline constexpr std::string_view kBytesListDtype = "tf.BytesList";

/// An Example with more features is `unsupported`.
inline constexpr std::size_t kExampleFeaturesMax = 65'536;

/// Fills `out.fields`, sorted by name, from an encoded Example at `offset_bytes` of its shard.
/// Memory: one view per feature, and at most 8 times the size of the Example, when varints become
/// int64. `corrupt` names the offset.
Status split_example(std::span<const std::byte> example, std::uint64_t offset_bytes,
                     SampleView& out);

/// Appends the Example of `sample` to `out`. Features are sorted by name, so that equal samples
/// have equal bytes: those of protobuf's deterministic mode. `text` and `json` become BytesLists of
/// one value, like `bytes`. If `key_field` is not empty, it names a feature for the sample's key;
/// otherwise the key is not written, because an Example has none.
///
/// `invalid_argument`, with `out` unchanged, for what an Example cannot represent: float64 and
/// other arrays, a name that is a duplicate or not UTF-8, partial numbers, 2 GiB or more.
Status put_example(const SampleView& sample, std::string_view key_field,
                   std::vector<std::byte>& out);

/// Iterates over the values of an encoded BytesList.
///
/// Thread safety: none.
class BytesListReader {
 public:
  explicit BytesListReader(std::span<const std::byte> list, std::uint64_t offset_bytes = 0) noexcept
      : wire_(list, offset_bytes) {}

  /// Reads the next value; false after the last. `corrupt` as in split_example().
  Result<bool> next(std::span<const std::byte>& value);

  /// Whether fields other than values were skipped.
  bool skipped() const noexcept { return skipped_; }

 private:
  WireReader wire_;
  bool skipped_ = false;
};

}  // namespace stoker
