#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

/// Changes one thing in the text of a manifest: a number, a string, a reference, a member removed,
/// doubled, renamed or put deeper; or a tensor's type, shape and range together, so that the
/// manifest still agrees with itself. Empty if the text is no JSON. The same seed makes the same
/// change.
std::string mutate_manifest(std::string_view text, std::uint32_t seed);

/// For LLVMFuzzerCustomMutator(): mutate_manifest() on the input, or, for `of_bytes` of 16 seeds
/// and wherever the input is no JSON, libFuzzer's own change of some bytes.
std::size_t mutate_json_input(std::uint8_t* data, std::size_t size, std::size_t max_size,
                              unsigned seed, unsigned of_bytes);

/// The text with the right checksum at its end, whether it had one or not.
std::string seal_again(std::string_view text);

}  // namespace stoker
