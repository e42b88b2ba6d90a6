#include "dataset/shards/field_types.h"

#include <array>
#include <charconv>
#include <cstring>
#include <set>
#include <utility>

#include "dataset/shards/dataset_manifest.h"
#include "formats/arrays/npy.h"

namespace stoker {
namespace {

constexpr std::array<std::pair<FieldType, std::string_view>, 7> kNames = {
    {{FieldType::bytes, "bytes"},
     {FieldType::text, "text"},
     {FieldType::json, "json"},
     {FieldType::int64, "int64"},
     {FieldType::float32, "float32"},
     {FieldType::float64, "float64"},
     {FieldType::array, "array"}}};

bool is_number(FieldType type) {
  return type == FieldType::int64 || type == FieldType::float32 || type == FieldType::float64;
}

/// Replaces the text of a number by the number.
template <typename T>
Status make_number(FieldView& field, FieldType type, SampleView& sample) {
  const auto* const begin = reinterpret_cast<const char*>(field.bytes.data());
  const char* const end = begin + field.bytes.size();
  T value{};
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end)
    return Status(Code::corrupt, "it is not a number, but the manifest says so");
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  field.bytes = sample.storage.emplace_back(bytes, bytes + sizeof value);
  field.type = type;
  return {};
}

/// An integer among real numbers that a double would round stays an integer.
Status make_float64(FieldView& field, SampleView& sample) {
  FieldView integer = field;
  if (make_number<std::int64_t>(integer, FieldType::int64, sample).ok()) {
    std::int64_t value = 0;
    std::memcpy(&value, integer.bytes.data(), sizeof value);
    constexpr std::int64_t kExactMax = std::int64_t{1} << 53;
    if (value > kExactMax || value < -kExactMax) {
      field = integer;
      return {};
    }
  }
  return make_number<double>(field, FieldType::float64, sample);
}

/// Replaces a NumPy file by its array.
Status make_array(FieldView& field, SampleView& sample) {
  const Result<NpyArray> array = parse_npy(field.bytes, field.bytes.size());
  if (!array.ok()) return array.status();
  const auto shape = std::as_bytes(std::span(array->shape));
  const std::vector<std::byte>& kept = sample.storage.emplace_back(shape.begin(), shape.end());
  field.bytes = field.bytes.subspan(array->data_offset_bytes);
  field.type = FieldType::array;
  field.dtype = dtype_descr(array->dtype);
  field.shape = {reinterpret_cast<const std::uint64_t*>(kept.data()), array->shape.size()};
  return {};
}

Status make_typed(FieldView& field, FieldType type, SampleView& sample) {
  switch (type) {
    case FieldType::text:
    case FieldType::json: field.type = type; return {};
    case FieldType::int64: return make_number<std::int64_t>(field, type, sample);
    case FieldType::float32: return make_number<float>(field, type, sample);
    case FieldType::float64: return make_float64(field, sample);
    case FieldType::array: return make_array(field, sample);
    case FieldType::bytes: break;
  }
  return {};
}

class TypedReader final : public ShardReader {
 public:
  TypedReader(std::unique_ptr<ShardReader> reader, FieldTypes types)
      : reader_(std::move(reader)), types_(std::move(types)) {}

  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const override {
    return reader_->scan(size_bytes);
  }

  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override {
    STOKER_TRY(reader_->split(record, record_offset_bytes, out));
    for (FieldView& field : out.fields) {
      const auto type = types_.find(field.name);
      if (type == types_.end()) continue;
      if (const Status status = make_typed(field, type->second, out); !status.ok())
        return status.with_context("field " + quote_for_message(field.name));
      field.is_implied = false;
    }
    return {};
  }

 private:
  std::unique_ptr<ShardReader> reader_;
  FieldTypes types_;
};

}  // namespace

void add_field_type(FieldTypes& types, std::string_view name, FieldType type) {
  const auto found = types.find(name);
  if (found == types.end()) {
    types.emplace(name, type);
  } else if (found->second != type) {
    found->second =
        is_number(found->second) && is_number(type) ? FieldType::float64 : FieldType::bytes;
  }
}

Json field_types_json(const FieldTypes& types) {
  Json object = Json::object();
  for (const auto& [name, type] : types)
    object[name] = kNames[static_cast<std::size_t>(type)].second;
  return object;
}

Result<FieldTypes> parse_field_types(const JsonView& types) {
  if (!types.value().is_object()) return types.corrupt("not an object of names and types");
  FieldTypes parsed;
  for (const auto& [name, value] : types.value().sorted_items()) {
    if (!value.is_string()) return types.corrupt("a type is not text");
    FieldType type = FieldType::bytes;
    for (const auto& [known, known_name] : kNames)
      if (known_name == value.get_string()) type = known;
    parsed.emplace(name, type);
  }
  return parsed;
}

FieldTypes read_field_types(ObjectStore& store, std::span<const std::string> paths) {
  std::set<std::string> directories;
  for (const std::string& path : paths) {
    const std::size_t slash = path.rfind('/');
    directories.insert(slash == std::string::npos ? "." : path.substr(0, slash));
  }
  std::optional<FieldTypes> common;
  for (const std::string& directory : directories) {
    const Result<Manifest> manifest = read_manifest(directory, store);
    if (!manifest.ok()) return {};  // none, or a file of another tool
    if (!common) common = manifest->types;
    std::erase_if(*common, [&](const auto& type) {
      const auto found = manifest->types.find(type.first);
      return found == manifest->types.end() || found->second != type.second;
    });
    if (common->empty()) return {};
  }
  return common.value_or(FieldTypes());
}

std::unique_ptr<ShardReader> make_typed_reader(std::unique_ptr<ShardReader> reader,
                                               FieldTypes types) {
  return std::make_unique<TypedReader>(std::move(reader), std::move(types));
}

}  // namespace stoker
