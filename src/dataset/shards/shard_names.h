#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/shard_format.h"
#include "stoker/status.h"
#include "stoker/store.h"
#include "store/local_store.h"

namespace stoker {

/// Maximum number of names of one pattern: a typo must not use up the memory.
inline constexpr std::size_t kShardNamesMax = 10'000'000;

/// Expands braces as a shell and webdataset do: "a-{000..002}.tar" counts with the width of its
/// first number, "{x,y}.tar" lists, several braces combine left to right, "{}" and a brace without
/// a comma or two dots are literal. `invalid_argument` for a brace that is not closed, nested
/// braces, a descending range, or too many braces or names.
Result<std::vector<std::string>> expand_braces(std::string_view pattern);

/// Returns the keys that a pattern names. If a key has exactly that name, returns it, so that a
/// dataset can be opened under the name it was written to. Otherwise expands braces, then matches
/// "*", "?" and "[...]" in the store, the matches of each glob in bytewise order, independent of
/// the locale. `not_found` for a name or glob that matches nothing, because a dataset that silently
/// lost a shard is worse than an error.
Result<std::vector<std::string>> find_shards(std::string_view pattern,
                                             ObjectStore& store = *local_store());

/// A shard's name without directories and endings: "shard.00000" for "shard.00000.mds", and also
/// for "shard.00000.mds.zstd", because compression must not change keys. For MDS the directories
/// are kept, because several datasets that are read as one have shards of the same name:
/// "en/shard.00000".
std::string shard_stem(std::string_view shard_name);

/// The key of a sample without its own key, from its place in its shard: "shard.00000/17".
std::string numbered_key(std::string_view shard_name, std::uint64_t number);

/// ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd": a tar that must be decompressed before it is read.
bool is_compressed_tar_name(std::string_view name) noexcept;

/// Whether a file is a shard of samples by its name: a tar, TFRecord or MDS shard, also compressed.
bool is_sample_shard_name(std::string_view name);

/// The names among those of a directory that look like shards, but would be left out if it is read
/// as shards of `format` (null: as arrays, `.bin`): names of another format, names of compressed
/// shards, and endings in another case. With `only_format`, names of other formats do not count.
/// Files that belong to healthy datasets do not count: hidden files, an `.idx` without its `.bin`
/// (an index for DALI beside a tar), and `.npy` beside other shards (Megatron's caches).
std::vector<std::string> left_out_shards(std::span<const std::string> names,
                                         const ShardFormat* format, bool only_format);

/// `invalid_argument` that names files found by left_out_shards(), and what to do.
Status refuse_mixed_directory(const std::string& directory, std::span<const std::string> left_out);

}  // namespace stoker
