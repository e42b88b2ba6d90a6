#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stoker {

/// Makes one change in a JSON text: replaces a string, a number or a word; replaces, removes,
/// repeats or moves an element or a member. Does not parse the text, which takes several times as
/// long; if the text is JSON, so is nearly every result. Returns "" if there is nothing to change.
/// The same seed makes the same change. The result is valid until the next call.
std::string_view mutate_json_text(std::string_view text, std::uint32_t seed);

/// For LLVMFuzzerCustomMutator(): calls mutate_json_text() on the input or, for `of_bytes` of 16
/// seeds and if that cannot change it, libFuzzer's own byte mutation. Returns the new size.
std::size_t mutate_json_input(std::uint8_t* data, std::size_t size, std::size_t max_size,
                              unsigned seed, unsigned of_bytes);

/// Replaces the input by `text`; if that is empty or too long, by libFuzzer's own byte mutation of
/// the input. Returns the new size.
std::size_t replace_input(std::uint8_t* data, std::size_t size, std::size_t max_size,
                          std::string_view text);

}  // namespace stoker
