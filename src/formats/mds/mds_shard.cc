#include "formats/mds/mds_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "formats/arrays/offset_table.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

constexpr std::uint64_t kConfigBytesMax = std::uint64_t{16} << 20;

Status corrupt_at(std::uint64_t offset_bytes, std::string_view message) {
  return {Code::corrupt, fmt::format("byte {}: {}", offset_bytes, message)};
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Reads the table, piece by piece, then the configuration as a whole.
class MdsScanner final : public ShardScanner {
 public:
  MdsScanner(OffsetTable table, const std::vector<MdsColumn>& columns, std::uint64_t size_bytes,
             std::optional<std::uint64_t> sample_count)
      : table_(table), columns_(columns), size_bytes_(size_bytes), sample_count_(sample_count) {}

  ByteRange wants() const override {
    if (finished_) return {};
    return table_.finished() ? config_range() : table_.wants();
  }

  Status feed(std::span<const std::byte> bytes, RecordSink& sink) override {
    if (finished_) return {};
    Status status = advance(bytes, sink);
    if (!status.ok()) finished_ = true;
    return status;
  }

 private:
  ByteRange config_range() const {
    return {table_.table_end_bytes(), table_.first_bytes() - table_.table_end_bytes()};
  }

  Status advance(std::span<const std::byte> bytes, RecordSink& sink) {
    if (!table_.finished()) {
      const bool first = table_.wants().offset_bytes == 0;
      // Check the number of samples before reporting any to the sink.
      if (first && bytes.size() >= 4) {
        STOKER_TRY(check_count(load_number<std::uint32_t>(bytes)));
      }
      STOKER_ASSIGN(const std::size_t used, table_.feed(bytes, sink));
      bytes = bytes.subspan(used);
      if (!table_.finished()) return {};
      STOKER_TRY(check_end());
      if (config_range().size_bytes == 0) {
        return corrupt_at(table_.table_end_bytes(), "the configuration is missing");
      }
      if (bytes.size() < config_range().size_bytes) return {};
    }
    if (bytes.size() < config_range().size_bytes) {
      return {Code::invalid_argument,
              fmt::format("byte {}: {} bytes were wanted, {} given", config_range().offset_bytes,
                          config_range().size_bytes, bytes.size())};
    }
    finished_ = true;
    return check_config(bytes.first(config_range().size_bytes));
  }

  Status check_count(std::uint64_t count) const {
    if (sample_count_ && count != *sample_count_) {
      return corrupt_at(0, fmt::format("{} samples, the index says {}", count, *sample_count_));
    }
    if (columns_.empty() && count > 0) {
      return corrupt_at(0, fmt::format("{} samples without a column", count));
    }
    return {};
  }

  Status check_end() const {
    if (table_.end_bytes() == size_bytes_) return {};
    return corrupt_at(table_.end_bytes(), fmt::format("{} bytes are left after the last sample",
                                                      size_bytes_ - table_.end_bytes()));
  }

  Status check_config(std::span<const std::byte> bytes) const {
    const Result<MdsConfig> config = parse_mds_config(as_text(bytes));
    if (!config.ok()) {
      return config.status().with_context(fmt::format("byte {}", config_range().offset_bytes));
    }
    if (!same_mds_columns(config->columns, columns_)) {
      return corrupt_at(config_range().offset_bytes,
                        "the shard's columns differ from those in the index");
    }
    return {};
  }

  OffsetTable table_;
  const std::vector<MdsColumn>& columns_;
  std::uint64_t size_bytes_;
  std::optional<std::uint64_t> sample_count_;
  bool finished_ = false;
};

Result<std::unique_ptr<ShardScanner>> make_scanner(const std::vector<MdsColumn>& columns,
                                                   std::uint64_t size_bytes,
                                                   std::optional<std::uint64_t> sample_count) {
  STOKER_ASSIGN(const OffsetTable table,
                OffsetTable::make({.size_bytes = size_bytes, .gap_bytes_max = kConfigBytesMax}));
  return std::unique_ptr<ShardScanner>(
      std::make_unique<MdsScanner>(table, columns, size_bytes, sample_count));
}

}  // namespace

MdsReader::MdsReader(std::vector<MdsColumn> columns) : columns_(std::move(columns)) {
  variable_count_ = static_cast<std::size_t>(std::ranges::count_if(
      columns_, [](const MdsColumn& column) { return !column.encoding.fixed_bytes; }));
}

Result<std::unique_ptr<ShardScanner>> MdsReader::scan(std::uint64_t size_bytes) const {
  return make_scanner(columns_, size_bytes, std::nullopt);
}

Result<std::unique_ptr<ShardScanner>> MdsReader::scan_shard(const MdsShard& shard,
                                                            std::uint64_t size_bytes) const {
  if (size_bytes != shard.raw.size_bytes) {
    return corrupt_at(0, fmt::format("{} has {} bytes, the index says {}", shard.raw.basename,
                                     size_bytes, shard.raw.size_bytes));
  }
  return make_scanner(columns_, size_bytes, shard.sample_count);
}

Status MdsReader::split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
                        SampleView& out) const {
  out.clear();
  std::size_t at = 4 * variable_count_;
  if (record.size() < at) {
    return corrupt_at(record_offset_bytes,
                      fmt::format("a sample of {} bytes has no room for {} lengths", record.size(),
                                  variable_count_));
  }
  std::size_t length_at = 0;
  for (const MdsColumn& column : columns_) {
    std::size_t size = 0;
    if (column.encoding.fixed_bytes) {
      size = *column.encoding.fixed_bytes;
    } else {
      size = load_number<std::uint32_t>(record, length_at);
      length_at += 4;
    }
    if (size > record.size() - at) {
      return corrupt_at(record_offset_bytes + at,
                        fmt::format("column {} takes {} bytes, the sample has {} left",
                                    quote_for_message(column.name), size, record.size() - at));
    }
    FieldView& field = out.fields.emplace_back();
    field.name = column.name;
    const Status status = decode_mds_value(column.encoding, record.subspan(at, size), out, field);
    if (!status.ok()) {
      return status.with_context(fmt::format("byte {}: column {}", record_offset_bytes + at,
                                             quote_for_message(column.name)));
    }
    at += size;
  }
  if (at != record.size()) {
    return corrupt_at(record_offset_bytes + at,
                      fmt::format("{} bytes are left in the sample", record.size() - at));
  }
  return {};
}

Result<std::unique_ptr<MdsReader>> make_mds_reader_from_shard(std::span<const std::byte> shard) {
  if (shard.size() < 8) {
    return corrupt_at(0, fmt::format("{} bytes are too few for a shard", shard.size()));
  }
  const std::uint64_t begin = 4 * (std::uint64_t{load_number<std::uint32_t>(shard)} + 2);
  const std::uint64_t end = load_number<std::uint32_t>(shard, 4);
  if (begin > end || end > shard.size() || end - begin > kConfigBytesMax) {
    return corrupt_at(4, fmt::format("no configuration between {} and {}", begin, end));
  }
  Result<MdsConfig> config = parse_mds_config(as_text(shard.subspan(begin, end - begin)));
  if (!config.ok()) return config.status().with_context(fmt::format("byte {}", begin));
  return std::make_unique<MdsReader>(std::move(config->columns));
}

}  // namespace stoker
