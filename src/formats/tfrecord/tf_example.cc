#include "formats/tfrecord/tf_example.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "formats/utf8.h"

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little);  // float lists are views

constexpr std::uint32_t kBytesList = 1;
constexpr std::uint32_t kFloatList = 2;
constexpr std::uint32_t kInt64List = 3;

Status corrupt(std::uint64_t offset_bytes, const std::string& what) {
  return Status(Code::corrupt, "offset " + std::to_string(offset_bytes) + ": " + what);
}

Status need(const WireField& field, WireType type, const char* what) {
  if (field.type == type) return {};
  return corrupt(field.offset_bytes, std::string(what) + " has wire type " +
                                         std::to_string(static_cast<int>(field.type)) +
                                         ": not an Example");
}

/// A value that may be split into parts, which are concatenated. A single part stays a view.
class Joined {
 public:
  explicit Joined(SampleView& out) : out_(&out) {}

  void add(std::span<const std::byte> part, std::uint64_t offset_bytes) {
    if (count_++ == 0) {
      bytes_ = part;
      offset_bytes_ = offset_bytes;
      return;
    }
    if (owned_ == nullptr) owned_ = &out_->storage.emplace_back(bytes_.begin(), bytes_.end());
    owned_->insert(owned_->end(), part.begin(), part.end());
    bytes_ = *owned_;
  }
  void clear() { *this = Joined(*out_); }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint64_t offset_bytes() const { return offset_bytes_; }

 private:
  SampleView* out_;
  std::vector<std::byte>* owned_ = nullptr;  // in out_->storage, a deque: it does not move
  std::span<const std::byte> bytes_;
  std::uint64_t offset_bytes_ = 0;
  std::size_t count_ = 0;
};

/// An entry of the map, whose Feature is not parsed yet.
struct Entry {
  std::string_view name;
  std::span<const std::byte> feature;
  std::uint64_t offset_bytes = 0;
  std::size_t order = 0;  // position among the entries
};

std::span<const std::uint64_t> stored_shape(std::uint64_t count, SampleView& out) {
  std::vector<std::byte>& bytes = out.storage.emplace_back(sizeof count);
  std::memcpy(bytes.data(), &count, sizeof count);
  // operator new aligns for any scalar.
  return {reinterpret_cast<const std::uint64_t*>(bytes.data()), 1};
}

Status add_bytes_list(std::string_view name, const Joined& list, SampleView& out) {
  BytesListReader reader(list.bytes(), list.offset_bytes());
  std::uint64_t count = 0;
  std::span<const std::byte> value;
  for (std::span<const std::byte> next;; ++count) {
    STOKER_ASSIGN(const bool more, reader.next(next));
    if (!more) break;
    value = next;
  }
  if (count == 1) {
    out.fields.push_back({.name = name, .bytes = value});
    return {};
  }
  std::span<const std::byte> bytes = list.bytes();
  if (reader.skipped()) {  // the field contains values only
    std::vector<std::byte>& clean = out.storage.emplace_back();
    BytesListReader again(list.bytes(), list.offset_bytes());
    for (;;) {
      STOKER_ASSIGN(const bool more, again.next(value));
      if (!more) break;
      put_delimited(clean, 1, value);
    }
    bytes = clean;
  }
  out.fields.push_back({.name = name,
                        .bytes = bytes,
                        .type = FieldType::array,
                        .dtype = kBytesListDtype,
                        .shape = stored_shape(count, out)});
  return {};
}

/// Returns the shape of a list of numbers: {1} marks one number as a list; longer lists have none,
/// because their size says how many there are.
std::span<const std::uint64_t> list_shape(std::size_t count) {
  static constexpr std::uint64_t kOne = 1;
  return count == 1 ? std::span(&kOne, 1) : std::span<const std::uint64_t>();
}

Status add_float_list(std::string_view name, const Joined& list, SampleView& out) {
  Joined values(out);
  WireField field;
  for (WireReader reader(list.bytes(), list.offset_bytes()); !reader.done();) {
    STOKER_TRY(reader.next(field));
    if (field.number != 1) continue;
    if (field.type != WireType::fixed32) STOKER_TRY(need(field, WireType::delimited, "a float"));
    if (field.bytes.size() % sizeof(float) != 0)
      return corrupt(field.offset_bytes, "packed floats of " + std::to_string(field.bytes.size()) +
                                             " bytes, which 4 does not divide");
    values.add(field.bytes, field.value_offset_bytes);
  }
  const std::span<const std::byte> bytes = values.bytes();
  out.fields.push_back({.name = name,
                        .bytes = bytes,
                        .type = FieldType::float32,
                        .shape = list_shape(bytes.size() / sizeof(float))});
  return {};
}

Status unpack_int64(const WireField& field, std::vector<std::byte>& values) {
  // A varint ends with its only byte below 0x80, so the number of varints is known before decoding.
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(field.bytes, [](std::byte byte) { return byte < std::byte{0x80}; }));
  std::size_t at = values.size();
  values.resize(at + count * sizeof(std::uint64_t));
  WireReader reader(field.bytes, field.value_offset_bytes);
  while (!reader.done()) {
    std::uint64_t value = 0;
    STOKER_TRY(reader.next_varint(value));
    std::memcpy(values.data() + at, &value, sizeof value);
    at += sizeof value;
  }
  return {};
}

