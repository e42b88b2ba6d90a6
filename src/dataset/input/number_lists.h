/// \file
/// Which fields of numbers are lists: TFRecord keeps one number and several in the same type, and
/// a field has one form in all samples of a dataset.
#pragma once

#include <memory>
#include <stop_token>

#include "dataset/input/input.h"

namespace stoker::internal {

/// The same samples, with a field as an array of one dimension in all of them if it holds none or
/// several numbers in any. Reads every sample once, by `thread_count` threads (0: one for each
/// core); fails as PackInput::read() does, `cancelled` when stopped.
Result<std::unique_ptr<PackInput>> with_number_lists(std::unique_ptr<PackInput> source,
                                                     unsigned thread_count,
                                                     const std::stop_token& stop);

}  // namespace stoker::internal
