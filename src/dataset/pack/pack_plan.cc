#include "dataset/pack/pack_plan.h"

#include <fmt/format.h>

#include <numeric>

#include "dataset/pack/pack_paths.h"
#include "dataset/shards/dataset_manifest.h"
#include "dataset/shards/shard_source.h"
#include "formats/json/strict_json.h"
#include "formats/table/shard_formats.h"
#include "io/files/publish.h"

namespace stoker {
namespace {

constexpr std::string_view kPlanName = ".stoker/pack-plan.json";
constexpr std::uint64_t kPlanVersion = 1;
/// Names have six digits, so that they sort as numbers do.
constexpr std::uint64_t kShardCountMax = 1'000'000;

/// SplitMix64: the state advances by an addition, has a full period, and is the same on every
/// machine.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// Uniform below `bound`, by rejection.
  std::uint64_t below(std::uint64_t bound) noexcept {
    const std::uint64_t unfair = (0 - bound) % bound;  // 2^64 mod bound
    for (;;)
      if (const std::uint64_t value = next(); value >= unfair) return value % bound;
  }

 private:
  std::uint64_t state_;
};

Status check(const PackPlanOptions& options) {
  STOKER_ASSIGN(const ShardFormat* const format, parse_written_format(options.format));
  if (options.shard_bytes == 0)
    return Status(Code::invalid_argument, "--shard-size must be more than 0");
  if (options.shard_bytes > format->shard_bytes_max)
    return Status(
        Code::invalid_argument,
        fmt::format("--shard-size: a shard of {} must be smaller than 4 GiB; use at most 1GiB",
                    format->name));
  if (!is_plain_file_name(options.prefix) || options.prefix.size() > 200 ||
      options.prefix.starts_with('.'))
    return Status(Code::invalid_argument, "prefix " + quote_for_message(options.prefix) +
                                              " is not valid as the start of a file name");
  return {};
}

/// Upper bound of a sample's size in a shard: a tar member has a header and padding, an MDS column
/// its length, an Example its tags.
std::uint64_t planned_bytes(const ShardFormat& format, const PackInput::Extent& extent) {
  return extent.size_bytes + (extent.field_count + 1) * format.field_overhead_bytes;
}

std::string hash_of(const PackInput& input, const PackPlanOptions& options) {
  const Digest128 list = input.fingerprint();
  const std::string text = fmt::format(
      "1 {} {} {} {} {} {} {}", options.format, options.samples_per_shard, options.shard_bytes,
      options.shuffle_seed ? fmt::format("{}", *options.shuffle_seed) : "none", options.prefix,
      list.hex(), input.sample_count());
  return xxh3_128(std::as_bytes(std::span(text))).hex();
}

}  // namespace

bool is_token_format(std::string_view format) noexcept {
  const Result<const ShardFormat*> known = parse_written_format(format);
  return known.ok() && (*known)->is_array;
}

std::string PackJob::shard_name(std::uint64_t shard) const {
  const Result<const ShardFormat*> known = parse_written_format(format);
  if (known.ok() && (*known)->shard_name != nullptr) return (*known)->shard_name(shard);
  const std::string_view ending = known.ok() ? (*known)->ending : std::string_view(format);
  return fmt::format("{}-{:06}.{}", prefix, shard, ending);
}

std::string PackJob::sidecar_name(std::uint64_t shard) const {
  return fmt::format("{}-{:06}.idx", prefix, shard);
}

