#include "formats/arrays/token_reader.h"

#include <cstring>
#include <utility>
#include <vector>

namespace stoker {
namespace {

class TokenScanner final : public ShardScanner {
 public:
  TokenScanner(const TokenLayout& layout, std::string idx)
      : idx_(std::move(idx)), layout_(layout) {}

  ByteRange wants() const override {
    return is_done_ || layout_.sequence_count == 0 ? ByteRange{} : ByteRange{0, 1};
  }
  Status feed(std::span<const std::byte> /*bytes*/, RecordSink& sink) override {
    is_done_ = true;
    for (std::uint64_t i = 0; i < layout_.sequence_count; ++i)
      STOKER_TRY(sink.add(layout_.sequence(i), ""));
    return {};
  }

 private:
  const std::string idx_;
  const TokenLayout layout_;
  bool is_done_ = false;
};

}  // namespace

Result<std::unique_ptr<ShardScanner>> TokenReader::scan(std::uint64_t /*size_bytes*/) const {
  return Status(Code::unsupported, "token files are scanned by their layout");
}

Status TokenReader::split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
                          SampleView& out) const {
  if (record.size() % dtype_size_bytes(dtype_) != 0)
    return Status(Code::corrupt, "the sequence at byte " + std::to_string(record_offset_bytes) +
                                     " is not a whole number of tokens");
  out.clear();
  std::vector<std::byte>& shape = out.storage.emplace_back(sizeof(std::uint64_t));
  const std::uint64_t count = record.size() / dtype_size_bytes(dtype_);
  std::memcpy(shape.data(), &count, sizeof count);
  out.fields.push_back({.name = "tokens",
                        .bytes = record,
                        .type = FieldType::array,
                        .dtype = dtype_descr(dtype_),
                        .shape = {reinterpret_cast<const std::uint64_t*>(shape.data()), 1}});
  return {};
}

std::unique_ptr<ShardScanner> make_token_scanner(const TokenLayout& layout, std::string idx) {
  return std::make_unique<TokenScanner>(layout, std::move(idx));
}

}  // namespace stoker
