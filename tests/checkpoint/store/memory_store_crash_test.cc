// A client of a bucket dies at every request that it makes, and another one looks at what is there.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/save_support.h"
#include "checkpoint/toys/memory_checkpoint_store.h"

namespace stoker {
namespace {

using testing::Fate;
using testing::MemoryBucket;
using testing::MemoryCheckpointStore;
using testing::OwnedTensor;

/// A checkpoint's contents follow from its step and a version: a rewound run saves other bytes
/// under the same step.
using Saved = std::pair<std::uint64_t, int>;

std::vector<OwnedTensor> contents_of(const Saved& saved) {
  const auto first =
      static_cast<float>(saved.first * 10 + static_cast<std::uint64_t>(saved.second));
  return {testing::counted("changing", 300, first), testing::counted("frozen", 200, 0.5F)};
}

/// What a client was told before it died.
struct Promises {
  std::set<Saved> began;
  std::set<Saved> acknowledged;  ///< And not given up to retention.
  std::set<Saved> pinned;
};

class Client {
 public:
  Client(const std::shared_ptr<MemoryBucket>& bucket, Promises& promises,
         std::optional<CheckpointParent> parent, std::optional<std::uint64_t> keep_last)
      : store_(std::make_shared<const MemoryCheckpointStore>(bucket)), promises_(promises) {
    SaverOptions options = testing::quiet_options("");
    options.store = store_;
    options.copy_threads = 1;
    options.group_limits.group_bytes_min = 1;
    options.parent = std::move(parent);
    options.retention.keep_last = keep_last;
    saver_ = testing::make_saver(std::move(options));  // its ttl is 0: the dead are not waited for
  }

  /// False if it was not acknowledged. `given_up`: what retention may remove once this is there.
  bool save(const Saved& saved, const std::set<Saved>& given_up = {}) {
    const std::vector<OwnedTensor> tensors = contents_of(saved);
    promises_.began.insert(saved);
    const Result<PendingSave> pending = saver_->save(testing::request_of(saved.first, tensors));
    for (const Saved& one : given_up) promises_.acknowledged.erase(one);
    if (!pending.ok() || !pending->wait().ok()) return false;
    promises_.acknowledged.insert(saved);
    head_ = CheckpointParent{
        .step = saved.first, .generation = pending->generation(), .line = pending->line()};
    return saver_->wait().ok();
  }
  bool pin(const Saved& saved) {
    const Status status =
        pin_checkpoint(*store_, saved.first, head_->generation, true, head_->line);
    if (status.ok()) promises_.pinned.insert(saved);
    return status.ok();
  }
  std::optional<CheckpointParent> head() const { return head_; }

