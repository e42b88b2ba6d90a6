#include "stoker/dataset.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "api/border.h"
#include "api/inside.h"
#include "base/for_each_position.h"
#include "dataset/key_search.h"
#include "dataset/order/sample_split.h"
#include "dataset/shards/sample_key.h"

namespace stoker {
namespace internal {
namespace {

Selection selection_of(const LoaderPart& part) {
  return part.selection.value_or(SampleSlice{.count = part.whole_count()});
}

LoaderPart with_selection(const LoaderPart& part, Selection selection) {
  LoaderPart made = part;
  made.selection = std::move(selection);
  made.drop_whole_selection();
  return made;
}

}  // namespace

Result<LoaderPart> select_part(const LoaderPart& part, std::span<const std::uint64_t> numbers) {
  STOKER_ASSIGN(Selection selection,
                select_from(selection_of(part), part.selected_count(), numbers));
  return with_selection(part, std::move(selection));
}

Result<LoaderPart> slice_part(const LoaderPart& part, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t size = part.selected_count();
  if (first > size || count > size - first)
    return Status(Code::invalid_argument, std::to_string(count) + " samples from " +
                                              std::to_string(first) + " on, of a dataset of " +
                                              std::to_string(size));
  return with_selection(part, slice_of(selection_of(part), first, count));
}

Result<std::vector<LoaderPart>> split_part(const LoaderPart& part, std::span<const double> parts,
                                           std::optional<std::uint64_t> seed) {
  STOKER_ASSIGN(std::vector<Selection> selections,
                split_selection(selection_of(part), part.selected_count(), parts, seed));
  std::vector<LoaderPart> made;
  for (Selection& selection : selections)
    made.push_back(with_selection(part, std::move(selection)));
  return made;
}

Result<std::uint64_t> unit_of(const LoaderPart& part, std::uint64_t number) {
  const std::uint64_t count = part.selected_count();
  if (number >= count)
    return Status(Code::invalid_argument,
                  "sample " + std::to_string(number) + " of a dataset of " + std::to_string(count));
  return part.selection ? selected_sample(*part.selection, number) : number;
}

namespace {

Result<FieldView> field_of(const Sample& sample, std::uint64_t number, std::string_view name) {
  const FieldView* const found = sample.find(name);
  if (found != nullptr) return *found;
  return Status(Code::invalid_argument,
                "sample " + std::to_string(number) + " has no field '" + std::string(name) + "'");
}

Status check_same_form(const FieldView& found, const FieldView& model, std::uint64_t number) {
  if (found.type == model.type && found.dtype == model.dtype &&
      found.bytes.size() == model.bytes.size() && std::ranges::equal(found.shape, model.shape))
    return {};
  return {Code::invalid_argument,
          "sample " + std::to_string(number) + ": field '" + std::string(found.name) + "' has " +
              std::to_string(found.bytes.size()) + " bytes, and the first one has " +
              std::to_string(model.bytes.size()) + " or another type: gather() takes fields of " +
              "one type and shape"};
}

}  // namespace

Dataset DatasetInside::make(LoaderPart part) {
  const std::uint64_t count = part.selected_count();
  return Dataset(
      std::make_shared<const DatasetState>(DatasetState{.part = std::move(part), .count = count}));
}

}  // namespace internal

using internal::at_border;
using internal::DatasetInside;

std::string cache_directory_from_environment() {
  const auto value = [](const char* name) -> std::string {
    const char* const found = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): as documented
    return found == nullptr ? "" : found;
  };
  const std::string cache = value("XDG_CACHE_HOME");
  if (!cache.empty()) return cache + "/stoker/index";
  const std::string home = value("HOME");
  return home.empty() ? "" : home + "/.cache/stoker/index";
}

Sample::Sample() = default;
Sample::Sample(Sample&& other) noexcept = default;
Sample& Sample::operator=(Sample&& other) noexcept = default;
Sample::~Sample() = default;

std::string_view Sample::key() const noexcept {
  if (!state_) return {};
  const std::string_view own = key_of_sample(state_->record.view());
  return own.empty() ? std::string_view(state_->record.key()) : own;
}

std::span<const FieldView> Sample::fields() const noexcept {
  if (!state_) return {};
  return state_->record.view().fields;
}

const FieldView* Sample::find(std::string_view name) const noexcept {
  return state_ ? state_->record.view().find(name) : nullptr;
}

Dataset::Dataset(std::shared_ptr<const internal::DatasetState> state) noexcept
    : state_(std::move(state)) {}
Dataset::Dataset(const Dataset& other) noexcept = default;
Dataset& Dataset::operator=(const Dataset& other) noexcept = default;
Dataset::~Dataset() = default;

Result<Dataset> Dataset::open(const DatasetOptions& options) {
  return at_border([&]() -> Result<Dataset> {
    if (options.source.empty())
      return Status(Code::invalid_argument, "a dataset needs the path of its shards");
    ShardDataset::Options wanted;
    wanted.source = {.format = options.format, .dtype = options.dtype};
    wanted.index = {.checksums = options.checksums,
                    .cache_directory = options.cache_directory,
                    .in_memory = true,
                    .stop = options.stop};
    wanted.source.store = options.store;
    wanted.source.s3 = options.s3;
    wanted.policy = options.policy;
    wanted.cache = internal::CacheInside::cache(options.cache);
    LoaderPart part;
    STOKER_ASSIGN(part.dataset, ShardDataset::open(options.source, wanted));
    return DatasetInside::make(std::move(part));
  });
}

