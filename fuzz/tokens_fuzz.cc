// Any bytes as a token file of every format and dtype, and as Megatron's index: nothing crashes,
// every sequence and document is inside the file, and a valid index is written again byte for byte.
// The last two bytes are the dtype and the number of tokens in the .bin.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "formats/arrays/tokens.h"

namespace stoker {
namespace {

using Bytes = std::span<const std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_readable(const Status& status) {
  require(!status.message().empty());
  require(std::ranges::all_of(status.message(), [](char c) { return c >= ' ' && c <= '~'; }));
}

class MemorySink : public ByteSink {
 public:
  Status write(Bytes piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;
};

void require_inside(const TokenLayout& layout, std::uint64_t size_bytes) {
  require(layout.data_offset_bytes + layout.data_size_bytes() == size_bytes);
  require(layout.sequence_count <= size_bytes || layout.index);
  std::uint64_t next_bytes = layout.data_offset_bytes;
  for (std::uint64_t i = 0; i < layout.sequence_count; ++i) {
    require(layout.sequence(i).offset_bytes == next_bytes);
    next_bytes = layout.sequence(i).end_bytes();
  }
  require(next_bytes == size_bytes);
  std::uint64_t next_sequence = 0;
  for (std::uint64_t i = 0; i < layout.document_count(); ++i) {
    require(layout.document(i).first_sequence == next_sequence);
    next_sequence += layout.document(i).sequence_count;
  }
  require(next_sequence == layout.sequence_count);
}

void read_file(Bytes file, Dtype dtype) {
  for (const TokenFormat format :
       {TokenFormat::raw, TokenFormat::npy, TokenFormat::counted, TokenFormat::shard001}) {
    const Result<TokenLayout> layout = parse_tokens(format, file, file.size(), dtype);
    if (!layout.ok()) {
      require_readable(layout.status());
    } else {
      require_inside(*layout, file.size());
    }
  }
}

void read_index(Bytes idx, std::uint64_t bin_size_bytes) {
  const Result<TokenLayout> layout = layout_of_megatron(idx, bin_size_bytes);
  if (!layout.ok()) return require_readable(layout.status());
  require_inside(*layout, bin_size_bytes);
  const MegatronIndexView& view = *layout->index;
  MemorySink bin;
  MemorySink again;
  Result<MegatronWriter> writer =
      MegatronWriter::make(bin, {.dtype = view.dtype(), .multimodal = view.multimodal()});
  require(writer.ok());
  for (std::uint64_t i = 0; i < view.document_count(); ++i) {
    const DocumentRange document = view.document(i);
    for (std::uint64_t k = 0; k < document.sequence_count; ++k) {
      const std::uint64_t sequence = document.first_sequence + k;
      const std::vector<std::byte> tokens(view.sequence(sequence).size_bytes);
      require(writer->append(tokens, view.mode(sequence)).ok());
    }
    require(writer->end_document().ok());
  }
  require(writer->finish(again).ok());
  require(std::ranges::equal(again.bytes, idx) && bin.bytes.size() == bin_size_bytes);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data, size - 2));
  constexpr int kDtypeCount = static_cast<int>(stoker::Dtype::boolean) + 1;
  const auto dtype = static_cast<stoker::Dtype>(data[size - 2] % kDtypeCount);
  stoker::read_file(bytes, dtype);
  stoker::read_index(bytes, data[size - 1] * stoker::dtype_size_bytes(dtype));
  return 0;
}
