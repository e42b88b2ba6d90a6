#include "formats/mds/mds_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "formats/json/strict_json.h"
#include "formats/mds/mds_compression.h"
#include "formats/mds/mds_hash.h"
#include "formats/utf8.h"

namespace stoker {
namespace {

Status invalid(std::string message) {
  return {Code::invalid_argument, std::move(message)};
}

/// Makes `invalid_argument` from a parser's error: the text is an option here, not a file.
Status invalid(const Status& status) {
  return invalid(std::string(status.message()));
}

void append_u32(std::vector<std::byte>& out, std::uint32_t value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

Result<MdsFile> describe(std::string basename, const std::vector<std::string>& algorithms,
                         std::span<const std::byte> bytes) {
  MdsFile file = {.basename = std::move(basename), .size_bytes = bytes.size(), .hashes = {}};
  for (const std::string& algorithm : algorithms) {
    STOKER_ASSIGN(std::string digest, mds_digest(algorithm, bytes));
    file.hashes.emplace_back(algorithm, std::move(digest));
  }
  return file;
}

}  // namespace

Result<std::unique_ptr<MdsWriter>> MdsWriter::make(Options options, ByteSink& sink) {
  std::unique_ptr<MdsWriter> writer(new MdsWriter(std::move(options), sink));
  const Options& given = writer->options_;
  MdsConfig& config = writer->shard_.config;
  if (!given.compression.empty()) {
    const Result<MdsCompression> compression = parse_mds_write_compression(given.compression);
    if (!compression.ok()) return invalid(compression.status());
    config.compression = given.compression;
  }
  for (const std::string& algorithm : given.hashes) {
    if (!is_mds_hash(algorithm)) {
      return invalid(fmt::format("hash {} is unknown", quote_for_message(algorithm)));
    }
  }
  if (!std::ranges::is_sorted(given.hashes) ||
      std::ranges::adjacent_find(given.hashes) != given.hashes.end()) {
    return invalid("the hashes are not sorted, or one is a duplicate");
  }
  if (given.size_limit_bytes && *given.size_limit_bytes > UINT32_MAX) {
    return invalid("MDS shards are smaller than 4 GiB");
  }
  config.hashes = given.hashes;
  config.size_limit_bytes = given.size_limit_bytes;
  if (!given.columns.empty()) {
    std::vector<MdsColumn> columns;
    for (const auto& [name, encoding_text] : given.columns) {
      Result<MdsEncoding> encoding = parse_mds_encoding(encoding_text);
      if (!encoding.ok()) {
        return invalid(
            encoding.status().with_context(fmt::format("column {}", quote_for_message(name))));
      }
      columns.push_back({name, *std::move(encoding)});
    }
    STOKER_TRY(writer->set_columns(std::move(columns)));
  }
  return writer;
}

Status MdsWriter::set_columns(std::vector<MdsColumn> columns) {
  std::ranges::sort(columns, {}, &MdsColumn::name);
  const auto twice = std::ranges::adjacent_find(columns, {}, &MdsColumn::name);
  if (twice != columns.end()) {
    return invalid(fmt::format("duplicate column {}", quote_for_message(twice->name)));
  }
  for (const MdsColumn& column : columns) {
    if (!is_utf8(column.name)) {
      return invalid(fmt::format("column {}: not UTF-8", quote_for_message(column.name)));
    }
  }
  shard_.config.columns = std::move(columns);
  config_text_ = format_mds_config(shard_.config);
  has_columns_ = true;
  return {};
}

Status MdsWriter::choose_columns(const SampleView& sample) {
  std::vector<MdsColumn> columns;
  for (const FieldView& field : sample.fields) {
    Result<MdsEncoding> encoding = choose_mds_encoding(field);
    if (!encoding.ok()) {
      return encoding.status().with_context(fmt::format("field {}", quote_for_message(field.name)));
    }
    columns.push_back({std::string(field.name), *std::move(encoding)});
  }
  if (!options_.key_field.empty()) {
    STOKER_ASSIGN(MdsEncoding text, parse_mds_encoding("str"));
    columns.push_back({options_.key_field, std::move(text)});
  }
  if (columns.empty()) return invalid("a sample without fields has no place in an MDS shard");
  return set_columns(std::move(columns));
}

Status MdsWriter::encode(const SampleView& sample) {
  if (finished_) return invalid("the shard is finished");
  if (!has_columns_) STOKER_TRY(choose_columns(sample));
  const std::vector<MdsColumn>& columns = shard_.config.columns;
  scratch_.clear();
  for (const MdsColumn& column : columns)
    if (!column.encoding.fixed_bytes) append_u32(scratch_, 0);
  std::size_t length_at = 0;
  std::size_t used = 0;
  for (const MdsColumn& column : columns) {
    const FieldView key = {.name = column.name,
                           .bytes = std::as_bytes(std::span(sample.key)),
                           .type = FieldType::text};
    const FieldView* field = sample.find(column.name);
    used += field != nullptr ? 1 : 0;
    if (column.name == options_.key_field) field = &key;
    if (field == nullptr) {
      return invalid(
          fmt::format("the sample has no field {}, which others have; the samples of an MDS "
                      "dataset have the same fields: write tar or tfrecord instead",
                      quote_for_message(column.name)));
    }
    const std::size_t before = scratch_.size();
    const Status status = encode_mds_value(column.encoding, *field, scratch_);
    if (!status.ok()) {
      return status.with_context(fmt::format("column {}", quote_for_message(column.name)));
    }
    if (column.encoding.fixed_bytes) continue;
    const std::size_t size = scratch_.size() - before;
    if (size > UINT32_MAX) {
      return invalid(fmt::format("column {}: {} bytes, at most 4 GiB fit",
                                 quote_for_message(column.name), size));
    }
    const auto length = static_cast<std::uint32_t>(size);
    std::memcpy(scratch_.data() + length_at, &length, sizeof length);
    length_at += sizeof length;
  }
  return used == sample.fields.size() ? Status() : refuse_new_field(sample);
}

Status MdsWriter::refuse_new_field(const SampleView& sample) const {
  for (const FieldView& field : sample.fields)
    if (std::ranges::find(shard_.config.columns, field.name, &MdsColumn::name) ==
        shard_.config.columns.end())
      return invalid(
          fmt::format("the sample has a field {}, which the samples before it lack; the samples of "
                      "an MDS dataset have the same fields: write tar or tfrecord instead",
                      quote_for_message(field.name)));
  return invalid("the sample has a field twice");
}

Status MdsWriter::append(const SampleView& sample) {
  const bool had_columns = has_columns_;
  Status status = encode(sample);
  if (status.ok() && size_bytes() + 4 + scratch_.size() > UINT32_MAX) {
    status =
        invalid(fmt::format("a sample of {} bytes takes the shard beyond 4 GiB; finish it "
                            "and start another",
                            scratch_.size()));
  }
  if (!status.ok()) {
    if (!had_columns) forget_columns();
    return status;
  }
  sizes_bytes_.push_back(static_cast<std::uint32_t>(scratch_.size()));
  samples_.insert(samples_.end(), scratch_.begin(), scratch_.end());
  return {};
}

Result<std::uint64_t> MdsWriter::size_with(const SampleView& sample) {
  const bool had_columns = has_columns_;
  const Status status = encode(sample);
  const std::uint64_t size = size_bytes() + 4 + scratch_.size();
  if (!had_columns) forget_columns();
  if (!status.ok()) return status;
  return size;
}

void MdsWriter::forget_columns() {
  shard_.config.columns.clear();
  config_text_.clear();
  has_columns_ = false;
}

std::uint64_t MdsWriter::size_bytes() const noexcept {
  return 4 * (sizes_bytes_.size() + 2) + config_text_.size() + samples_.size();
}

ByteRange MdsWriter::last_record() const noexcept {
  if (sizes_bytes_.empty()) return {};
  return {size_bytes() - sizes_bytes_.back(), sizes_bytes_.back()};
}

std::vector<std::byte> MdsWriter::make_header() const {
  std::vector<std::byte> header;
  const std::size_t size = size_bytes() - samples_.size();
  header.reserve(size);
  append_u32(header, static_cast<std::uint32_t>(sizes_bytes_.size()));
  auto offset = static_cast<std::uint32_t>(size);
  append_u32(header, offset);
  for (const std::uint32_t sample_bytes : sizes_bytes_) {
    offset += sample_bytes;
    append_u32(header, offset);
  }
  const auto config = std::as_bytes(std::span(config_text_));
  header.insert(header.end(), config.begin(), config.end());
  return header;
}

Status MdsWriter::write_file(std::span<const std::byte> header) {
  const MdsConfig& config = shard_.config;
  shard_.sample_count = sizes_bytes_.size();
  if (!config.compression && config.hashes.empty()) {
    shard_.raw = {.basename = options_.basename, .size_bytes = size_bytes(), .hashes = {}};
    STOKER_TRY(sink_.write(header));
    return sink_.write(samples_);
  }
  std::vector<std::byte> raw;
  raw.reserve(size_bytes());
  raw.insert(raw.end(), header.begin(), header.end());
  raw.insert(raw.end(), samples_.begin(), samples_.end());
  STOKER_ASSIGN(shard_.raw, describe(options_.basename, config.hashes, raw));
  if (!config.compression) return sink_.write(raw);
  STOKER_ASSIGN(const MdsCompression compression, parse_mds_write_compression(*config.compression));
  STOKER_ASSIGN(const std::vector<std::byte> zip, compress_mds(compression, raw));
  STOKER_ASSIGN(shard_.zip,
                describe(fmt::format("{}.{}", options_.basename, compression.extension()),
                         config.hashes, zip));
  return sink_.write(zip);
}

Result<std::vector<ShardWriter::Sidecar>> MdsWriter::finish() {
  if (finished_) return invalid("the shard is finished");
  if (!has_columns_) STOKER_TRY(set_columns({}));
  finished_ = true;
  STOKER_TRY(write_file(make_header()));
  return std::vector<Sidecar>();
}

}  // namespace stoker
