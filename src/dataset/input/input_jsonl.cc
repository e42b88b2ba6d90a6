// One sample per line. A first pass over the file parses every line and records its offset and the
// types of its fields; read() then reads a single line.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <map>

#include "dataset/input/input.h"
#include "formats/json/exact_json.h"
#include "formats/json/strict_json.h"
#include "io/files/regular_file.h"

namespace stoker {
namespace {

constexpr std::size_t kLineBytesMax = std::size_t{256} << 20;
constexpr std::size_t kReadBytes = std::size_t{4} << 20;

struct Line {
  std::uint64_t offset_bytes = 0;
  std::uint32_t size_bytes = 0;
  std::uint32_t field_count = 0;
  std::uint64_t number = 0;  // from 1
};

/// The type of a value as a field. `none`: null, which is not a field.
enum class Kind : std::uint8_t { none, text, int64, float64, nested };

Kind kind_of(const Json& value) {
  if (value.is_null()) return Kind::none;
  if (value.is_string()) return Kind::text;
  if (value.is_boolean()) return Kind::int64;
  if (value.is_number_float()) return Kind::float64;
  if (value.is_number_unsigned() &&
      value.get_uint64() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return Kind::nested;
  return value.is_number_integer() ? Kind::int64 : Kind::nested;
}

/// The common type of a field in all samples: integers and floats become floats, other mixtures
/// JSON.
Kind join(Kind a, Kind b) {
  if (a == b) return a;
  const bool numbers =
      (a == Kind::int64 || a == Kind::float64) && (b == Kind::int64 || b == Kind::float64);
  return numbers ? Kind::float64 : Kind::nested;
}

/// A double represents every integer up to here exactly.
constexpr std::int64_t kExactMax = std::int64_t{1} << 53;

bool is_inexact(const Json& value) {
  if (!value.is_number_integer() || kind_of(value) != Kind::int64) return false;
  const std::int64_t number = value.get_int64();
  return number > kExactMax || number < -kExactMax;
}

struct Column {
  Kind kind = Kind::none;
  std::uint64_t count = 0;
  bool has_inexact = false;  // an integer that a double cannot represent
  Kind list_kind =
      Kind::none;  // type of the numbers, if all values are lists of numbers; else nested

  void add(const Json& value) {
    const Kind added = kind_of(value);
    kind = count++ == 0 ? added : join(kind, added);
    has_inexact |= is_inexact(value);
    if (!value.is_array()) list_kind = Kind::nested;
    if (!value.is_array()) return;
    for (const Json& element : value.elements()) {
      const Kind number = kind_of(element);
      const bool is_number = number == Kind::int64 || number == Kind::float64;
      list_kind = list_kind == Kind::none && is_number ? number
                  : is_number                          ? join(list_kind, number)
                                                       : Kind::nested;
      has_inexact |= is_inexact(element);
    }
  }

  /// Call it after all values: uses JSON if a float would round an integer.
  void settle() {
    if (!has_inexact) return;
    if (kind == Kind::float64) kind = Kind::nested;
    if (list_kind == Kind::float64) list_kind = Kind::nested;
  }
};

class JsonlInput final : public PackInput {
 public:
  JsonlInput(std::string path, UniqueFd fd, const struct stat& info)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        size_bytes_(static_cast<std::uint64_t>(info.st_size)),
        mtime_ns_(info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec) {}

  /// Runs the first pass.
  Status look_through() {
    std::string line;
    std::vector<std::byte> buffer(kReadBytes);
    std::uint64_t number = 0;
    for (std::uint64_t at = 0; at < size_bytes_;) {
      const std::size_t size = std::min<std::uint64_t>(buffer.size(), size_bytes_ - at);
      const std::span<std::byte> piece = std::span(buffer).first(size);
      STOKER_TRY(internal::read_input(fd_.get(), at, piece, path_));
      std::string_view rest(reinterpret_cast<const char*>(piece.data()), size);
      while (!rest.empty()) {
        const std::size_t end = rest.find('\n');
        line.append(rest.substr(0, end));
        if (line.size() > kLineBytesMax)
          return Status(Code::unsupported, fmt::format("{}: line {} is longer than 256 MiB; split "
                                                       "it, or pack files instead",
                                                       path_, number + 1));
        at += std::min(end, rest.size() - 1) + 1;
        if (end == std::string_view::npos) break;
        STOKER_TRY(add_line(line, at - 1 - line.size(), ++number));
        line.clear();
        rest.remove_prefix(end + 1);
      }
    }
    if (!line.empty()) STOKER_TRY(add_line(line, size_bytes_ - line.size(), ++number));
    if (lines_.empty()) return Status(Code::invalid_argument, path_ + ": it has no samples");
    for (auto& [name, column] : columns_) column.settle();
    return {};
  }

  std::uint64_t sample_count() const noexcept override { return lines_.size(); }
  Result<Extent> extent(std::uint64_t sample) const override {
    return Extent{.size_bytes = lines_[sample].size_bytes,
                  .field_count = lines_[sample].field_count};
  }

  Status read(std::uint64_t sample, InputSample& out) const override {
    const Line& line = lines_[sample];
    std::string text(line.size_bytes, '\0');
    STOKER_TRY(internal::read_input(fd_.get(), line.offset_bytes,
                                    std::as_writable_bytes(std::span(text)), path_));
    STOKER_ASSIGN(const Json document, parse(text, line.number));
    SampleView& view = out.view;
    view.clear();
    view.key = view.keep(fmt::format("{:09}", line.number - 1));
    for (const auto& [name, value] : document.sorted_items()) {
      if (name == kKeyField) {
        view.key = view.keep(value.get_string());
        continue;
      }
      const auto column = columns_.find(name);
      if (column == columns_.end() || value.is_null()) continue;
      add_field(view, column->first, column->second, value);
    }
    return {};
  }

  std::string describe(std::uint64_t sample) const override {
    return fmt::format("{}: line {}", path_, lines_[sample].number);
  }

  Digest128 fingerprint() const override {
    const std::array<std::uint64_t, 3> numbers = {
        size_bytes_, static_cast<std::uint64_t>(mtime_ns_), lines_.size()};
    return xxh3_128(std::as_bytes(std::span(numbers)));
  }

  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override {
    constexpr std::array<const char*, 5> kEncodings = {"", "str", "int", "float64", "json"};
    std::vector<std::pair<std::string, std::string>> columns;
    for (const auto& [name, column] : columns_) {
      if (column.kind == Kind::none) continue;
      if (column.count != lines_.size())
        return Status(Code::invalid_argument,
                      fmt::format("{}: the field {} is missing or null in {} of {} lines, and MDS "
                                  "needs every column in every sample; add it, or pack as tar",
                                  path_, quote_for_message(name), lines_.size() - column.count,
                                  lines_.size()));
      columns.emplace_back(name, kEncodings[static_cast<std::size_t>(column.kind)]);
    }
    return columns;
  }

 private:
  Result<Json> parse(std::string_view text, std::uint64_t number) const {
    const std::string what = fmt::format("{}: line {}", path_, number);
    Result<Json> parsed = parse_exact_json(text, what, {.text_bytes_max = kLineBytesMax});
    if (!parsed.ok()) return advise(parsed.status(), text);
    Json document = *std::move(parsed);
    if (!document.is_object())
      return Status(Code::corrupt, what + ": not a JSON object; each line must be one");
    return document;
  }

  /// Adds what to do about what Python's json writes, but JSON does not have.
  static Status advise(const Status& status, std::string_view line) {
    std::string_view advice;
    if (status.message().find("surrogate") != std::string_view::npos) {
      advice = "; replace it where the file is written, for example by U+FFFD";
    } else if (status.message().ends_with("not valid JSON") &&
               (line.find("NaN") != std::string_view::npos ||
                line.find("Infinity") != std::string_view::npos)) {
      advice = " (JSON has no NaN and no Infinity); write null, or the number as text, in quotes";
    }
    return {status.code(), std::string(status.message()).append(advice)};
  }

  Status add_line(std::string_view text, std::uint64_t offset_bytes, std::uint64_t number) {
    if (text.ends_with('\r')) text.remove_suffix(1);
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (number == 1 && text.starts_with(kByteOrderMark)) {
      text.remove_prefix(kByteOrderMark.size());
      offset_bytes += kByteOrderMark.size();
    }
    if (text.find_first_not_of(" \t") == std::string_view::npos) return {};
    STOKER_ASSIGN(const Json document, parse(text, number));
    Line line{.offset_bytes = offset_bytes,
              .size_bytes = static_cast<std::uint32_t>(text.size()),
              .number = number};
    for (const auto& [name, value] : document.sorted_items()) {
      if (name == kKeyField) {
        if (!value.is_string())
          return Status(Code::corrupt,
                        fmt::format("{}: line {}: __key__ is not text", path_, number));
        continue;
      }
      const Kind kind = kind_of(value);
      Column& column = columns_[name];
      if (kind == Kind::none) continue;
      column.add(value);
      ++line.field_count;
    }
    if (line.field_count == 0)
      return Status(Code::invalid_argument,
                    fmt::format("{}: line {} has no fields to pack", path_, number));
    lines_.push_back(line);
    return {};
  }

  static void add_field(SampleView& view, std::string_view name, const Column& column,
                        const Json& value) {
    const Kind kind = column.kind;
    if (kind == Kind::int64) {
      const std::int64_t number = value.is_boolean() ? value.get_bool() : value.get_int64();
      view.fields.push_back(
          {.name = name, .bytes = view.keep_number(&number), .type = FieldType::int64});
    } else if (kind == Kind::float64) {
      const double number = value.is_boolean() ? value.get_bool() : value.get_double();
      // The dtype marks an integer among real numbers, so that no format rounds it.
      view.fields.push_back(
          {.name = name,
           .bytes = view.keep_number(&number),
           .type = FieldType::float64,
           .dtype = value.is_number_integer() ? dtype_descr(Dtype::int64) : std::string_view()});
    } else {
      const std::string text = kind == Kind::text ? value.get_string() : value.dump();
      const std::string_view kept = view.keep(text);
      view.fields.push_back({.name = name,
                             .bytes = std::as_bytes(std::span(kept)),
                             .type = kind == Kind::text ? FieldType::text : FieldType::json,
                             .dtype = list_dtype(column.list_kind)});
    }
  }

  static std::string_view list_dtype(Kind kind) {
    if (kind == Kind::int64) return dtype_descr(Dtype::int64);
    return kind == Kind::float64 ? dtype_descr(Dtype::float64) : std::string_view();
  }

  std::string path_;
  UniqueFd fd_;
  std::uint64_t size_bytes_;
  std::int64_t mtime_ns_;
  std::vector<Line> lines_;
  std::map<std::string, Column, std::less<>> columns_;
};

}  // namespace

namespace internal {

Result<std::unique_ptr<PackInput>> open_jsonl(const std::string& path) {
  STOKER_ASSIGN(UniqueFd fd, open_regular(posix_file_ops(), path));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(errno, "stat", path);
  auto input = std::make_unique<JsonlInput>(path, std::move(fd), info);
  STOKER_TRY(input->look_through());
  return std::unique_ptr<PackInput>(std::move(input));
}

}  // namespace internal
}  // namespace stoker