 private:
  const std::shared_ptr<const CheckpointStore> store_;
  Promises& promises_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::optional<CheckpointParent> head_;
};

/// Saves, reuses, pins, retires, rewinds. Ends where something fails: false.
bool work(const std::shared_ptr<MemoryBucket>& bucket, Promises& promises) {
  std::optional<CheckpointParent> start;
  {
    Client client(bucket, promises, {}, 2);
    if (!client.save({10, 1}) || !client.pin({10, 1}) || !client.save({20, 1})) return false;
    start = client.head();
    if (!client.save({30, 1}) || !client.save({40, 1}, {{20, 1}})) return false;
  }
  Client rewound(bucket, promises, start, {});
  return rewound.save({30, 2}) && rewound.save({50, 2});
}

/// Reads a checkpoint whole and says which of `candidates` it is.
std::optional<Saved> identify(const CheckpointStore& store, const CatalogStep& step,
                              const std::set<Saved>& candidates) {
  const Result<CheckpointReader> reader = CheckpointReader::open(store, step.name, {});
  if (!reader.ok()) return std::nullopt;
  for (const Saved& saved : candidates) {
    if (saved.first != step.parsed.step) continue;
    bool is_same = true;
    for (const OwnedTensor& tensor : contents_of(saved)) {
      std::vector<float> values(tensor.values.size());
      is_same =
          is_same &&
          reader->read({.name = tensor.name, .memory = std::as_writable_bytes(std::span(values))})
              .ok() &&
          values == tensor.values;
    }
    if (is_same) return saved;
  }
  return std::nullopt;
}

/// Every checkpoint is whole and one that was begun; every acknowledged or pinned one is there.
void expect_held(const CheckpointStore& store, const Promises& promises) {
  const Result<Catalog> catalog = list_checkpoints(store);
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  std::set<Saved> present;
  for (const CatalogStep& step : catalog->steps) {
    const std::optional<Saved> saved = identify(store, step, promises.began);
    ASSERT_TRUE(saved) << step.name << " is none that was saved: " << step.problem.message();
    present.insert(*saved);
  }
  for (const std::set<Saved>* kept : {&promises.acknowledged, &promises.pinned})
    for (const Saved& saved : *kept)
      EXPECT_TRUE(present.contains(saved)) << step_name(saved.first) << " is gone";
}

/// Nothing but what is committed is stored.
void expect_swept(const MemoryCheckpointStore& store) {
  EXPECT_TRUE(store.bucket().list("parts/")->empty());
  const testing::MemoryLog::State state = *store.log().read();
  EXPECT_TRUE(state.hidden.empty());
  const std::vector<std::string> keys = *store.bucket().list("data/");
  for (const std::string& key : keys) {
    const std::string staging = key.substr(5, key.rfind('/') - 5);
    EXPECT_TRUE(state.is_committed(staging)) << "left over: " << key;
  }
}

class MemoryStoreCrashTest : public ::testing::TestWithParam<Fate> {};

TEST_P(MemoryStoreCrashTest, after_a_death_at_any_request_every_acknowledged_step_is_there) {
  std::size_t deaths = 0;
  for (bool has_died = true; has_died;) {
    SCOPED_TRACE("dead after request " + std::to_string(deaths));
    const auto bucket = std::make_shared<MemoryBucket>();
    std::atomic<std::size_t> requests{0};
    std::string last;
    bucket->fate = [&](const std::string& request) {
      const std::size_t number = requests.fetch_add(1);
      if (number == deaths) last = request;
      if (number < deaths) return Fate::served;
      return number == deaths ? GetParam() : Fate::request_lost;
    };
    Promises promises;
    const bool is_done = work(bucket, promises);
    has_died = requests > deaths;
    EXPECT_TRUE(has_died || is_done);
    bucket->fate = {};
    SCOPED_TRACE(last);
    const MemoryCheckpointStore store(bucket);
    expect_held(store, promises);
    {
      Client next(bucket, promises, {}, {});
      EXPECT_TRUE(next.save({1000, 9}));
    }
    expect_held(store, promises);
    expect_swept(store);
    const Result<CheckpointVerifyReport> report = verify_checkpoints(store, {});
    EXPECT_TRUE(report.ok() && report->damages.empty() && report->unchecked.empty());
    // A pin holds against whoever keeps one.
    promises.acknowledged.clear();
    {
      Client last_one(bucket, promises, {}, 1);
      EXPECT_TRUE(last_one.save({1001, 9}));
    }
    expect_held(store, promises);
    if (HasFailure()) return;
    deaths += has_died ? 1 : 0;
  }
  std::printf("died at %zu requests, nothing lost\n", deaths);
  EXPECT_GT(deaths, 100U);
}

INSTANTIATE_TEST_SUITE_P(deaths, MemoryStoreCrashTest,
                         ::testing::Values(Fate::request_lost, Fate::answer_lost),
                         [](const ::testing::TestParamInfo<Fate>& param) {
                           return param.param == Fate::request_lost ? "before_the_request"
                                                                    : "before_the_answer";
                         });

}  // namespace
}  // namespace stoker
