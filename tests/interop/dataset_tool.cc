// A command line for the formats that are directories with an index.json, so that interop tests can
// put them between real peers:
//
//   dataset_tool write mds DIR < dataset.json   shards and index.json, cut as the peer cuts them
//   dataset_tool read mds DIR                   one JSON line per sample, in order
//   dataset_tool read litdata DIR [BLOCK]       the same; tokens in blocks of BLOCK
//
// dataset.json: {"columns": {name: encoding}, "compression": text, "hashes": [name],
//                "size_limit": bytes, "samples": [sample]}, all but "samples" optional.
// A sample is {name: {"type", "hex", "dtype", "shape"}}; the last two for arrays. Exit 0; 1 with
// the message on stderr; 2 for a wrong command line.
#include <fmt/format.h>

#include <array>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/hex.h"
#include "formats/litdata/litdata_chunk.h"
#include "formats/litdata/litdata_inflate.h"
#include "formats/mds/mds_compression.h"
#include "formats/mds/mds_shard.h"
#include "formats/mds/mds_writer.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kTypeNames = {"bytes",   "text",    "json", "int64",
                                                        "float32", "float64", "array"};

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::not_found, "cannot open " + path);
  return std::string{std::istreambuf_iterator<char>(in), {}};
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  return out.flush() ? Status() : Status(Code::io_error, "cannot write " + path);
}

class MemorySink final : public ByteSink {
 public:
  Status write(std::span<const std::byte> piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;
};

class CollectRecords final : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view /*key*/) override {
    records.push_back(record);
    return {};
  }
  std::vector<ByteRange> records;
};

/// What the views of a sample to write look into.
struct Owned {
  std::deque<std::string> texts;
  std::deque<std::vector<std::byte>> bytes;
  std::deque<std::vector<std::uint64_t>> shapes;
};

Result<SampleView> sample_from(const json& line, Owned& owned) {
  SampleView sample;
  for (const auto& [name, value] : line.items()) {
    FieldView& field = sample.fields.emplace_back();
    field.name = owned.texts.emplace_back(name);
    const auto hex = value.at("hex").get<std::string>();
    std::vector<std::byte>& bytes = owned.bytes.emplace_back(hex.size() / 2);
    STOKER_TRY(parse_hex(hex, bytes));
    field.bytes = bytes;
    for (std::size_t i = 0; i < kTypeNames.size(); ++i)
      if (value.at("type") == kTypeNames[i]) field.type = static_cast<FieldType>(i);
    field.dtype = owned.texts.emplace_back(value.value("dtype", ""));
    field.shape = owned.shapes.emplace_back(value.value("shape", std::vector<std::uint64_t>{}));
  }
  return sample;
}

void print(const SampleView& sample) {
  json line = json::object();
  for (const FieldView& field : sample.fields) {
    json& value = line[std::string(field.name)];
    value["type"] = kTypeNames[static_cast<std::size_t>(field.type)];
    value["hex"] = format_hex(field.bytes);
    if (field.type != FieldType::array) continue;
    value["dtype"] = field.dtype;
    value["shape"] = std::vector<std::uint64_t>(field.shape.begin(), field.shape.end());
  }
  std::cout << line.dump() << '\n';
}

Status print_all(const ShardReader& reader, ShardScanner& scanner,
                 std::span<const std::byte> bytes) {
  CollectRecords found;
  for (ByteRange want; (want = scanner.wants()).size_bytes > 0;)
    STOKER_TRY(scanner.feed(bytes.subspan(want.offset_bytes, want.size_bytes), found));
  SampleView sample;
  for (const ByteRange& record : found.records) {
    STOKER_TRY(reader.split(bytes.subspan(record.offset_bytes, record.size_bytes),
                            record.offset_bytes, sample));
    print(sample);
  }
  return {};
}

Status read_mds(const std::string& dir) {
  STOKER_ASSIGN(const std::string index_text, read_file(dir + "/index.json"));
  STOKER_ASSIGN(const std::vector<MdsShard> shards, parse_mds_index(index_text));
  for (const MdsShard& shard : shards) {
    STOKER_ASSIGN(const std::string file,
                  read_file(dir + "/" + (shard.zip ? *shard.zip : shard.raw).basename));
    std::vector<std::byte> raw(bytes_of(file).begin(), bytes_of(file).end());
    if (shard.zip) {
      STOKER_ASSIGN(raw, inflate_mds_shard(shard, bytes_of(file)));
    } else {
      STOKER_TRY(check_mds_file(shard.raw, raw));
    }
    const MdsReader reader(shard.config.columns);
    STOKER_ASSIGN(const auto scanner, reader.scan_shard(shard, raw.size()));
    STOKER_TRY(print_all(reader, *scanner, raw));
  }
  return {};
}