Status add_int64_list(std::string_view name, const Joined& list, SampleView& out) {
  std::vector<std::byte>& values = out.storage.emplace_back();
  WireField field;
  for (WireReader reader(list.bytes(), list.offset_bytes()); !reader.done();) {
    STOKER_TRY(reader.next(field));
    if (field.number != 1) continue;
    if (field.type == WireType::varint) {
      const auto value = std::as_bytes(std::span(&field.varint, 1));
      values.insert(values.end(), value.begin(), value.end());
    } else {
      STOKER_TRY(need(field, WireType::delimited, "an integer"));
      STOKER_TRY(unpack_int64(field, values));
    }
  }
  out.fields.push_back({.name = name,
                        .bytes = values,
                        .type = FieldType::int64,
                        .shape = list_shape(values.size() / sizeof(std::int64_t))});
  return {};
}

Status add_feature(const Entry& entry, SampleView& out) {
  std::uint32_t kind = 0;  // of the oneof: the last kind wins, parts of the same kind are merged
  Joined list(out);
  WireField field;
  for (WireReader reader(entry.feature, entry.offset_bytes); !reader.done();) {
    STOKER_TRY(reader.next(field));
    if (field.number > kInt64List) continue;
    STOKER_TRY(need(field, WireType::delimited, "a feature's list"));
    if (field.number != kind) list.clear();
    kind = field.number;
    list.add(field.bytes, field.value_offset_bytes);
  }
  switch (kind) {
    case kBytesList: return add_bytes_list(entry.name, list, out);
    case kFloatList: return add_float_list(entry.name, list, out);
    case kInt64List: return add_int64_list(entry.name, list, out);
    default: return {};
  }
}

Status read_entry(const WireField& map_field, std::vector<Entry>& entries, SampleView& out) {
  if (entries.size() == kExampleFeaturesMax)
    return Status(Code::unsupported, "offset " + std::to_string(map_field.offset_bytes) +
                                         ": more than " + std::to_string(kExampleFeaturesMax) +
                                         " features in one Example");
  Entry entry;
  entry.order = entries.size();
  entry.offset_bytes = map_field.value_offset_bytes;
  Joined feature(out);
  WireField field;
  for (WireReader reader(map_field.bytes, map_field.value_offset_bytes); !reader.done();) {
    STOKER_TRY(reader.next(field));
    if (field.number > 2) continue;
    STOKER_TRY(need(field, WireType::delimited, "a feature's entry"));
    if (field.number == 2) {
      feature.add(field.bytes, field.value_offset_bytes);
      continue;
    }
    if (!is_utf8(field.bytes)) return corrupt(field.offset_bytes, "a feature's name is not UTF-8");
    entry.name = {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
  }
  entry.feature = feature.bytes();
  if (!entry.feature.empty()) entry.offset_bytes = feature.offset_bytes();
  entries.push_back(entry);
  return {};
}

/// Sorts by name and keeps the last of equal names.
void keep_last_of_each(std::vector<Entry>& entries) {
  // Later entries first, because `unique` keeps the first of each group.
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    const auto names = a.name <=> b.name;
    return names != 0 ? names < 0 : a.order > b.order;
  });
  const auto rest = std::ranges::unique(entries, {}, &Entry::name);
  entries.erase(rest.begin(), rest.end());
}

}  // namespace

Result<bool> BytesListReader::next(std::span<const std::byte>& value) {
  WireField field;
  while (!wire_.done()) {
    STOKER_TRY(wire_.next(field));
    if (field.number == 1) {
      STOKER_TRY(need(field, WireType::delimited, "a bytes value"));
      value = field.bytes;
      return true;
    }
    skipped_ = true;
  }
  return false;
}

Status split_example(std::span<const std::byte> example, std::uint64_t offset_bytes,
                     SampleView& out) {
  std::vector<Entry> entries;
  WireField field;
  WireField map_field;
  for (WireReader reader(example, offset_bytes); !reader.done();) {
    STOKER_TRY(reader.next(field));
    if (field.number == 2 && field.type == WireType::delimited)
      return Status(Code::unsupported, "offset " + std::to_string(field.offset_bytes) +
                                           ": a SequenceExample, of which only the context would "
                                           "be read; read the records raw");
    if (field.number != 1) continue;
    STOKER_TRY(need(field, WireType::delimited, "Example.features"));
    for (WireReader features(field.bytes, field.value_offset_bytes); !features.done();) {
      STOKER_TRY(features.next(map_field));
      if (map_field.number != 1) continue;
      STOKER_TRY(need(map_field, WireType::delimited, "Features.feature"));
      STOKER_TRY(read_entry(map_field, entries, out));
    }
  }
  keep_last_of_each(entries);
  for (const Entry& entry : entries) STOKER_TRY(add_feature(entry, out));
  return {};
}

}  // namespace stoker
