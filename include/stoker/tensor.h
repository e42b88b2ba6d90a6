/// \file
/// Tensors: their element types, their memory, and what a checkpoint says of one.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "stoker/api.h"
#include "stoker/digest.h"
#include "stoker/status.h"

namespace stoker {

/// The element types of safetensors, smallest first. Sizes are in bits, because some types are
/// smaller than a byte.
enum class TensorType : std::uint8_t {
  f4,
  f6_e2m3,
  f6_e3m2,
  boolean,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};

/// Returns the name in headers, such as "BF16".
STOKER_API std::string_view tensor_type_name(TensorType type) noexcept;
/// `unsupported` for an unknown name.
STOKER_API Result<TensorType> parse_tensor_type(std::string_view name);
/// Returns the size of one element: 4 to 64 bits.
STOKER_API std::size_t tensor_type_bits(TensorType type) noexcept;

/// Returns the size of a tensor of this shape; `invalid_argument` if it is not a whole number of
/// bytes or exceeds 2^63.
STOKER_API Result<std::uint64_t> tensor_bytes(TensorType type,
                                              std::span<const std::uint64_t> shape);

/// The element type of a C++ type: `tensor_type_of<float>()` is TensorType::f32.
template <typename T>
consteval TensorType tensor_type_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::same_as<U, bool>) return TensorType::boolean;
  if constexpr (std::floating_point<U>) {
    static_assert(sizeof(U) == 4 || sizeof(U) == 8, "no tensor has such elements");
    return sizeof(U) == 4 ? TensorType::f32 : TensorType::f64;
  } else {
    static_assert(std::integral<U> || std::same_as<U, std::byte>, "give the TensorType");
    constexpr bool kIsSigned = std::is_signed_v<U>;
    switch (sizeof(U)) {
      case 1: return kIsSigned ? TensorType::i8 : TensorType::u8;
      case 2: return kIsSigned ? TensorType::i16 : TensorType::u16;
      case 4: return kIsSigned ? TensorType::i32 : TensorType::u32;
      default: return kIsSigned ? TensorType::i64 : TensorType::u64;
    }
  }
}

/// Of memory that is the host's; other numbers are those of CUDA devices.
inline constexpr std::int32_t kHostMemory = -1;

/// A tensor in memory, or this rank's part of one: what a save reads, and a restore fills.
struct TensorView {
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> shape = {};
  /// All memory that may be read, or written by a restore. Borrowed, unless `owner` is set. If
  /// `device` is set, its addresses are those of that device. Without `first_bytes` and strides it
  /// has the size of the tensor: more is refused, as less is.
  std::span<std::byte> memory = {};
  std::size_t first_bytes = 0;  ///< Offset of the first element in `memory`.
  /// Stride of each dimension; may be negative. Empty: no gaps, last dimension fastest. Must be
  /// empty on a device, and for elements smaller than a byte.
  std::vector<std::int64_t> strides_bytes = {};
  std::int32_t device = kHostMemory;

  /// If it is a part of a larger tensor, whose other parts are on other ranks: the shape of the
  /// whole, and where the part begins. Any number of ranks can restore it, in other parts.
  std::vector<std::uint64_t> global_shape = {};
  std::vector<std::uint64_t> offsets = {};

  /// It belongs to this rank alone. Others that are equal on several ranks are stored once.
  bool is_per_rank = false;
  bool is_read_only = false;  ///< It can be saved, and not restored into.
  /// Python makes a torch tensor of it if it has none in memory, instead of a NumPy array.
  bool is_torch = false;
  /// NumPy's name of an element type that TensorType lacks: "<c16" is stored as pairs of f64.
  std::string element = {};
  std::shared_ptr<void> owner = {};  ///< Keeps `memory`, if a restore has allocated it.
  /// Of a tensor in a checkpoint: the name by which to read it. A save ignores it.
  std::string name = {};

  bool is_slice() const noexcept { return !global_shape.empty(); }
};

/// Returns a view of a range without gaps: `tensor(weights, {256, 3})`, where `weights` is a
/// std::vector or std::span that outlives it. Without a shape, one dimension. A save or restore
/// refuses a shape that has another number of elements.
template <std::ranges::contiguous_range Range>
TensorView tensor(Range&& values, std::vector<std::uint64_t> shape) {
  using Element = std::remove_reference_t<std::ranges::range_reference_t<Range>>;
  static_assert(std::is_lvalue_reference_v<Range> || std::ranges::borrowed_range<Range>,
                "the values must outlive the view");
  auto* const data = const_cast<std::remove_cv_t<Element>*>(std::ranges::data(values));
  TensorView view{.type = tensor_type_of<Element>()};
  view.shape = std::move(shape);
  view.memory = std::as_writable_bytes(std::span(data, std::ranges::size(values)));
  view.is_read_only = std::is_const_v<Element>;
  return view;
}
template <std::ranges::contiguous_range Range>
TensorView tensor(Range&& values) {
  const std::uint64_t count = std::ranges::size(values);
  return tensor(std::forward<Range>(values), {count});
}

/// Returns a view of memory on a CUDA device: `address` is what cudaMalloc() or an allocator of
/// yours has returned. The shape must be one that tensor_bytes() accepts.
STOKER_API TensorView device_tensor(TensorType type, std::vector<std::uint64_t> shape,
                                    std::int32_t device, std::uintptr_t address);

/// A whole tensor of a checkpoint or a safetensors file, regardless of the number of slices it was
/// saved in.
struct TensorInfo {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> shape;
  std::uint64_t size_bytes = 0;
  /// XXH3-128 of the whole tensor; nothing if it was saved in several slices or by version 0.1, and
  /// in files of other programs.
  std::optional<Digest128> digest = {};
};

/// A tensor, or a box of one, and the memory to read it into.
struct ReadTarget {
  std::string name;
  /// Position of the box in the whole tensor, regardless of how it was sliced. If `shape` is empty,
  /// the whole tensor is read.
  std::vector<std::uint64_t> offsets = {};
  std::vector<std::uint64_t> shape = {};
  /// The memory that may be written. Borrowed. A target that extends beyond it is rejected. If
  /// `device` is set, its addresses are those of that device.
  std::span<std::byte> memory = {};
  std::size_t first_bytes = 0;  ///< Offset of the first element of the box in `memory`.
  /// Stride of each dimension; may be negative. Empty: no gaps, last dimension fastest.
  std::vector<std::int64_t> strides_bytes = {};
  std::int32_t device = kHostMemory;  ///< Number of the CUDA device that has the memory.
};

}  // namespace stoker
