// A command line for token files, so that interop tests can put them between real peers:
//
//   tokens_tool write FORMAT DTYPE SAMPLES LENGTH OUT < data   one file, header and all
//   tokens_tool read FORMAT FILE [DTYPE]                       its layout, one JSON line
//   tokens_tool write-megatron DTYPE PREFIX [multimodal] < documents.jsonl
//   tokens_tool read-megatron PREFIX                           one JSON line, then one per document
//
// A document is {"sequences": [hex of tokens...], "modes": [...]}. Exit 0; 1 with the message on
// stderr; 2 for a wrong command line.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/hex.h"
#include "formats/arrays/tokens.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

std::string contents_of(std::istream&& in) {
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string contents_of(const std::string& path) {
  return contents_of(std::ifstream(path, std::ios::binary));
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
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

Status write_tokens(const std::vector<std::string>& words) {
  STOKER_ASSIGN(const TokenFormat format, parse_token_format(words[1]));
  STOKER_ASSIGN(const Dtype dtype, parse_dtype(words[2]));
  FileSink sink(words[5]);
  STOKER_ASSIGN(
      TokenWriter writer,
      TokenWriter::make(sink, format, dtype, {std::stoull(words[3]), std::stoull(words[4])}));
  STOKER_TRY(writer.append(bytes_of(contents_of(std::move(std::cin)))));
  return writer.finish();
}

Status read_tokens(const std::vector<std::string>& words) {
  STOKER_ASSIGN(const TokenFormat format, parse_token_format(words[1]));
  std::optional<Dtype> dtype;
  if (words.size() == 4) {
    STOKER_ASSIGN(dtype, parse_dtype(words[3]));
  }
  const std::string file = contents_of(words[2]);
  const auto head = bytes_of(file).first(
      std::min<std::size_t>(file.size(), static_cast<std::size_t>(token_head_bytes_max(format))));
  STOKER_ASSIGN(const TokenLayout layout, parse_tokens(format, head, file.size(), dtype));
  std::cout << json{{"dtype", dtype_name(layout.dtype)},
                    {"data_offset_bytes", layout.data_offset_bytes},
                    {"token_count", layout.token_count},
                    {"sequence_count", layout.sequence_count},
                    {"sequence_length", layout.sequence_length}}
                   .dump()
            << '\n';
  return {};
}

Status write_megatron(const std::vector<std::string>& words) {
  STOKER_ASSIGN(const Dtype dtype, parse_dtype(words[1]));
  FileSink bin(words[2] + ".bin");
  STOKER_ASSIGN(MegatronWriter writer,
                MegatronWriter::make(bin, {.dtype = dtype, .multimodal = words.size() == 4}));
  for (std::string line; std::getline(std::cin, line);) {
    const json document = json::parse(line);
    const json& sequences = document.at("sequences");
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const auto hex = sequences[i].get<std::string>();
      std::vector<std::byte> tokens(hex.size() / 2);
      STOKER_TRY(parse_hex(hex, tokens));
      STOKER_TRY(writer.append(
          tokens, words.size() == 4 ? document.at("modes")[i].get<std::int8_t>() : std::int8_t{0}));
    }
    STOKER_TRY(writer.end_document());
  }
  FileSink idx(words[2] + ".idx");
  return writer.finish(idx);
}

Status read_megatron(const std::vector<std::string>& words) {
  const std::string idx = contents_of(words[1] + ".idx");
  const std::string bin = contents_of(words[1] + ".bin");
  STOKER_ASSIGN(const TokenLayout layout, layout_of_megatron(bytes_of(idx), bin.size()));
  std::cout << json{{"dtype", dtype_name(layout.dtype)},
                    {"token_count", layout.token_count},
                    {"multimodal", layout.index->multimodal()}}
                   .dump()
            << '\n';
  for (std::uint64_t i = 0; i < layout.document_count(); ++i) {
    json line = {{"sequences", json::array()}, {"modes", json::array()}};
    const DocumentRange document = layout.document(i);
    for (std::uint64_t k = 0; k < document.sequence_count; ++k) {
      const ByteRange range = layout.sequence(document.first_sequence + k);
      line["sequences"].push_back(
          format_hex(bytes_of(bin).subspan(range.offset_bytes, range.size_bytes)));
      line["modes"].push_back(layout.index->mode(document.first_sequence + k));
    }
    std::cout << line.dump() << '\n';
  }
  return {};
}

Status run(std::span<char*> arguments) {
  const std::vector<std::string> words(arguments.begin(), arguments.end());
  const std::string verb = words.empty() ? "" : words[0];
  const std::size_t count = words.size();
  if (verb == "write" && count == 6) return write_tokens(words);
  if (verb == "read" && (count == 3 || count == 4)) return read_tokens(words);
  if (verb == "write-megatron" && (count == 3 || count == 4)) return write_megatron(words);
  if (verb == "read-megatron" && count == 2) return read_megatron(words);
  return Status(Code::unsupported,
                "usage: tokens_tool write | read | write-megatron | read-megatron ...");
}

}  // namespace
}  // namespace stoker::testing

int main(int count, char** words) {
  try {
    const stoker::Status status =
        stoker::testing::run(std::span(words, static_cast<std::size_t>(count)).subspan(1));
    if (status.ok()) return 0;
    std::cerr << code_name(status.code()) << ": " << status.message() << '\n';
    return status.message().starts_with("usage:") ? 2 : 1;
  } catch (const std::exception& error) {
    std::cerr << "tokens_tool: " << error.what() << '\n';
    return 2;
  }
}