Result<Dataset> Dataset::open_one(const std::string& source) {
  return at_border([&] { return open(DatasetOptions{.source = {source}}); });
}

std::uint64_t Dataset::size() const noexcept {
  return state_->count;
}

Status Dataset::read(std::uint64_t number, Sample& out) const {
  return at_border([&]() -> Status {
    if (!out.state_) out.state_ = std::make_unique<internal::SampleState>();
    STOKER_ASSIGN(const std::uint64_t sample, internal::unit_of(state_->part, number));
    return state_->part.dataset->read(sample, out.state_->record);
  });
}

Result<Sample> Dataset::read(std::uint64_t number) const {
  Sample sample;
  STOKER_TRY(read(number, sample));
  return sample;
}

Result<std::vector<Sample>> Dataset::read_many(std::span<const std::uint64_t> numbers) const {
  return at_border([&]() -> Result<std::vector<Sample>> {
    std::vector<Sample> samples(numbers.size());
    STOKER_TRY(for_each_position(numbers.size(), [&](std::size_t position) {
                 return read(numbers[position], samples[position]);
               }).status);
    return samples;
  });
}

Status Dataset::gather(std::span<const std::uint64_t> numbers, std::string_view field,
                       std::span<std::byte> rows) const {
  return at_border([&]() -> Status {
    if (numbers.empty())
      return rows.empty() ? Status() : Status(Code::invalid_argument, "rows of no samples");
    STOKER_ASSIGN(const Sample first, read(numbers[0]));
    STOKER_ASSIGN(const FieldView model, internal::field_of(first, numbers[0], field));
    const std::size_t row_bytes = model.bytes.size();
    if (rows.size() / numbers.size() != row_bytes || rows.size() % numbers.size() != 0)
      return Status(Code::invalid_argument, "memory of " + std::to_string(rows.size()) +
                                                " bytes for " + std::to_string(numbers.size()) +
                                                " rows of " + std::to_string(row_bytes));
    return for_each_position(
               numbers.size(),
               [&](std::size_t position) -> Status {
                 Sample sample;
                 STOKER_TRY(read(numbers[position], sample));
                 STOKER_ASSIGN(const FieldView found,
                               internal::field_of(sample, numbers[position], field));
                 STOKER_TRY(internal::check_same_form(found, model, numbers[position]));
                 std::ranges::copy(
                     found.bytes, rows.begin() + static_cast<std::ptrdiff_t>(position * row_bytes));
                 return {};
               })
        .status;
  });
}

Result<std::uint64_t> Dataset::find(std::string_view key, const std::stop_token& stop) const {
  return at_border([&]() -> Result<std::uint64_t> {
    STOKER_ASSIGN(const std::uint64_t sample, find_key(*state_->part.dataset, key, stop));
    if (!state_->part.selection) return sample;
    const std::optional<std::uint64_t> number = find_selected(*state_->part.selection, sample);
    if (number) return *number;
    return Status(Code::not_found, "the sample " + std::string(key) + " was not selected");
  });
}

Result<Dataset> Dataset::select(std::span<const std::uint64_t> numbers) const {
  return at_border([&]() -> Result<Dataset> {
    STOKER_ASSIGN(LoaderPart part, internal::select_part(state_->part, numbers));
    return DatasetInside::make(std::move(part));
  });
}

Result<Dataset> Dataset::slice(std::uint64_t first, std::uint64_t count) const {
  return at_border([&]() -> Result<Dataset> {
    STOKER_ASSIGN(LoaderPart part, internal::slice_part(state_->part, first, count));
    return DatasetInside::make(std::move(part));
  });
}

Result<std::vector<Dataset>> Dataset::split(std::span<const double> parts,
                                            std::optional<std::uint64_t> seed) const {
  return at_border([&]() -> Result<std::vector<Dataset>> {
    STOKER_ASSIGN(std::vector<LoaderPart> found, internal::split_part(state_->part, parts, seed));
    std::vector<Dataset> made;
    for (LoaderPart& part : found) made.push_back(DatasetInside::make(std::move(part)));
    return made;
  });
}

Digest128 Dataset::fingerprint() const {
  return state_->part.fingerprint();
}

std::string_view Dataset::format() const noexcept {
  return state_->part.dataset->source().format();
}

const std::string& Dataset::directory() const noexcept {
  return state_->part.dataset->source().uri();
}

std::vector<ShardInfo> Dataset::shards() const {
  const ShardDataset& dataset = *state_->part.dataset;
  std::vector<ShardInfo> found;
  for (std::size_t i = 0; i < dataset.index().shards().size(); ++i) {
    const IndexedShard& shard = dataset.index().shards()[i];
    found.push_back({.name = shard.name,
                     .path = dataset.source().uri_of(i),
                     .size_bytes = shard.size_bytes,
                     .sample_count = shard.sample_count});
  }
  return found;
}

bool Dataset::has_checksums() const noexcept {
  return state_->part.dataset->index().has_checksums();
}

Status Dataset::index_refused() const {
  return state_->part.dataset->index_refused();
}

}  // namespace stoker
