// A command line for safetensors headers, so that interop tests can put them beside the real
// package:
//
//   safetensors_tool write ALIGN OUT < tensors.jsonl    {"name", "dtype", "shape", "data": hex}
//   safetensors_tool read FILE                          one JSON line
//
// Exit 0; 1 with the message on stderr; 2 for a wrong command line.
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/hex.h"
#include "stoker/safetensors.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

Status write_file(std::size_t align_bytes, const std::string& path) {
  std::vector<SafetensorsEntry> entries;
  std::vector<std::byte> data;
  for (std::string line; std::getline(std::cin, line);) {
    const json tensor = json::parse(line);
    SafetensorsEntry& entry = entries.emplace_back();
    entry.name = tensor.at("name").get<std::string>();
    STOKER_ASSIGN(entry.type, parse_tensor_type(tensor.at("dtype").get<std::string>()));
    entry.shape = tensor.at("shape").get<std::vector<std::uint64_t>>();
    const auto hex = tensor.at("data").get<std::string>();
    std::vector<std::byte> bytes(hex.size() / 2);
    STOKER_TRY(parse_hex(hex, bytes));
    data.insert(data.end(), bytes.begin(), bytes.end());
  }
  STOKER_ASSIGN(const std::string header,
                format_safetensors(entries, {{"format", "pt"}}, align_bytes));
  std::ofstream out(path, std::ios::binary);
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  return out ? Status() : Status(Code::io_error, "cannot write " + path);
}

Status read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  STOKER_ASSIGN(const SafetensorsHeader header,
                parse_safetensors(std::as_bytes(std::span(file)), file.size()));
  json tensors = json::object();
  for (const SafetensorsEntry& entry : header.entries) {
    const std::string_view data = std::string_view(file).substr(
        header.data_offset_bytes + entry.begin_bytes, entry.end_bytes - entry.begin_bytes);
    tensors[entry.name] = {{"dtype", tensor_type_name(entry.type)},
                           {"shape", entry.shape},
                           {"data", format_hex(std::as_bytes(std::span(data)))}};
  }
  std::cout << json{{"tensors", tensors}, {"metadata", header.metadata}}.dump() << '\n';
  return {};
}

Status run(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "write") return write_file(std::stoull(words[1]), words[2]);
  if (words.size() == 2 && words[0] == "read") return read_file(words[1]);
  return {Code::unsupported, "usage: safetensors_tool write ALIGN OUT | read FILE"};
}

}  // namespace
}  // namespace stoker::testing

int main(int count, char** words) {
  try {
    const stoker::Status status =
        stoker::testing::run(std::vector<std::string>(words + 1, words + count));
    if (status.ok()) return 0;
    std::cerr << code_name(status.code()) << ": " << status.message() << '\n';
    return status.message().starts_with("usage:") ? 2 : 1;
  } catch (const std::exception& error) {
    std::cerr << "safetensors_tool: " << error.what() << '\n';
    return 2;
  }
}
