/// \file
/// Finds which number fields are lists: TFRecord has the same type for one number and several, but
/// in other formats a field has the same form in all samples.
#pragma once

#include <memory>
#include <stop_token>

#include "dataset/input/input.h"

namespace stoker::internal {

/// Wraps `input`: a field that has no number or several in any sample becomes a one-dimensional
/// array in all samples. Reads every sample once, with `thread_count` threads (0: one per core).
/// Fails as PackInput::read() does; `cancelled` if `stop` fires.
Result<std::unique_ptr<PackInput>> with_number_lists(std::unique_ptr<PackInput> input,
                                                     unsigned thread_count,
                                                     const std::stop_token& stop);

}  // namespace stoker::internal
