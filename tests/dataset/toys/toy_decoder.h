#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "stoker/fields.h"

namespace stoker::testing {

/// What a decoder of images does, without images: takes 4 bytes of the field from a place that is
/// drawn anew in each epoch. `invalid_argument` for a shorter field.
std::shared_ptr<const FieldDecoder> make_toy_decoder();

/// Those 4 bytes.
std::span<const std::byte> toy_crop(std::span<const std::byte> field, std::uint64_t seed,
                                    std::uint64_t epoch, std::uint64_t position);

}  // namespace stoker::testing
