/// \file
/// The table of formats: each row is all that the layers above know about a format.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// Returns all formats. Shards of a directory are matched by name in this order.
std::span<const ShardFormat* const> shard_formats();

/// Adds a format defined elsewhere, which must live as long as the program. Not thread-safe: call
/// it at program start or in a test.
void add_shard_format(const ShardFormat& format);

/// Returns the format with that ShardFormat::name, or null.
const ShardFormat* find_shard_format(std::string_view name);
/// Like find_shard_format(), but `invalid_argument`, with all names, if there is none.
Result<const ShardFormat*> parse_shard_format(std::string_view name);
/// Returns the format with that ShardFormat::written_as; `invalid_argument`, with all names, if
/// there is none.
Result<const ShardFormat*> parse_written_format(std::string_view name);
/// Returns the format to write if the user names none: the first one for samples of that kind.
const ShardFormat& default_written_format(bool is_array);

/// Returns all names, for texts: "tar, mds and raw", with `last` before the last one.
std::string list_shard_formats(std::string_view last = ", ");
/// The same for ShardFormat::written_as.
std::string list_written_formats(std::string_view last = ", ");
/// The same with ShardFormat::written_note: "tar, mds or tokens (Megatron)".
std::string describe_written_formats();

/// Returns the format whose shards begin with these bytes, or null.
const ShardFormat* recognise_shard_head(std::span<const std::byte> head);

/// Converts the fields of a sample to types that the format can store, with ShardFormat::fit.
Status fit_fields(const ShardFormat& format, SampleView& sample);

}  // namespace stoker
