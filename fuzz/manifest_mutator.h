#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

/// Makes one change in the text of a manifest: changes a number, a string or a reference; removes,
/// duplicates, renames or nests a member; or changes a tensor's type, shape and range together, so
/// that the manifest stays consistent. Returns "" if the text is not JSON. The same seed makes the
/// same change.
std::string mutate_manifest(std::string_view text, std::uint32_t seed);

/// For LLVMFuzzerCustomMutator(): calls mutate_manifest() for `of_tree` of 16 seeds. The others
/// change the input as mutate_json_input() does, a quarter of them as bytes. Returns the new size.
std::size_t mutate_manifest_input(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                  unsigned seed, unsigned of_tree);

/// Returns the text with a correct checksum at its end, whether it had one or not.
std::string seal_again(std::string_view text);

}  // namespace stoker
