#include "fuzz/manifest_mutator.h"

#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "checkpoint/manifest/sealed_json.h"
#include "fuzz/json_text_mutator.h"

namespace stoker {
namespace {

using json = nlohmann::ordered_json;

constexpr std::array<std::uint64_t, 14> kNumbers = {
    0,          1,          2,          10,         4095,       4096,
    0x7fffffff, 0xffffffff, 1ULL << 32, 1ULL << 53, 1ULL << 62, (1ULL << 63) - 1,
    1ULL << 63, ~0ULL};
constexpr std::array<const char*, 50> kTexts = {"",         ".",
                                                "..",       "/",
                                                "../x",     "manifest.json",
                                                "latest",   "rank-00000.safetensors",
                                                "a\nb",     "state",
                                                "model",    "optimizer",
                                                "!tensor",  "!torch",
                                                "!array",   "!scalar",
                                                "!slice",   "!tuple",
                                                "!dict",    "!float",
                                                "!int",     "!bytes",
                                                "!complex", "!counter",
                                                "!set",     "!enum",
                                                "F64",      "F32",
                                                "F16",      "BF16",
                                                "I64",      "I32",
                                                "I8",       "U8",
                                                "BOOL",     "F8_E4M3",
                                                "F4",       "F6_E2M3",
                                                "C64",      "<c16",
                                                "<M8[ns]",  "<m8[s]",
                                                "<U4",      "|S3",
                                                "|V16",     ">f8",
                                                "<i8",      "xxh3_128",
                                                "places",   "duplicates"};
/// Types and their sizes in bits.
constexpr std::array<std::pair<const char*, std::uint64_t>, 8> kTypes = {{{"F64", 64},
                                                                          {"F32", 32},
                                                                          {"BF16", 16},
                                                                          {"I64", 64},
                                                                          {"U8", 8},
                                                                          {"BOOL", 8},
                                                                          {"F4", 4},
                                                                          {"F8_E5M2", 8}}};

class Mutator {
 public:
  Mutator(json& root, std::uint32_t seed) : root_(root), random_(seed) {}

  void change() {
    collect(root_);
    const std::size_t kind = below(16);
    if (kind < 3 && change_tensor()) return;
    json& node = *nodes_[below(nodes_.size())];
    if (kind < 5) {
      node = json(*nodes_[below(nodes_.size())]);  // for example another reference
    } else if (kind < 8 && node.is_structured()) {
      change_members(node);
    } else if (kind == 8) {
      put_deeper(node);
    } else {
      change_value(node);
    }
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }

  void collect(json& node) {
    nodes_.push_back(&node);
    if (node.is_structured())
      for (json& item : node) collect(item);
  }

  void change_value(json& node) {
    if (node.is_number() && below(4) != 0) {
      const std::uint64_t number = kNumbers[below(kNumbers.size())];
      const std::uint64_t old = node.is_number_unsigned() ? node.get<std::uint64_t>() : 0;
      switch (below(6)) {
        case 0: node = old + 1; break;
        case 1: node = old - 1; break;
        case 2: node = old * 2; break;
        case 3: node = -1; break;
        default: node = number; break;
      }
      return;
    }
    if (node.is_string() && below(4) != 0) {
      node = below(3) == 0 ? node.get<std::string>() + "x" : kTexts[below(kTexts.size())];
      return;
    }
    switch (below(8)) {
      case 0: node = nullptr; break;
      case 1: node = true; break;
      case 2: node = json::array(); break;
      case 3: node = json::object(); break;
      case 4: node = 1.5; break;
      case 5: node = 1e308; break;
      case 6: node = kNumbers[below(kNumbers.size())]; break;
      default: node = kTexts[below(kTexts.size())]; break;
    }
  }

  void change_members(json& node) {
    if (node.empty()) return;
    const std::size_t at = below(node.size());
    if (node.is_array()) {
      const json copy = node[at];
      if (below(2) == 0)
        node.erase(at);
      else if (node.size() < 64)
        node.push_back(copy);
      return;
    }
    auto member = node.begin();
    std::advance(member, static_cast<std::ptrdiff_t>(at));
    const json value = member.value();
    if (below(2) == 0) node.erase(member);
    if (below(2) == 0) node[kTexts[below(kTexts.size())]] = value;
  }

  void put_deeper(json& node) {
    const std::size_t depth = below(4) == 0 ? 70 : 1 + below(3);
    for (std::size_t i = 0; i < depth; ++i) {
      json outer = below(2) == 0 ? json::array() : json::object();
      if (outer.is_array())
        outer.push_back(std::move(node));
      else
        outer[kTexts[below(kTexts.size())]] = std::move(node);
      node = std::move(outer);
    }
  }

  /// Gives a tensor another type, shape and range that agree with each other. Returns false if
  /// there is no tensor.
  bool change_tensor() {
    if (!root_.is_object() || !root_.contains("tensors") || !root_["tensors"].is_array() ||
        root_["tensors"].empty())
      return false;
    json& tensor = root_["tensors"][below(root_["tensors"].size())];
    if (!tensor.is_object()) return false;
    const auto [name, bits] = kTypes[below(kTypes.size())];
    std::uint64_t count = 1;
    json shape = json::array();
    for (std::size_t i = below(4); i > 0; --i) {
      const std::uint64_t length = below(8) == 0 ? 0 : 1 + below(9);
      shape.push_back(length);
      count *= length;
    }
    const std::uint64_t begin = 10 + below(4200);
    tensor["dtype"] = name;
    tensor["begin_bytes"] = begin;
    tensor["end_bytes"] = begin + count * bits / 8;
    tensor.erase("global_shape");
    tensor.erase("offsets");
    if (below(3) == 0 && !shape.empty()) {
      json offsets = json::array();
      json whole = json::array();
      for (const json& length : shape) {
        offsets.push_back(below(3));
        whole.push_back(length.get<std::uint64_t>() + 2);
      }
      tensor["global_shape"] = whole;
      tensor["offsets"] = offsets;
    }
    tensor["shape"] = std::move(shape);
    return true;
  }

  json& root_;
  std::minstd_rand random_;
  std::vector<json*> nodes_;
};

}  // namespace

std::string mutate_manifest(std::string_view text, std::uint32_t seed) {
  json root = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded()) return "";
  if (root.is_object()) root.erase("xxh3_128");
  Mutator(root, seed).change();
  return root.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::size_t mutate_manifest_input(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                  unsigned seed, unsigned of_tree) {
  constexpr unsigned kSeeds = 16;
  if (seed % kSeeds >= of_tree) return mutate_json_input(data, size, max_size, seed / kSeeds, 4);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return replace_input(data, size, max_size, mutate_manifest(text, seed / kSeeds));
}

std::string seal_again(std::string_view text) {
  const std::size_t seal = text.rfind("\"xxh3_128\": ");
  if (seal != std::string_view::npos) return seal_json(std::string(text.substr(0, seal)));
  const std::string_view inside = text.substr(0, text.rfind('}'));
  const bool is_empty = inside.find_first_not_of(" \n\t\r{") == std::string_view::npos;
  return seal_json(std::string(inside) + (is_empty ? "\n" : ",\n"));
}

}  // namespace stoker
