#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "formats/arrays/megatron.h"

namespace stoker {
namespace {

/// Buffers small pieces for a sink.
class PieceWriter {
 public:
  explicit PieceWriter(ByteSink& sink) : sink_(&sink) { piece_.reserve(kPieceBytes); }

  Status put(std::span<const std::byte> bytes) {
    if (piece_.size() + bytes.size() > kPieceBytes) STOKER_TRY(flush());
    piece_.insert(piece_.end(), bytes.begin(), bytes.end());
    return {};
  }
  template <typename Number>
  Status put_number(Number number) {
    return put(std::as_bytes(std::span(&number, 1)));
  }
  Status flush() {
    if (piece_.empty()) return {};
    STOKER_TRY(sink_->write(piece_));
    piece_.clear();
    return {};
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

  ByteSink* sink_;
  std::vector<std::byte> piece_;
};

}  // namespace

Result<MegatronWriter> MegatronWriter::make(ByteSink& bin, MegatronWriterOptions options) {
  STOKER_ASSIGN(const std::uint8_t code, megatron_dtype_code(options.dtype));
  return MegatronWriter(bin, options, code);
}

Status MegatronWriter::check_open() const {
  if (finished_) return Status(Code::invalid_argument, "the dataset is finished");
  return failure_;
}

Status MegatronWriter::append(std::span<const std::byte> tokens, std::int8_t mode) {
  STOKER_TRY(check_open());
  const std::size_t item_bytes = dtype_size_bytes(options_.dtype);
  if (tokens.size() % item_bytes != 0)
    return Status(Code::invalid_argument, "a sequence of " + std::to_string(tokens.size()) +
                                              " bytes is not a whole number of tokens of " +
                                              std::to_string(item_bytes));
  const std::size_t length = tokens.size() / item_bytes;
  if (length > std::numeric_limits<std::int32_t>::max())
    return Status(Code::invalid_argument, "a sequence of " + std::to_string(length) +
                                              " tokens; Megatron's index counts to 2^31 - 1: "
                                              "append it in parts");
  if (mode != 0 && !options_.multimodal)
    return Status(Code::invalid_argument, "a mode needs a multimodal dataset");
  if (Status status = bin_->write(tokens); !status.ok()) {
    failure_ = status;  // how much of the sequence arrived is unknown
    return status;
  }
  lengths_.push_back(static_cast<std::int32_t>(length));
  if (options_.multimodal) modes_.push_back(mode);
  bin_size_bytes_ += tokens.size();
  return {};
}

Status MegatronWriter::end_document() {
  STOKER_TRY(check_open());
  boundaries_.push_back(static_cast<std::int64_t>(lengths_.size()));
  return {};
}

Status MegatronWriter::finish(ByteSink& idx) {
  STOKER_TRY(check_open());
  if (const std::uint64_t in_documents = static_cast<std::uint64_t>(boundaries_.back());
      in_documents != lengths_.size())
    return Status(Code::invalid_argument,
                  std::to_string(lengths_.size() - in_documents) +
                      " sequences follow the last document: end theirs before finishing");
  failure_ = write_index(idx);
  finished_ = failure_.ok();
  return failure_;
}

Status MegatronWriter::write_index(ByteSink& idx) const {
  PieceWriter out(idx);
  STOKER_TRY(out.put(std::as_bytes(std::span(std::string_view("MMIDIDX\0\0", 9)))));
  STOKER_TRY(out.put_number(std::uint64_t{1}));
  STOKER_TRY(out.put_number(dtype_code_));
  STOKER_TRY(out.put_number(std::uint64_t{lengths_.size()}));
  STOKER_TRY(out.put_number(std::uint64_t{boundaries_.size()}));
  for (const std::int32_t length : lengths_) STOKER_TRY(out.put_number(length));
  std::uint64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    STOKER_TRY(out.put_number(pointer));
    pointer += static_cast<std::uint64_t>(length) * dtype_size_bytes(options_.dtype);
  }
  for (const std::int64_t boundary : boundaries_) STOKER_TRY(out.put_number(boundary));
  for (const std::int8_t mode : modes_) STOKER_TRY(out.put_number(mode));
  return out.flush();
}

}  // namespace stoker
