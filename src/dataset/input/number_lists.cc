#include "dataset/input/number_lists.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "formats/mds/mds_encoding.h"

namespace stoker::internal {
namespace {

constexpr std::uint64_t kSamplesAtOnce = 256;

using FieldNames = std::set<std::string, std::less<>>;

std::optional<Dtype> dtype_of_number(const FieldView& field) {
  switch (field.type) {
    case FieldType::int64: return Dtype::int64;
    case FieldType::float32: return Dtype::float32;
    case FieldType::float64: return Dtype::float64;
    default: return std::nullopt;
  }
}

/// Thread safety: work() from any thread, take() after all calls of work() have returned.
class Search {
 public:
  Search(const PackInput& input, const std::stop_token& stop) : input_(input), stop_(stop) {}

  void work() {
    FieldNames found;
    const Status status = look(found);
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = status;
    if (!status.ok()) has_failed_ = true;
    found_.merge(found);
  }

  Result<FieldNames> take() {
    MutexLock lock(mutex_);
    STOKER_TRY(failure_);
    return std::move(found_);
  }

 private:
  Status look(FieldNames& found) {
    InputSample sample;
    const std::uint64_t count = input_.sample_count();
    while (!has_failed_) {
      const std::uint64_t first = next_.fetch_add(kSamplesAtOnce);
      if (first >= count) return {};
      if (stop_.stop_requested())
        return Status(Code::cancelled, "stopped while reading the samples");
      for (std::uint64_t i = first; i < std::min(count, first + kSamplesAtOnce); ++i) {
        STOKER_TRY(input_.read(i, sample));
        for (const FieldView& field : sample.view.fields) {
          const std::optional<Dtype> dtype = dtype_of_number(field);
          if (dtype && field.bytes.size() != dtype_size_bytes(*dtype) &&
              !found.contains(field.name))
            found.emplace(field.name);
        }
      }
    }
    return {};
  }

  const PackInput& input_;
  const std::stop_token& stop_;
  std::atomic<std::uint64_t> next_ = 0;   // a counter: order does not matter
  std::atomic<bool> has_failed_ = false;  // a flag: order does not matter
  Mutex mutex_;
  Status failure_ STOKER_GUARDED_BY(mutex_);
  FieldNames found_ STOKER_GUARDED_BY(mutex_);
};

Result<FieldNames> find_number_lists(const PackInput& input, unsigned thread_count,
                                     const std::stop_token& stop) {
  const std::uint64_t pieces = (input.sample_count() + kSamplesAtOnce - 1) / kSamplesAtOnce;
  const std::uint64_t wanted =
      thread_count != 0 ? thread_count : std::max(1U, std::thread::hardware_concurrency());
  Search search(input, stop);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < std::min(wanted, pieces); ++i)
      threads.emplace_back([&search] { search.work(); });
  }
  return search.take();
}

/// Thread safety: as PackInput.
class ListedInput final : public PackInput {
 public:
  ListedInput(std::unique_ptr<PackInput> input, FieldNames lists)
      : input_(std::move(input)), lists_(std::move(lists)) {}

  std::uint64_t sample_count() const noexcept override { return input_->sample_count(); }
  Result<Extent> extent(std::uint64_t sample) const override { return input_->extent(sample); }

  Status read(std::uint64_t sample, InputSample& out) const override {
    STOKER_TRY(input_->read(sample, out));
    for (FieldView& field : out.view.fields) {
      const std::optional<Dtype> dtype = dtype_of_number(field);
      if (!dtype || !lists_.contains(field.name)) continue;
      const std::uint64_t count = field.bytes.size() / dtype_size_bytes(*dtype);
      std::vector<std::byte>& shape = out.view.storage.emplace_back(sizeof count);
      std::memcpy(shape.data(), &count, sizeof count);
      field.type = FieldType::array;
      field.dtype = dtype_descr(*dtype);
      field.shape = {reinterpret_cast<const std::uint64_t*>(shape.data()), 1};
    }
    return {};
  }

  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override {
    using Columns = std::vector<std::pair<std::string, std::string>>;
    STOKER_ASSIGN(Columns columns, input_->mds_columns());
    InputSample first;
    STOKER_TRY(read(0, first));
    for (auto& [name, encoding] : columns) {
      const FieldView* field = first.view.find(name);
      if (field == nullptr || !lists_.contains(name)) continue;
      STOKER_ASSIGN(const MdsEncoding chosen, choose_mds_encoding(*field));
      encoding = chosen.text;
    }
    return columns;
  }

  std::string describe(std::uint64_t sample) const override { return input_->describe(sample); }
  Digest128 fingerprint() const override { return input_->fingerprint(); }
  std::optional<Dtype> token_dtype() const override { return input_->token_dtype(); }
  std::vector<std::pair<std::string, std::string>> extra_files() const override {
    return input_->extra_files();
  }
  std::vector<LeftOut> left_out() const override { return input_->left_out(); }
  std::vector<std::string> notes() const override { return input_->notes(); }
  bool is_scattered() const noexcept override { return input_->is_scattered(); }

 private:
  std::unique_ptr<PackInput> input_;
  FieldNames lists_;
};

}  // namespace

Result<std::unique_ptr<PackInput>> with_number_lists(std::unique_ptr<PackInput> input,
                                                     unsigned thread_count,
                                                     const std::stop_token& stop) {
  STOKER_ASSIGN(FieldNames lists, find_number_lists(*input, thread_count, stop));
  return std::unique_ptr<PackInput>(
      std::make_unique<ListedInput>(std::move(input), std::move(lists)));
}

}  // namespace stoker::internal