Status read_litdata(const std::string& dir, std::uint64_t block_tokens) {
  STOKER_ASSIGN(const std::string index_text, read_file(dir + "/index.json"));
  STOKER_ASSIGN(const LitdataIndex index, parse_litdata_index(index_text));
  STOKER_ASSIGN(const auto reader, LitdataReader::make(index, {.block_tokens = block_tokens}));
  for (const LitdataChunk& chunk : index.chunks) {
    STOKER_ASSIGN(const std::string file, read_file(dir + "/" + chunk.filename));
    STOKER_ASSIGN(const std::vector<std::byte> plain,
                  inflate_litdata_chunk(index, chunk, bytes_of(file)));
    STOKER_ASSIGN(const auto scanner, reader->scan_chunk(chunk, plain.size()));
    STOKER_TRY(print_all(*reader, *scanner, plain));
  }
  return {};
}

/// Writes one shard after the other into a directory.
class MdsDirectory {
 public:
  MdsDirectory(std::string dir, MdsWriter::Options options)
      : dir_(std::move(dir)), options_(std::move(options)) {}

  Status append(const SampleView& sample) {
    if (writer_ == nullptr) STOKER_TRY(start());
    if (writer_->sample_count() > 0 && options_.size_limit_bytes) {
      STOKER_ASSIGN(const std::uint64_t size, writer_->size_with(sample));
      if (size > *options_.size_limit_bytes) {
        STOKER_TRY(flush());
        STOKER_TRY(start());
      }
    }
    return writer_->append(sample);
  }

  Status finish() {
    if (writer_ != nullptr) STOKER_TRY(flush());
    return write_file(dir_ + "/index.json", bytes_of(format_mds_index(shards_)));
  }

 private:
  Status start() {
    options_.basename = fmt::format("shard.{:05}.mds", shards_.size());
    sink_.bytes.clear();
    STOKER_ASSIGN(writer_, MdsWriter::make(options_, sink_));
    return {};
  }

  Status flush() {
    STOKER_ASSIGN([[maybe_unused]] const auto sidecars, writer_->finish());
    const MdsShard& shard = writer_->shard();
    STOKER_TRY(write_file(dir_ + "/" + (shard.zip ? *shard.zip : shard.raw).basename, sink_.bytes));
    shards_.push_back(shard);
    return {};
  }

  std::string dir_;
  MdsWriter::Options options_;
  MemorySink sink_;
  std::unique_ptr<MdsWriter> writer_;
  std::vector<MdsShard> shards_;
};

Status write_mds(const std::string& dir) {
  const json dataset = json::parse(std::cin);
  MdsWriter::Options options;
  const json columns = dataset.value("columns", json::object());
  for (const auto& [name, encoding] : columns.items()) options.columns.emplace_back(name, encoding);
  options.compression = dataset.value("compression", "");
  options.hashes = dataset.value("hashes", std::vector<std::string>{});
  options.size_limit_bytes = dataset.value("size_limit", std::uint64_t{1} << 26);
  MdsDirectory directory(dir, options);
  for (const json& line : dataset.at("samples")) {
    Owned owned;
    STOKER_ASSIGN(const SampleView sample, sample_from(line, owned));
    STOKER_TRY(directory.append(sample));
  }
  return directory.finish();
}

Status run(const std::vector<std::string>& words) {
  const std::string command = words.size() < 3 ? "" : words[0] + " " + words[1];
  if (command == "write mds") return write_mds(words[2]);
  if (command == "read mds") return read_mds(words[2]);
  if (command == "read litdata") {
    return read_litdata(words[2], words.size() > 3 ? std::stoull(words[3]) : 0);
  }
  return {Code::invalid_argument,
          "usage: dataset_tool write mds DIR | read mds DIR | read litdata DIR [BLOCK]"};
}

}  // namespace
}  // namespace stoker::testing

int main(int count, char** words) {
  try {
    const stoker::Status status =
        stoker::testing::run(std::vector<std::string>(words + 1, words + count));
    if (status.ok()) return 0;
    fmt::print(stderr, "{}: {}\n", code_name(status.code()), status.message());
    return status.message().starts_with("usage:") ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "dataset_tool: {}\n", error.what());
    return 2;
  }
}
