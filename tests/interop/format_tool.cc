// A command line for the formats, so that interop tests can put them between real peers:
//
//   format_tool write FORMAT OUT < samples.jsonl   one shard, and its sidecars as OUT + suffix
//   format_tool read FORMAT SHARD                  one JSON line per sample
//   format_tool members [--missing-end] < archives tar members of many archives, a line for each
//   format_tool names < names.jsonl                webdataset's split of many names, a line for
//   each
//
// A sample is {"key": text, "fields": {name: base64}, "types": {name: {"type", "dtype", "shape"}}};
// "types" has only what is not plain bytes. "archives" is a sequence of u32 little-endian length
// and that many bytes. Exit 0; 1 with the message on stderr; 2 for a wrong command line.
#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/hex.h"
#include "formats/webdataset/tar_walker.h"
#include "formats/webdataset/webdataset_names.h"
#include "interop/formats_table.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 7> kTypeNames = {"bytes",   "text",    "json", "int64",
                                                        "float32", "float64", "array"};

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string to_base64(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? std::to_integer<unsigned>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63];
  }
  return text;
}

std::string from_base64(std::string_view text) {
  std::string bytes;
  unsigned group = 0;
  int bits = 0;
  for (const char c : text) {
    unsigned digit = 0;
    if (c >= 'A' && c <= 'Z') {
      digit = static_cast<unsigned>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      digit = static_cast<unsigned>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      digit = c == '+' ? 62 : 63;
    } else {
      break;
    }
    group = (group << 6 | digit) & 0xffffff;
    bits += 6;
    if (bits >= 8) bytes += static_cast<char>(group >> (bits -= 8) & 0xff);
  }
  return bytes;
}

/// What the views of the samples to write look into.
struct Owned {
  std::deque<std::string> texts;
  std::deque<std::vector<std::uint64_t>> shapes;
};

SampleView sample_from(const json& line, Owned& owned) {
  SampleView sample;
  sample.key = owned.texts.emplace_back(line.value("key", ""));
  const json types = line.value("types", json::object());
  for (const auto& [name, value] : line.at("fields").items()) {
    FieldView field;
    field.name = owned.texts.emplace_back(name);
    field.bytes = bytes_of(owned.texts.emplace_back(from_base64(value.get<std::string>())));
    if (types.contains(name)) {
      const json& type = types.at(name);
      for (std::size_t i = 0; i < kTypeNames.size(); ++i)
        if (type.value("type", "bytes") == kTypeNames[i]) field.type = static_cast<FieldType>(i);
      field.dtype = owned.texts.emplace_back(type.value("dtype", ""));
      field.shape = owned.shapes.emplace_back(type.value("shape", std::vector<std::uint64_t>{}));
    }
    sample.fields.push_back(field);
  }
  return sample;
}

json json_from(const SampleView& sample) {
  json line = {{"key", sample.key}, {"fields", json::object()}, {"types", json::object()}};
  for (const FieldView& field : sample.fields) {
    const std::string name(field.name);
    line["fields"][name] = to_base64(field.bytes);
    if (field.type == FieldType::bytes) continue;
    json& type = line["types"][name];
    type["type"] = kTypeNames[static_cast<std::size_t>(field.type)];
    if (field.type != FieldType::array) continue;
    type["dtype"] = field.dtype;
    type["shape"] = std::vector<std::uint64_t>(field.shape.begin(), field.shape.end());
  }
  return line;
}

void print(const json& line) {
  // A key that is no UTF-8 is shown with replacement characters; "members" prints names in hex.
  std::cout << line.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
}

class FileSink : public ByteSink {
 public:
  explicit FileSink(const std::string& path) : path_(path), out_(path, std::ios::binary) {}
  Status write(std::span<const std::byte> bytes) override {
    out_.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return out_ ? Status() : Status(Code::io_error, "cannot write " + path_);
  }

 private:
  std::string path_;
  std::ofstream out_;
};

