/// \file
/// What tests of shard formats share: samples that own their bytes, sinks in memory, a scan.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "formats/shard_format.h"

namespace stoker::testing {

/// A field, and a sample, that own what a SampleView looks at.
struct OwnedField {
  std::string name;
  std::string bytes;
  FieldType type = FieldType::bytes;
  std::string dtype = {};
  std::vector<std::uint64_t> shape = {};
};
struct OwnedSample {
  std::string key;
  std::vector<OwnedField> fields;

  SampleView view() const {
    SampleView sample;
    sample.key = key;
    for (const OwnedField& field : fields)
      sample.fields.push_back({field.name, std::as_bytes(std::span(field.bytes)), field.type,
                               field.dtype, field.shape});
    return sample;
  }
};

inline std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// Takes all bytes, or fails from the call `fail_at` on.
class MemorySink : public ByteSink {
 public:
  explicit MemorySink(std::size_t fail_at = SIZE_MAX) : fail_at_(fail_at) {}

  Status write(std::span<const std::byte> piece) override {
    if (calls_++ >= fail_at_) return Status(Code::no_space, "the sink is full");
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::size_t calls() const { return calls_; }
  std::vector<std::byte> bytes;

 private:
  std::size_t fail_at_;
  std::size_t calls_ = 0;
};

struct FoundRecord {
  ByteRange range;
  std::string key;
  bool operator==(const FoundRecord&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const FoundRecord& record) {
  return out << record.key << '@' << record.range.offset_bytes << '+' << record.range.size_bytes;
}

class RecordList : public RecordSink {
 public:
  Status add(ByteRange range, std::string_view key) override {
    records.push_back({range, std::string(key)});
    return {};
  }
  std::vector<FoundRecord> records;
};

/// Scans a shard, feeding `read_ahead()` bytes more than wanted each time, or as many as there are.
/// Fails the test if the scanner leaves the shard, stands still or goes back.
inline Status scan_shard(const ShardReader& reader, std::span<const std::byte> shard,
                         const std::function<std::size_t()>& read_ahead, RecordSink& sink) {
  STOKER_ASSIGN(const std::unique_ptr<ShardScanner> scanner, reader.scan(shard.size()));
  ByteRange before;
  for (ByteRange want; (want = scanner->wants()).size_bytes > 0;) {
    const bool inside =
        want.offset_bytes <= shard.size() && want.size_bytes <= shard.size() - want.offset_bytes;
    const bool onward =
        want.offset_bytes > before.offset_bytes ||
        (want.offset_bytes == before.offset_bytes && want.size_bytes > before.size_bytes);
    EXPECT_TRUE(inside) << "it wants bytes beyond the shard";
    EXPECT_TRUE(onward) << "it went back, or wants the same again";
    if (!inside || !onward) return Status(Code::invalid_argument, "bad wants()");
    before = want;
    const std::uint64_t left_bytes = shard.size() - want.offset_bytes;
    const std::uint64_t ahead_bytes =
        std::min<std::uint64_t>(read_ahead(), left_bytes - want.size_bytes);
    // A copy of exactly that size, so that a sanitizer sees a read beyond it.
    const auto fed = shard.subspan(want.offset_bytes, want.size_bytes + ahead_bytes);
    const std::vector<std::byte> copy(fed.begin(), fed.end());
    if (Status status = scanner->feed(copy, sink); !status.ok()) {
      EXPECT_EQ(scanner->wants().size_bytes, 0U) << "a failed scanner is finished";
      return status;
    }
  }
  return {};
}

/// The fields of `sample` by name, for comparison without regard to order.
inline std::map<std::string, std::string> fields_of(const SampleView& sample) {
  std::map<std::string, std::string> fields;
  for (const FieldView& field : sample.fields)
    fields.emplace(field.name, std::string(reinterpret_cast<const char*>(field.bytes.data()),
                                           field.bytes.size()));
  return fields;
}

}  // namespace stoker::testing
