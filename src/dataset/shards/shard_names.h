#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"
#include "store/local_store.h"
#include "store/object_store.h"

namespace stoker {

/// Names that one pattern may stand for at most: a typo must not eat the memory.
inline constexpr std::size_t kShardNamesMax = 10'000'000;

/// Expands braces as a shell and webdataset do: "a-{000..002}.tar" counts with the width of its
/// first number, "{x,y}.tar" lists, several braces combine left to right, "{}" and a brace without
/// a comma or two dots stand for themselves. `invalid_argument` for a brace that is not closed, a
/// count backwards, or too many names.
Result<std::vector<std::string>> expand_braces(std::string_view pattern);

/// The keys a pattern names: the one of exactly that name, if there is one, so that a dataset can
/// be opened under the name it was written to. Else braces are expanded, then "*", "?" and "[...]"
/// matched in the store, each glob's matches in bytewise order whatever the locale.
/// `not_found` for a name or a glob that matches nothing, because a dataset that silently lost a
/// shard is worse than an error. Before a local path "file://" may stand; other schemes are
/// `unsupported` there.
Result<std::vector<std::string>> find_shards(std::string_view pattern,
                                             ObjectStore& store = *local_store());

/// A shard's name without directories and endings: "shard.00000" of "shard.00000.mds", and of
/// "shard.00000.mds.zstd" as well, because compression changes no key. Of MDS the directories stay,
/// for shards of several datasets that are read as one have the same names: "en/shard.00000".
std::string shard_stem(std::string_view shard_name);

/// The key of a sample that has none of its own, by its place in its shard: "shard.00000/17".
std::string numbered_key(std::string_view shard_name, std::uint64_t number);

/// ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd": a tar that is to be inflated before it is read.
bool is_compressed_tar_name(std::string_view name) noexcept;

}  // namespace stoker
