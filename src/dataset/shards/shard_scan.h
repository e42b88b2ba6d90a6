#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "formats/shard_format.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// Size of the memory that scan_shard() and checksum_records() need; aligned to 4096.
inline constexpr std::size_t kScanBytes = std::size_t{1} << 20;

/// Finds the records of a shard with `scanner`, reading little more than it asks for: only headers
/// if samples are large, long stretches if they are small. `memory` has at least kScanBytes.
/// Records go to `sink`, whose failure ends the scan.
Status scan_shard(const Object& object, ShardScanner& scanner, std::span<std::byte> memory,
                  RecordSink& sink, const std::stop_token& stop = {});
Result<std::vector<ByteRange>> scan_shard(const Object& object, ShardScanner& scanner,
                                          std::span<std::byte> memory,
                                          const std::stop_token& stop = {});

/// Returns the CRC32C of each record. Reads all of them, in the order given.
Result<std::vector<std::uint32_t>> checksum_records(const Object& object,
                                                    std::span<const ByteRange> records,
                                                    std::span<std::byte> memory,
                                                    const std::stop_token& stop = {});

}  // namespace stoker
