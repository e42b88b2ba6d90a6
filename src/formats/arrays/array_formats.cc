#include "formats/arrays/array_formats.h"

#include <fmt/format.h>

#include <cstring>

#include "formats/arrays/field_fit.h"
#include "formats/arrays/megatron.h"
#include "formats/arrays/npy.h"
#include "formats/arrays/raw_array.h"

namespace stoker {
namespace {

using namespace internal;

/// Numbers become an array without a shape, and a .npy file its elements: rows and sequences have
/// no shape.
Status fit(SampleView& /*sample*/, FieldView& field) {
  if (is_number(field)) {
    STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
    field.type = FieldType::array;
    field.dtype = dtype_descr(dtype);
  }
  const bool is_numpy = field.name == "npy" || field.name.ends_with(".npy");
  if (field.type != FieldType::bytes || !is_numpy) return {};
  STOKER_ASSIGN(const NpyArray array, parse_npy(field.bytes, field.bytes.size()));
  field = {.name = field.name,
           .bytes = field.bytes.subspan(array.data_offset_bytes),
           .type = FieldType::array,
           .dtype = dtype_descr(array.dtype)};
  return {};
}

class MemorySink final : public ByteSink {
 public:
  Status write(std::span<const std::byte> bytes) override {
    written.insert(written.end(), bytes.begin(), bytes.end());
    return {};
  }
  std::vector<std::byte> written;
};

Status check_tokens(const SampleView& sample, Dtype dtype) {
  if (sample.fields.size() == 1 && sample.fields[0].type == FieldType::array &&
      sample.fields[0].dtype == dtype_descr(dtype))
    return {};
  return Status(
      Code::invalid_argument,
      fmt::format("not an array of {} alone, which is all that tokens are", dtype_name(dtype)));
}

/// Each sample is one sequence, and one document.
class MegatronShardWriter final : public ShardWriter {
 public:
  MegatronShardWriter(MegatronWriter writer, Dtype dtype)
      : writer_(std::move(writer)), dtype_(dtype) {}

  Status append(const SampleView& sample) override {
    STOKER_TRY(check_tokens(sample, dtype_));
    const std::span<const std::byte> tokens = sample.fields[0].bytes;
    const std::uint64_t begin = writer_.bin_size_bytes();
    STOKER_TRY(writer_.append(tokens));
    STOKER_TRY(writer_.end_document());
    last_record_ = {begin, tokens.size()};
    return {};
  }

  Result<std::vector<Sidecar>> finish() override {
    MemorySink idx;
    STOKER_TRY(writer_.finish(idx));
    std::vector<Sidecar> sidecars;
    sidecars.push_back({.suffix = ".idx", .bytes = std::move(idx.written)});
    return sidecars;
  }

  std::uint64_t sample_count() const noexcept override { return writer_.sequence_count(); }
  std::uint64_t size_bytes() const noexcept override { return writer_.bin_size_bytes(); }
  ByteRange last_record() const noexcept override { return last_record_; }

 private:
  MegatronWriter writer_;
  Dtype dtype_;
  ByteRange last_record_;
};

/// Rows of one length after a header that counts them. The header comes first but is known last, so
/// the rows are kept in memory, like MDS's samples.
class RowShardWriter final : public ShardWriter {
 public:
  RowShardWriter(ByteSink& sink, const ShardWriterOptions& options, bool is_counted)
      : sink_(sink),
        is_counted_(is_counted),
        dtype_(options.dtype),
        row_bytes_(options.row_bytes) {}

  Status append(const SampleView& sample) override {
    STOKER_TRY(check_open());
    STOKER_TRY(check_tokens(sample, dtype_));
    const std::span<const std::byte> row = sample.fields[0].bytes;
    if (row.empty()) return Status(Code::invalid_argument, "an empty row, which has no form here");
    if (row_bytes_ == 0) row_bytes_ = row.size();
    if (row.size() != row_bytes_)
      return Status(
          Code::invalid_argument,
          fmt::format("{} elements where the first row has {}, and {} holds rows of one length; "
                      "write tokens",
                      row.size() / dtype_size_bytes(dtype_), row_bytes_ / dtype_size_bytes(dtype_),
                      is_counted_ ? "counted" : "shard001"));
    rows_.insert(rows_.end(), row.begin(), row.end());
    return {};
  }