Status write_shard(const FormatRow& format, const std::string& path) {
  Owned owned;
  std::vector<SampleView> samples;
  for (std::string line; std::getline(std::cin, line);)
    if (!line.empty()) samples.push_back(sample_from(json::parse(line), owned));
  FileSink sink(path);
  STOKER_ASSIGN(std::unique_ptr<ShardWriter> writer, format.make_writer(sink, samples));
  for (const SampleView& sample : samples) STOKER_TRY(writer->append(sample));
  STOKER_ASSIGN(const std::vector<ShardWriter::Sidecar> sidecars, writer->finish());
  for (const ShardWriter::Sidecar& sidecar : sidecars)
    STOKER_TRY(FileSink(path + sidecar.suffix).write(sidecar.bytes));
  return {};
}

class CollectRecords : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view) override {
    records.push_back(record);
    return {};
  }
  std::vector<ByteRange> records;
};

Status read_shard(const FormatRow& format, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::not_found, "cannot open " + path);
  const std::string shard{std::istreambuf_iterator<char>(in), {}};
  const std::span<const std::byte> bytes = bytes_of(shard);
  STOKER_ASSIGN(const std::unique_ptr<ShardReader> reader, format.make_reader(path));
  STOKER_ASSIGN(const std::unique_ptr<ShardScanner> scanner, reader->scan(bytes.size()));
  CollectRecords found;
  for (ByteRange want; (want = scanner->wants()).size_bytes > 0;)
    STOKER_TRY(scanner->feed(bytes.subspan(want.offset_bytes, want.size_bytes), found));
  SampleView sample;
  for (const ByteRange& record : found.records) {
    STOKER_TRY(reader->split(bytes.subspan(record.offset_bytes, record.size_bytes),
                             record.offset_bytes, sample));
    print(json_from(sample));
  }
  return {};
}

class CollectMembers : public TarEntrySink {
 public:
  Status add(const TarEntry& entry) override {
    if (entry.kind == TarEntry::Kind::regular)
      members.push_back(
          {format_hex(bytes_of(entry.name)), entry.data.offset_bytes, entry.data.size_bytes});
    return {};
  }
  json members = json::array();
};

void list_members(std::span<const std::byte> archive, bool missing_end) {
  CollectMembers found;
  TarWalker walker({.size_bytes = archive.size(), .require_end = !missing_end});
  Status status;
  for (ByteRange want; status.ok() && (want = walker.wants()).size_bytes > 0;)
    status = walker.feed(archive.subspan(want.offset_bytes, want.size_bytes), found);
  if (status.ok()) return print({{"members", found.members}});
  print({{"error", code_name(status.code())}, {"message", status.message()}});
}

Status list_all_members(bool missing_end) {
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  std::span<const std::byte> rest = bytes_of(input);
  while (rest.size() >= 4) {
    std::uint32_t size = 0;
    std::memcpy(&size, rest.data(), sizeof(size));
    if (size > rest.size() - 4) return Status(Code::invalid_argument, "archives end too early");
    list_members(rest.subspan(4, size), missing_end);
    rest = rest.subspan(4 + size);
  }
  return {};
}

Status split_all_names() {
  for (std::string line; std::getline(std::cin, line);) {
    const std::string name = json::parse(line).get<std::string>();
    const std::optional<MemberName> split = split_member_name(name);
    if (!split || is_metadata_name(name)) {
      print(nullptr);
    } else {
      print({split->key, split->extension});
    }
  }
  return {};
}

Status run(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin(), arguments.end());
  if (words == std::vector<std::string>{"names"}) return split_all_names();
  if (!words.empty() && words[0] == "members")
    return list_all_members(words.size() == 2 && words[1] == "--missing-end");
  if (words.size() == 3)
    for (const FormatRow& format : kFormatsTable) {
      if (words[1] != format.name) continue;
      if (words[0] == "write") return write_shard(format, words[2]);
      if (words[0] == "read") return read_shard(format, words[2]);
    }
  return Status(Code::unsupported,
                "usage: format_tool write FORMAT OUT | read FORMAT SHARD | members | names");
}

}  // namespace
}  // namespace stoker::testing

int main(int count, char** words) {
  try {
    const stoker::Status status =
        stoker::testing::run(std::span(words, static_cast<std::size_t>(count)).subspan(1));
    if (status.ok()) return 0;
    fmt::print(stderr, "{}: {}\n", code_name(status.code()), status.message());
    return status.message().starts_with("usage:") ? 2 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "format_tool: {}\n", error.what());
    return 2;
  }
}
