/// \file
/// The table of formats: everything that is known of one is in its row.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// All of them. A directory's shards are looked for by their names in this order.
std::span<const ShardFormat* const> shard_formats();

/// Adds a format that is not ours, which must live as long as the program. Not while anything else
/// runs: at the program's beginning, or in a test.
void add_shard_format(const ShardFormat& format);

/// The format that is opened under that name, or null.
const ShardFormat* find_shard_format(std::string_view name);
/// The same; `invalid_argument`, with all names, if there is none.
Result<const ShardFormat*> parse_shard_format(std::string_view name);
/// The format that is written under that name; `invalid_argument`, with all names, if there is
/// none.
Result<const ShardFormat*> parse_written_format(std::string_view name);

/// The format whose shards begin so, or null.
const ShardFormat* recognise_shard_head(std::span<const std::byte> head);

/// Turns the fields of a sample into what the format can hold: ShardFormat::fit for each.
Status fit_fields(const ShardFormat& format, SampleView& sample);

}  // namespace stoker
