// Token arrays: .npy, SHARD001, counted, or raw with a dtype. Each sequence becomes a sample with
// one field.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "dataset/input/input.h"
#include "formats/arrays/tokens.h"
#include "io/files/regular_file.h"
#include "store/local_store.h"

namespace stoker {
namespace {

constexpr std::string_view kTokensField = "tokens";
/// Limits of a sequence. Megatron counts its tokens in an int32.
constexpr std::uint64_t kSequenceTokensMax = (std::uint64_t{1} << 31) - 1;
constexpr std::uint64_t kSequenceBytesMax = (std::uint64_t{1} << 32) - 1;

struct TokenArray {
  std::string path;
  UniqueFd fd;
  TokenLayout layout;
  std::uint64_t first_sample = 0;
  std::uint64_t sample_count = 0;
  std::int64_t mtime_ns = 0;
};

class TokenArrayInput final : public PackInput {
 public:
  explicit TokenArrayInput(std::uint64_t sequence_length) : sequence_length_(sequence_length) {}

  Status add(TokenArray array) {
    const TokenLayout& layout = array.layout;
    if (!arrays_.empty() && layout.dtype != arrays_.front().layout.dtype)
      return Status(
          Code::invalid_argument,
          fmt::format("{}: contains {}, the first file {}; pack them separately", array.path,
                      dtype_name(layout.dtype), dtype_name(arrays_.front().layout.dtype)));
    const std::uint64_t length = sequence_length_ != 0 ? sequence_length_ : layout.sequence_length;
    if (length > kSequenceTokensMax || length > kSequenceBytesMax / layout.item_bytes())
      return Status(Code::invalid_argument,
                    fmt::format("{}: a sequence of {} tokens is too long for the formats; cut "
                                "it with --sequence-length",
                                array.path, length));
    array.first_sample = sample_count_;
    array.sample_count = sequence_length_ != 0
                             ? (layout.token_count + sequence_length_ - 1) / sequence_length_
                             : layout.sequence_count;
    sample_count_ += array.sample_count;
    arrays_.push_back(std::move(array));
    return {};
  }

  std::uint64_t sample_count() const noexcept override { return sample_count_; }
  Result<Extent> extent(std::uint64_t sample) const override {
    return Extent{.size_bytes = range_of(sample).size_bytes, .field_count = 1};
  }

  Status read(std::uint64_t sample, InputSample& out) const override {
    const TokenArray& array = array_of(sample);
    const ByteRange range = range_of(sample);
    SampleView& view = out.view;
    view.clear();
    std::vector<std::byte>& bytes = view.storage.emplace_back(range.size_bytes);
    STOKER_TRY(internal::read_input(array.fd.get(), range.offset_bytes, bytes, array.path));
    const std::uint64_t count = range.size_bytes / array.layout.item_bytes();
    const std::span<const std::byte> shape = view.keep_number(&count);
    view.key = view.keep(fmt::format("{:012}", sample));
    view.fields.push_back({.name = kTokensField,
                           .bytes = bytes,
                           .type = FieldType::array,
                           .dtype = dtype_descr(array.layout.dtype),
                           .shape = {reinterpret_cast<const std::uint64_t*>(shape.data()), 1}});
    return {};
  }

  std::string describe(std::uint64_t sample) const override {
    return fmt::format("{}: sequence {}", array_of(sample).path,
                       sample - array_of(sample).first_sample);
  }

  Digest128 fingerprint() const override {
    Xxh3Stream stream;
    for (const TokenArray& array : arrays_) {
      const std::string name = std::filesystem::path(array.path).filename();
      const std::array<std::uint64_t, 5> numbers = {
          name.size(), array.layout.token_count, static_cast<std::uint64_t>(array.mtime_ns),
          static_cast<std::uint64_t>(array.layout.dtype), array.sample_count};
      stream.update(std::as_bytes(std::span(numbers)));
      stream.update(std::as_bytes(std::span(name)));
    }
    return stream.digest();
  }

  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override {
    return std::vector<std::pair<std::string, std::string>>{
        {std::string(kTokensField),
         fmt::format("ndarray:{}", dtype_name(arrays_.front().layout.dtype))}};
  }

