#include "formats/litdata/litdata_chunk.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>

#include "formats/arrays/offset_table.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

constexpr std::uint64_t kFooterBytes = 12;
constexpr char kFooterMagic[] = {'L', 'D', 'A', 'R', 'W', '0', '1', '\0'};

Status corrupt_at(std::uint64_t offset_bytes, std::string_view message) {
  return {Code::corrupt, fmt::format("byte {}: {}", offset_bytes, message)};
}

class IgnoreRecords final : public RecordSink {
 public:
  Status add(ByteRange /*record*/, std::string_view /*key*/) override { return {}; }
};

struct Expected {
  std::optional<std::uint64_t> sample_count;
  std::optional<std::uint64_t> token_count;
  std::uint64_t token_bytes = 0;  ///< 0: no tokens.
  std::uint64_t block_bytes = 0;  ///< 0: records are items.
};

/// Reads the table, piece by piece, then, if bytes follow the items, the footer.
class LitdataScanner final : public ShardScanner {
 public:
  LitdataScanner(OffsetTable table, std::uint64_t size_bytes, const Expected& expected)
      : table_(table), size_bytes_(size_bytes), expected_(expected) {}

  ByteRange wants() const override {
    if (finished_) return {};
    if (!table_.finished()) return table_.wants();
    return {size_bytes_ - kFooterBytes, kFooterBytes};
  }

  Status feed(std::span<const std::byte> bytes, RecordSink& sink) override {
    if (finished_) return {};
    Status status = table_.finished() ? check_footer(bytes) : read_table(bytes, sink);
    if (!status.ok()) finished_ = true;
    return status;
  }

 private:
  Status read_table(std::span<const std::byte> bytes, RecordSink& sink) {
    if (table_.wants().offset_bytes == 0 && bytes.size() >= 4) {
      STOKER_TRY(check_count(load_number<std::uint32_t>(bytes)));
    }
    IgnoreRecords ignore;
    STOKER_ASSIGN([[maybe_unused]] const std::size_t used,
                  table_.feed(bytes, expected_.block_bytes > 0 ? ignore : sink));
    if (!table_.finished()) return {};
    if (expected_.token_bytes > 0) STOKER_TRY(check_tokens());
    const std::uint64_t left_bytes = size_bytes_ - table_.end_bytes();
    if (left_bytes > 0 && left_bytes < kFooterBytes) return left_over();
    finished_ = left_bytes == 0;
    return expected_.block_bytes > 0 ? add_blocks(sink) : Status();
  }

  Status check_count(std::uint64_t count) const {
    if (!expected_.sample_count || count == *expected_.sample_count) return {};
    return corrupt_at(0,
                      fmt::format("{} samples, the index says {}", count, *expected_.sample_count));
  }

  Status check_tokens() const {
    const std::uint64_t tokens_bytes = table_.end_bytes() - table_.first_bytes();
    if (tokens_bytes % expected_.token_bytes != 0) {
      return corrupt_at(table_.first_bytes(),
                        fmt::format("{} bytes are not a whole number of tokens of {}", tokens_bytes,
                                    expected_.token_bytes));
    }
    const std::uint64_t count = tokens_bytes / expected_.token_bytes;
    if (expected_.token_count && count != *expected_.token_count) {
      return corrupt_at(table_.first_bytes(),
                        fmt::format("{} tokens, the index says {}", count, *expected_.token_count));
    }
    return {};
  }

  Status add_blocks(RecordSink& sink) const {
    const std::uint64_t block = expected_.block_bytes;
    for (std::uint64_t at = table_.first_bytes(); table_.end_bytes() - at >= block; at += block) {
      STOKER_TRY(sink.add({at, block}, {}));
    }
    return {};
  }

  Status left_over() const {
    return corrupt_at(table_.end_bytes(), fmt::format("{} bytes are left after the last item",
                                                      size_bytes_ - table_.end_bytes()));
  }