std::vector<std::uint64_t> shuffled(std::uint64_t count, std::uint64_t seed) {
  std::vector<std::uint64_t> order(count);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  SplitMix random(seed);
  for (std::uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

Result<PackPlan> make_pack_plan(const PackInput& input, const PackPlanOptions& options) {
  STOKER_TRY(check(options));
  STOKER_ASSIGN(const ShardFormat* const format, parse_written_format(options.format));
  PackPlan plan;
  const std::uint64_t count = input.sample_count();
  if (options.shuffle_seed) {
    plan.order = shuffled(count, *options.shuffle_seed);
  } else {
    plan.order.resize(count);
    std::iota(plan.order.begin(), plan.order.end(), std::uint64_t{0});
  }
  plan.cuts.push_back(0);
  std::uint64_t bytes = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(const PackInput::Extent extent, input.extent(plan.order[i]));
    const std::uint64_t size = planned_bytes(*format, extent);
    const std::uint64_t in_shard = i - plan.cuts.back();
    const bool is_full = in_shard != 0 && (bytes + size > options.shard_bytes ||
                                           in_shard == options.samples_per_shard);
    if (is_full) {
      plan.cuts.push_back(i);
      bytes = 0;
    }
    bytes += size;
  }
  if (count != 0) plan.cuts.push_back(count);
  if (plan.cuts.size() > kShardCountMax)
    return Status(Code::invalid_argument,
                  fmt::format("{} shards are too many; raise --shard-size or "
                              "--samples-per-shard",
                              plan.cuts.size() - 1));
  plan.job = {.hash = hash_of(input, options),
              .format = options.format,
              .prefix = options.prefix,
              .shard_count = plan.cuts.size() - 1,
              .sample_count = count,
              .extra_files = {}};
  if (const auto dtype = input.token_dtype(); dtype && format->lacks_dtype)
    plan.job.dtype = dtype_name(*dtype);
  for (const auto& [name, text] : input.extra_files()) plan.job.extra_files.push_back(name);
  return plan;
}

Result<PackJob> read_pack_job(const PathAt& directory) {
  constexpr std::size_t kBytesMax = std::size_t{1} << 20;
  const PathAt file = directory / kPlanName;
  const std::string& path = file.text();
  STOKER_ASSIGN(const std::string text, read_own_file(file, kBytesMax));
  STOKER_ASSIGN(const Json document, parse_strict_json(text, path));
  const JsonView root(document, path);
  PackJob job;
  STOKER_ASSIGN(const JsonView version, root.at("version"));
  STOKER_TRY(version.u64(kPlanVersion).status());
  STOKER_ASSIGN(const JsonView hash, root.at("hash"));
  STOKER_ASSIGN(job.hash, hash.text());
  STOKER_ASSIGN(const JsonView format, root.at("format"));
  STOKER_ASSIGN(job.format, format.text());
  STOKER_ASSIGN(const JsonView prefix, root.at("prefix"));
  STOKER_ASSIGN(job.prefix, prefix.text());
  if (!is_plain_file_name(job.prefix)) return prefix.corrupt("cannot begin the name of a file");
  STOKER_ASSIGN(const JsonView shards, root.at("shards"));
  STOKER_ASSIGN(job.shard_count, shards.u64(kShardCountMax));
  STOKER_ASSIGN(const JsonView samples, root.at("samples"));
  STOKER_ASSIGN(job.sample_count, samples.u64());
  STOKER_ASSIGN(const JsonView files, root.at("files"));
  STOKER_ASSIGN(const std::size_t file_count, files.array_size());
  for (std::size_t i = 0; i < file_count; ++i) {
    STOKER_ASSIGN(std::string name, files.element(i).text());
    if (!is_plain_file_name(name))
      return files.corrupt("has a name that is not a file of this directory");
    job.extra_files.push_back(std::move(name));
  }
  STOKER_ASSIGN(const JsonView dtype, root.at_or_null("dtype"));
  if (!dtype.is_null()) {
    STOKER_ASSIGN(job.dtype, dtype.text());
  }
  return job;
}

void remove_pack_job(FileOps& ops, const PathAt& directory) {
  static_cast<void>(ops.unlink(directory / kPlanName));
}

Status publish_pack_job(FileOps& ops, const PathAt& directory, const PackJob& job) {
  Json files = Json::array();
  for (const std::string& name : job.extra_files) files.push_back(name);
  Json document = {{"version", kPlanVersion},   {"hash", job.hash},
                   {"format", job.format},      {"prefix", job.prefix},
                   {"shards", job.shard_count}, {"samples", job.sample_count},
                   {"files", std::move(files)}};
  if (!job.dtype.empty()) document["dtype"] = job.dtype;
  const std::string text = document.dump({.indent_spaces = 1}) + "\n";
  return publish_file(ops, directory / kPlanName, std::as_bytes(std::span(text)));
}

}  // namespace stoker