  std::optional<Dtype> token_dtype() const override { return arrays_.front().layout.dtype; }

 private:
  const TokenArray& array_of(std::uint64_t sample) const {
    const auto after = std::upper_bound(
        arrays_.begin(), arrays_.end(), sample,
        [](std::uint64_t wanted, const TokenArray& array) { return wanted < array.first_sample; });
    return *(after - 1);
  }

  ByteRange range_of(std::uint64_t sample) const {
    const TokenArray& array = array_of(sample);
    const TokenLayout& layout = array.layout;
    const std::uint64_t i = sample - array.first_sample;
    if (sequence_length_ == 0) return layout.sequence(i);
    const std::uint64_t first = i * sequence_length_;
    const std::uint64_t count = std::min(sequence_length_, layout.token_count - first);
    return {layout.data_offset_bytes + first * layout.item_bytes(), count * layout.item_bytes()};
  }

  std::uint64_t sequence_length_;
  std::uint64_t sample_count_ = 0;
  std::vector<TokenArray> arrays_;
};

/// The format that was named, else by the first bytes; counted arrays cannot be recognized.
Result<TokenFormat> format_of(const std::string& path, const std::string& kind) {
  if (!kind.empty() && kind != "tokens") return parse_token_format(kind);
  STOKER_ASSIGN(const std::vector<std::byte> head, internal::read_head(*local_store(), path, 8));
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (path.ends_with(".npy") || text.starts_with("\x93NUMPY")) return TokenFormat::npy;
  return text == "SHARD001" ? TokenFormat::shard001 : TokenFormat::raw;
}

Result<TokenArray> open_array(const std::string& path, const PackInputOptions& options) {
  const std::optional<Dtype> dtype = options.dtype;
  STOKER_ASSIGN(const TokenFormat format, format_of(path, options.kind));
  if (format == TokenFormat::raw && !dtype)
    return Status(Code::invalid_argument,
                  path + ": a raw array does not store its dtype; give it, as in --dtype uint16");
  TokenArray array{.path = path, .fd = {}, .layout = {}};
  STOKER_ASSIGN(array.fd, open_regular(posix_file_ops(), path));
  struct stat info{};
  if (::fstat(array.fd.get(), &info) != 0) return Status::from_errno(errno, "stat", path);
  array.mtime_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
  STOKER_ASSIGN(const std::vector<std::byte> head,
                internal::read_head(*local_store(), path, token_head_bytes_max(format)));
  Result<TokenLayout> layout =
      parse_tokens(format, head, static_cast<std::uint64_t>(info.st_size), dtype);
  if (!layout.ok()) return layout.status().with_context(path);
  array.layout = *std::move(layout);
  return array;
}

}  // namespace

namespace internal {

Result<std::unique_ptr<PackInput>> open_token_arrays(const std::string& path,
                                                     const PackInputOptions& options) {
  std::vector<std::string> paths = {path};
  if (std::filesystem::is_directory(path)) {
    paths.clear();
    STOKER_ASSIGN(const std::vector<std::string> names, posix_file_ops().list(path));
    for (const std::string& name : names)
      if (!name.starts_with('.') && is_array_name(name)) paths.push_back(path + "/" + name);
  }
  auto input = std::make_unique<TokenArrayInput>(options.sequence_length);
  for (const std::string& file : paths) {
    STOKER_ASSIGN(TokenArray array, open_array(file, options));
    STOKER_TRY(input->add(std::move(array)));
  }
  if (input->sample_count() == 0)
    return Status(Code::invalid_argument, path + ": it contains no tokens to pack (.npy, .bin)");
  return std::unique_ptr<PackInput>(std::move(input));
}

}  // namespace internal
}  // namespace stoker