  Status check_footer(std::span<const std::byte> bytes) {
    if (bytes.size() < kFooterBytes) {
      return {Code::invalid_argument,
              fmt::format("byte {}: {} bytes were wanted, {} given", wants().offset_bytes,
                          kFooterBytes, bytes.size())};
    }
    finished_ = true;
    const std::uint64_t arrow_bytes = size_bytes_ - kFooterBytes - table_.end_bytes();
    if (std::memcmp(bytes.data() + 4, kFooterMagic, sizeof kFooterMagic) != 0 ||
        load_number<std::uint32_t>(bytes) != arrow_bytes) {
      return left_over();
    }
    if (table_.count() > 0 && table_.first_bytes() == table_.end_bytes()) {
      return {Code::unsupported,
              fmt::format("byte {}: the samples are kept as Arrow rows only; write the dataset "
                          "where pyarrow is not installed, or with a tensor in each sample",
                          table_.end_bytes())};
    }
    return {};
  }

  OffsetTable table_;
  std::uint64_t size_bytes_;
  Expected expected_;
  bool finished_ = false;
};

Result<std::unique_ptr<ShardScanner>> make_scanner(std::uint64_t size_bytes,
                                                   const Expected& expected) {
  STOKER_ASSIGN(const OffsetTable table, OffsetTable::make({.size_bytes = size_bytes}));
  return std::unique_ptr<ShardScanner>(
      std::make_unique<LitdataScanner>(table, size_bytes, expected));
}

}  // namespace

LitdataReader::LitdataReader(std::vector<LitdataLeaf> leaves, bool is_tokens, Options options)
    : leaves_(std::move(leaves)), is_tokens_(is_tokens) {
  if (!is_tokens_) return;
  token_bytes_ = dtype_size_bytes(*leaves_.front().dtype);
  block_bytes_ = token_bytes_ * options.block_tokens;
}

Result<std::unique_ptr<LitdataReader>> LitdataReader::make(const LitdataIndex& index,
                                                           Options options) {
  if (options.block_tokens > 0 && !index.is_tokens) {
    return Status(Code::invalid_argument, "only chunks of tokens are read in blocks");
  }
  if (options.block_tokens > UINT32_MAX) {
    return Status(Code::invalid_argument, "a block has at most 2^32 - 1 tokens");
  }
  return std::unique_ptr<LitdataReader>(new LitdataReader(index.leaves, index.is_tokens, options));
}

Result<std::unique_ptr<ShardScanner>> LitdataReader::scan(std::uint64_t size_bytes) const {
  return make_scanner(size_bytes, {.sample_count = {},
                                   .token_count = {},
                                   .token_bytes = token_bytes_,
                                   .block_bytes = block_bytes_});
}

Result<std::unique_ptr<ShardScanner>> LitdataReader::scan_chunk(const LitdataChunk& chunk,
                                                                std::uint64_t size_bytes) const {
  return make_scanner(size_bytes, {.sample_count = chunk.sample_count,
                                   .token_count = chunk.token_count,
                                   .token_bytes = token_bytes_,
                                   .block_bytes = block_bytes_});
}

Status LitdataReader::split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
                            SampleView& out) const {
  out.clear();
  const std::size_t size_count = is_tokens_ ? 0 : leaves_.size();
  std::size_t at = 4 * size_count;
  if (record.size() < at) {
    return corrupt_at(record_offset_bytes,
                      fmt::format("an item of {} bytes has no room for the sizes of {} leaves",
                                  record.size(), size_count));
  }
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const LitdataLeaf& leaf = leaves_[i];
    const std::size_t size = is_tokens_ ? record.size() : load_number<std::uint32_t>(record, 4 * i);
    if (size > record.size() - at) {
      return corrupt_at(record_offset_bytes + at,
                        fmt::format("leaf {} takes {} bytes, the item has {} left",
                                    quote_for_message(leaf.name), size, record.size() - at));
    }
    FieldView& field = out.fields.emplace_back();
    field.name = leaf.name;
    const Status status = decode_litdata_leaf(leaf, record.subspan(at, size), out, field);
    if (!status.ok()) {
      return status.with_context(
          fmt::format("byte {}: leaf {}", record_offset_bytes + at, quote_for_message(leaf.name)));
    }
    at += size;
  }
  if (at != record.size()) {
    return corrupt_at(record_offset_bytes + at,
                      fmt::format("{} bytes are left in the item", record.size() - at));
  }
  return {};
}

}  // namespace stoker