  Result<std::vector<Sidecar>> finish() override {
    STOKER_TRY(check_open());
    is_finished_ = true;
    const std::uint64_t width = row_bytes_ / dtype_size_bytes(dtype_);
    STOKER_ASSIGN(const std::vector<std::byte> head,
                  is_counted_ ? make_counted_head(sample_count(), width, dtype_)
                              : make_shard001_head(sample_count(), width, dtype_));
    STOKER_TRY(sink_.write(head));
    STOKER_TRY(sink_.write(rows_));
    return std::vector<Sidecar>();
  }

  std::uint64_t sample_count() const noexcept override {
    return row_bytes_ == 0 ? 0 : rows_.size() / row_bytes_;
  }
  std::uint64_t size_bytes() const noexcept override { return head_bytes() + rows_.size(); }
  ByteRange last_record() const noexcept override {
    return rows_.empty() ? ByteRange{} : ByteRange{size_bytes() - row_bytes_, row_bytes_};
  }

 private:
  Status check_open() const {
    return is_finished_ ? Status(Code::invalid_argument, "the shard is finished") : Status();
  }
  std::uint64_t head_bytes() const noexcept {
    return is_counted_ ? kCountedHeadBytes : kShard001HeadBytes;
  }

  ByteSink& sink_;
  const bool is_counted_;
  const Dtype dtype_;
  std::uint64_t row_bytes_;
  std::vector<std::byte> rows_;
  bool is_finished_ = false;
};

Result<std::unique_ptr<ShardWriter>> make_megatron_writer(const ShardWriterOptions& options,
                                                          ByteSink& sink) {
  STOKER_ASSIGN(MegatronWriter writer, MegatronWriter::make(sink, {.dtype = options.dtype}));
  return std::unique_ptr<ShardWriter>(
      std::make_unique<MegatronShardWriter>(std::move(writer), options.dtype));
}

std::unique_ptr<ShardWriter> make_row_writer(const ShardWriterOptions& options, ByteSink& sink,
                                             bool is_counted) {
  return std::make_unique<RowShardWriter>(sink, options, is_counted);
}

bool has_magic(std::span<const std::byte> head, std::string_view magic) {
  return head.size() >= magic.size() && std::memcmp(head.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

const ShardFormat& megatron_format() {
  static constexpr ShardFormat kFormat = {
      .name = "megatron",
      .written_as = "tokens",
      .written_note = "Megatron",
      .is_array = true,
      .is_shard_name = [](std::string_view name) { return name.ends_with(".idx"); },
      .is_shard_head =
          [](std::span<const std::byte> head) {
            return has_magic(head, std::string_view("MMIDIDX\0\0", 9));
          },
      .make_writer = make_megatron_writer,
      .fit = fit,
      .field_overhead_bytes = 0,
      .ending = "bin",
      .sidecar_ending = "idx"};
  return kFormat;
}

const ShardFormat& npy_format() {
  static constexpr ShardFormat kFormat = {
      .name = "npy",
      .is_array = true,
      .is_shard_name = [](std::string_view name) { return name.ends_with(".npy"); },
      .is_shard_head =
          [](std::span<const std::byte> head) { return has_magic(head, "\x93NUMPY"); }};
  return kFormat;
}

const ShardFormat& raw_format() {
  static constexpr ShardFormat kFormat = {.name = "raw", .is_array = true};
  return kFormat;
}

const ShardFormat& counted_format() {
  static constexpr ShardFormat kFormat = {
      .name = "counted",
      .written_as = "counted",
      .written_note = "rows of one length",
      .is_array = true,
      .lacks_dtype = true,
      .make_writer = [](const ShardWriterOptions& options,
                        ByteSink& sink) -> Result<std::unique_ptr<ShardWriter>> {
        return make_row_writer(options, sink, /*is_counted=*/true);
      },
      .fit = fit,
      .field_overhead_bytes = 0,
      .ending = "bin"};
  return kFormat;
}

const ShardFormat& shard001_format() {
  static constexpr ShardFormat kFormat = {
      .name = "shard001",
      .written_as = "shard001",
      .written_note = "rows of one length",
      .is_array = true,
      .lacks_dtype = true,
      .is_shard_head = [](std::span<const std::byte> head) { return has_magic(head, "SHARD001"); },
      .make_writer = [](const ShardWriterOptions& options,
                        ByteSink& sink) -> Result<std::unique_ptr<ShardWriter>> {
        return make_row_writer(options, sink, /*is_counted=*/false);
      },
      .fit = fit,
      .field_overhead_bytes = 0,
      .ending = "bin"};
  return kFormat;
}

}  // namespace stoker
