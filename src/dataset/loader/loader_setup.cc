#include "dataset/loader/loader_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "dataset/loader/loader_cache.h"
#include "dataset/order/explicit_order.h"
#include "dataset/order/mixture.h"

namespace stoker {
namespace {

Status invalid(std::string message) {
  return Status(Code::invalid_argument, std::move(message));
}

/// Formats a number as "1,234,567".
std::string grouped(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

bool is_mixture(const LoaderRequest& request) {
  return request.parts.size() != 1 || request.parts.front().weight.has_value();
}

Status check_parts(const LoaderRequest& request) {
  if (request.parts.empty()) return invalid("a loader needs a dataset");
  for (const LoaderPart& part : request.parts) {
    if (!part.dataset) return invalid("a dataset is missing (null)");
    if (part.windows && part.packs) return invalid("token windows or packs: not both");
    if (is_mixture(request) && !part.weight)
      return invalid("a mixture needs a weight for each dataset");
  }
  if (request.items && is_mixture(request))
    return invalid("a list of samples needs a single dataset: a mixture has its own order");
  const bool is_whole = std::ranges::none_of(
      request.parts, [](const LoaderPart& part) { return part.selection.has_value(); });
  if (request.on_error == OnError::skip && (request.items || !is_whole))
    return invalid(
        "on_error=\"skip\" chooses among all samples of a dataset, also those that were not "
        "selected: it is for whole datasets only");
  return {};
}

/// `global_batch_size`: see global_batch_of().
Status check_micro_batch(const LoaderRequest& request, std::uint64_t global_batch_size) {
  const std::uint64_t micro = request.micro_batch_size;
  const std::uint64_t part = global_batch_size / request.world_size;
  if (micro == 0 || part % micro == 0) return {};
  const SettingNames& names = request.names;
  const std::string whole =
      request.batch_size != 0
          ? fmt::format("{}={}", names.batch_size, request.batch_size)
          : fmt::format("{}={} is {} samples for each of {} ranks, which", names.global_batch_size,
                        request.global_batch_size, part, request.world_size);
  return invalid(
      fmt::format("{} is not a multiple of {}={}", whole, names.micro_batch_size, micro));
}

}  // namespace

Result<std::uint64_t> global_batch_of(const LoaderRequest& request) {
  const SettingNames& names = request.names;
  if ((request.batch_size == 0) == (request.global_batch_size == 0))
    return invalid(fmt::format("give {} (per rank) or {} (all ranks){}", names.batch_size,
                               names.global_batch_size,
                               request.batch_size == 0 ? "" : ", not both"));
  if (request.world_size == 0) return invalid("world_size must be at least 1");
  if (request.global_batch_size == 0) {
    if (request.batch_size > BatchCut::kGlobalBatchMax / request.world_size)
      return invalid(fmt::format("{}={}: at most {} samples over all ranks", names.batch_size,
                                 request.batch_size, BatchCut::kGlobalBatchMax));
    return request.batch_size * request.world_size;
  }
  if (request.global_batch_size % request.world_size != 0)
    return invalid(fmt::format("{}={} cannot be divided among {} ranks", names.global_batch_size,
                               request.global_batch_size, request.world_size));
  return request.global_batch_size;
}

Tail tail_of(const LoaderRequest& request) noexcept {
  const bool is_shuffled = !request.items && request.order.shuffle != Shuffle::off;
  return request.tail.value_or(is_shuffled ? Tail::drop
                                           : Tail::keep);  // shuffled data is for training
}

Result<LoaderSetup> LoaderSetup::make(LoaderRequest request) {
  STOKER_TRY(check_parts(request));
  STOKER_ASSIGN(const std::uint64_t global_batch_size, global_batch_of(request));
  STOKER_TRY(check_micro_batch(request, global_batch_size));
  request.global_batch_size = global_batch_size;
  request.batch_size = 0;
  request.tail = tail_of(request);
  for (LoaderPart& part : request.parts) part.drop_whole_selection();
  LoaderSetup setup(std::move(request));
  STOKER_TRY(setup.set_data());
  STOKER_TRY(setup.set_first_line());
  STOKER_TRY(setup.set_memory());
  return setup;
}

Status LoaderSetup::set_data() {
  for (const LoaderPart& part : request_.parts) {
    whole_counts_.push_back(part.whole_count());
    if (part.weight)
      basis_.mixture.push_back({.sample_count = part.selected_count(), .weight = *part.weight});
  }
  basis_.global_batch_size = request_.global_batch_size;
  basis_.whole_count_min = *std::ranges::min_element(whole_counts_);
  basis_.sample_bytes = mean_sample_bytes(request_.parts);
  STOKER_ASSIGN(data_prints_, prints_of_data());
  prints_ = data_prints_;
  return {};
}

Result<LoaderSetup::Prints> LoaderSetup::prints_of_data() const {
  std::vector<Digest128> now;
  std::vector<Digest128> old;
  for (const LoaderPart& part : request_.parts) {
    now.push_back(part.fingerprint());
    old.push_back(part.packs ? part.old_fingerprint() : now.back());
  }
  if (basis_.mixture.empty()) return Prints{.now = now.front(), .old = old.front()};
  Prints prints;
  STOKER_ASSIGN(prints.now, mixture_fingerprint(now, basis_.mixture));
  STOKER_ASSIGN(prints.old, mixture_fingerprint(old, basis_.mixture));
  return prints;
}

Result<std::shared_ptr<const SampleOrder>> LoaderSetup::selected(
    std::shared_ptr<const SampleOrder> order) const {
  std::vector<Selection> selections;
  bool is_whole = true;
  for (std::size_t i = 0; i < request_.parts.size(); ++i) {
    const std::optional<Selection>& selection = request_.parts[i].selection;
    selections.push_back(selection.value_or(SampleSlice{.count = whole_counts_[i]}));
    is_whole = is_whole && !selection;
  }
  if (is_whole) return order;
  STOKER_ASSIGN(std::shared_ptr<const SampleOrder> made,
                make_selected_order(std::move(order), std::move(selections), whole_counts_));
  return made;
}

Result<LoaderSetup::List> LoaderSetup::make_list(std::vector<std::uint64_t> items) const {
  List list;
  list.prints = {.now = explicit_order_fingerprint(data_prints_.now, items),
                 .old = explicit_order_fingerprint(data_prints_.old, items)};
  STOKER_ASSIGN(std::shared_ptr<const SampleOrder> order,
                make_explicit_order(std::move(items), request_.parts.front().selected_count()));
  STOKER_ASSIGN(list.order, selected(std::move(order)));
  return list;
}

Result<std::shared_ptr<const LoaderSetup::Schedule>> LoaderSetup::make_schedule(
    const OrderOptions& request, const std::shared_ptr<const SampleOrder>& list) const {
  STOKER_ASSIGN(const OrderOptions options, resolve_order(request, basis_));
  std::shared_ptr<const SampleOrder> order = list;
  if (!order) {
    if (basis_.mixture.empty()) {
      STOKER_ASSIGN(order, make_order(options));
    } else {
      STOKER_ASSIGN(order, make_mixture_order({.order = options, .parts = basis_.mixture}));
    }
    STOKER_ASSIGN(order, selected(std::move(order)));
  }
  STOKER_ASSIGN(const BatchCut cut, BatchCut::make({.global_batch_size = request_.global_batch_size,
                                                    .rank = request_.rank,
                                                    .world_size = request_.world_size,
                                                    .micro_batch_size = request_.micro_batch_size,
                                                    .tail = *request_.tail,
                                                    .epoch_samples = order->epoch_samples()}));
  return std::make_shared<const Schedule>(
      Schedule{.options = options, .order = std::move(order), .cut = cut});
}

Status LoaderSetup::set_first_line() {
  OrderOptions& order = request_.order;
  if (request_.items) {
    order = {.shuffle = Shuffle::off, .seed = order.seed, .sample_count = request_.items->size()};
    STOKER_ASSIGN(List list, make_list(*std::exchange(request_.items, std::nullopt)));
    list_ = std::move(list.order);
    prints_ = list.prints;
  } else if (basis_.mixture.empty()) {
    order.sample_count = request_.parts.front().selected_count();
  }
  Result<std::shared_ptr<const Schedule>> schedule = make_schedule(order, list_);
  if (!schedule.ok() && order.lanes != 0) {
    unfit_ = schedule.status();
    OrderOptions without = order;
    without.lanes = 0;
    schedule = make_schedule(without, list_);
  }
  STOKER_ASSIGN(schedule_, std::move(schedule));
  if (order.sample_count == 0)
    order.sample_count = schedule_->options.sample_count;  // the default of a mixture
  return {};
}

Status LoaderSetup::set_memory() {
  STOKER_ASSIGN(memory_needed_, LoaderRun::memory_needed(run_options(cursor(0, 0))));
  const std::uint64_t local = std::max<std::uint64_t>(request_.local_world_size, 1);
  memory_bytes_ = std::max<std::size_t>(kMemoryDefaultBytes / local, memory_needed_);
  if (!request_.memory_bytes) return {};
  memory_bytes_ = *request_.memory_bytes / local;
  if (memory_bytes_ >= memory_needed_) return {};
  const std::string_view name = request_.names.memory_bytes;
  const std::string_view micro = request_.names.micro_batch_size;
  const std::string among =
      local == 1 ? "" : fmt::format(", {} for each of {} processes", grouped(memory_bytes_), local);
  return invalid(fmt::format(
      "{0} is {1}{2}, and {3} are needed: three batches of {4} samples, each as large as it can "
      "get, and the largest sample{5}. Raise {0}, lower the batch size{6}, or leave {0} out",
      name, grouped(*request_.memory_bytes), among, grouped(memory_needed_ * local),
      cut().micro_batch_size(), local == 1 ? "" : fmt::format(", {} times", local),
      micro.empty() ? "" : fmt::format(", give {}", micro)));
}

Cursor LoaderSetup::cursor(std::uint64_t epoch, std::uint64_t position) const {
  return {.order = schedule_->options,
          .fingerprint = prints_.now,
          .tail = *request_.tail,
          .global_batch_size = request_.global_batch_size,
          .epoch = epoch,
          .position = position};
}

Cursor LoaderSetup::wanted(const Cursor& saved) const {
  Cursor run = cursor(0, 0);
  run.order = request_.order;
  if (saved.fingerprint == prints_.old) run.fingerprint = prints_.old;
  return run;
}

Status LoaderSetup::resume(const Cursor& saved, std::span<const std::string_view> allow) {
  STOKER_TRY(check_cursor(saved, wanted(saved), allow));
  STOKER_ASSIGN(schedule_, make_schedule(saved.order, list_));
  unfit_ = {};
  return {};
}

Status LoaderSetup::set_items(std::vector<std::uint64_t> items) {
  if (!list_) return invalid("set_items: this loader was not made from a list of samples");
  OrderOptions order = request_.order;
  order.sample_count = items.size();
  STOKER_ASSIGN(List list, make_list(std::move(items)));
  STOKER_ASSIGN(schedule_, make_schedule(order, list.order));
  request_.order = order;
  list_ = std::move(list.order);
  prints_ = list.prints;
  return {};
}

Result<LoaderRunOptions> LoaderSetup::options_at(const Cursor& cursor) const {
  if (!unfit_.ok()) return unfit_;
  return run_options(cursor);
}

std::string LoaderSetup::cache_forecast() const {
  std::vector<std::shared_ptr<const ShardDataset>> datasets;
  for (const LoaderPart& part : request_.parts) datasets.push_back(part.dataset);
  const double local = static_cast<double>(std::max<std::uint64_t>(request_.local_world_size, 1));
  const double share = std::min(1.0, local / static_cast<double>(request_.world_size));
  const std::optional<EpochQuestion> question =
      internal::cache_question(datasets, *schedule_->order, schedule_->options.shuffle, share);
  return question ? describe(*question, expected_bytes(*question)) : "";
}

LoaderRunOptions LoaderSetup::run_options(const Cursor& cursor) const {
  LoaderRunOptions options{.order = schedule_->order,
                           .cut = schedule_->cut.options(),
                           .cursor = cursor,
                           .end_epoch = request_.end_epoch,
                           .fields = request_.fields,
                           .on_error = request_.on_error,
                           .seed = request_.order.seed,
                           .memory_bytes = memory_bytes_,
                           .threads = request_.threads,
                           .depth = request_.depth,
                           .held_warning = request_.held_warning,
                           .held_limit = request_.held_limit};
  if (request_.has_items_per_epoch) options.end_epoch = cursor.epoch + 1;
  options.fetch.engine = request_.engine;
  for (const LoaderPart& part : request_.parts) {
    options.datasets.push_back(part.dataset);
    if (part.windows) options.windows.push_back(part.windows);
    if (part.packs) options.packs.push_back(part.packs);
  }
  return options;
}

}  // namespace stoker
