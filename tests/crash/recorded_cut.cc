#include "crash/recorded_cut.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <random>
#include <set>
#include <span>

#include "base/mutex.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kViolationsKept = 8;
constexpr std::size_t kShortCuts = 24;  // `make test` has seconds
constexpr std::size_t kTearBytes = 4096;
constexpr std::size_t kValueCount = 20'000;  // 20 blocks: enough to be torn in many ways

enum class Survivors : std::uint8_t { all, none, some };
constexpr const char* kSurvivorNames[] = {"all", "none", "some"};

/// The events after which to cut, in order: what was acknowledged there is at stake.
std::set<std::size_t> choose_cuts(const Recording& recording, const ReplayOptions& options) {
  std::mt19937_64 random(options.seed);
  std::vector<std::size_t> acknowledged;
  for (const Recording::Mark& mark : recording.marks)
    if (mark.text.starts_with("acknowledged")) acknowledged.push_back(mark.event_count);
  std::ranges::shuffle(acknowledged, random);
  acknowledged.resize(std::min(acknowledged.size(), options.cut_count / 2));
  std::set<std::size_t> cuts(acknowledged.begin(), acknowledged.end());
  std::vector<std::size_t> all(recording.events.size() + 1);
  std::iota(all.begin(), all.end(), 0);
  std::ranges::shuffle(all, random);
  for (const std::size_t cut : all)
    if (cuts.size() < options.cut_count) cuts.insert(cut);
  return cuts;
}

/// Writes what survives of `pending`.
void lay_down(DiskTape& tape, std::span<const DiskEvent> pending, Survivors survivors,
              std::uint64_t seed) {
  if (survivors == Survivors::none) return;
  std::mt19937_64 random(seed);
  for (const DiskEvent& event : pending) {
    const auto fate = survivors == Survivors::all ? 0 : random() % 3;
    if (fate == 1) continue;
    std::size_t size = 0;
    for (std::size_t at = 0; at < event.data.size(); at += size) {
      const std::uint64_t offset = event.offset_bytes + at;
      size = std::min(kTearBytes - offset % kTearBytes, event.data.size() - at);
      if (fate == 2 && random() % 2 == 0) continue;
      tape.lay(offset, std::span(event.data).subspan(at, size));
    }
  }
}

CutPoint point_at(const Recording& recording, std::size_t cut) {
  CutPoint point{.number = cut};
  for (const Recording::Mark& mark : recording.marks)
    if (mark.event_count <= cut) point.marks.push_back(mark.text);
  return point;
}

std::string look_at(RecordedDisk& disk, const PlaceOracle& oracle, const CutPoint& point) {
  const Status mounted = disk.mount();
  if (!mounted.ok()) return "cannot be mounted: " + std::string(mounted.message());
  std::string wrong = oracle(place_on(disk), point);
  const Status unmounted = disk.unmount();
  EXPECT_TRUE(unmounted.ok()) << unmounted.message();
  return wrong;
}

/// For whoever wants to look at it again.
void keep_image(DiskTape& tape, const std::string& name) {
  const char* directory = std::getenv("STOKER_CRASH_KEEP");
  if (directory == nullptr) return;
  const std::string path = std::string(directory) + "/" + name + ".img";
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const std::span<const std::byte> image = tape.image();
  EXPECT_EQ(::write(fd.get(), image.data(), image.size()), static_cast<ssize_t>(image.size()));
}

}  // namespace

CheckpointPlace place_on(const RecordedDisk& disk, FileOps& ops) {
  return {.ops = ops,
          .engine = [] { return make_sync_engine({}); },
          .directory = disk.mount_point() + "/checkpoints",
          .value_count = kValueCount};
}

Result<Recording> record(RecordedDisk& disk, const DiskWorkload& workload, FileOps& ops) {
  Recording recording;
  STOKER_TRY(disk.mount());
  CheckpointPlace place = place_on(disk, ops);
  place.engine = {};  // the best one here, as in a real run
  Mutex mutex;        // a saver's thread notes what it acknowledges
  workload(place, [&](const std::string& mark) {
    const MutexLock lock(mutex);
    recording.marks.push_back({disk.tape().event_count(), mark});
  });
  STOKER_TRY(disk.unmount());
  recording.events = disk.tape().events();
  disk.tape().undo();
  return recording;
}

ReplayReport replay(RecordedDisk& disk, const Recording& recording, const PlaceOracle& oracle,
                    const ReplayOptions& options) {
  const Status stopped = disk.stop_recording();
  EXPECT_TRUE(stopped.ok()) << stopped.message();
  const std::set<std::size_t> cuts = choose_cuts(recording, options);
  ReplayReport report{.filesystem = disk.filesystem(), .event_count = recording.events.size()};
  std::size_t durable = 0;  // events that the last barrier made so; they are on the disk
  for (std::size_t cut = 0; cut <= recording.events.size(); ++cut) {
    if (report.violation_count >= options.violations_max) break;
    if (cut > 0 && recording.events[cut - 1].is_flush())
      for (; durable < cut; ++durable)
        disk.tape().settle(recording.events[durable].offset_bytes, recording.events[durable].data);
    if (!cuts.contains(cut)) continue;
    ++report.cut_count;
    const CutPoint point = point_at(recording, cut);
    const auto pending = std::span(recording.events).subspan(durable, cut - durable);
    for (const Survivors survivors : {Survivors::all, Survivors::none, Survivors::some}) {
      if (pending.empty() && survivors != Survivors::all) continue;
      const std::uint64_t seed = options.seed + cut;
      ++report.state_count;
      lay_down(disk.tape(), pending, survivors, seed);
      const std::string wrong = look_at(disk, oracle, point);
      disk.tape().undo();
      if (wrong.empty()) continue;
      const std::string name = disk.filesystem() + "-cut-" + std::to_string(cut) + "-" +
                               kSurvivorNames[static_cast<std::size_t>(survivors)];
      lay_down(disk.tape(), pending, survivors, seed);
      keep_image(disk.tape(), name);
      disk.tape().undo();
      if (++report.violation_count > kViolationsKept) continue;
      report.violations.push_back(name + " of " + std::to_string(report.event_count) + ", seed " +
                                  std::to_string(options.seed) + ": " + wrong);
    }
  }
  return report;
}

std::string ReplayReport::text() const {
  std::string text = filesystem + ": " + std::to_string(event_count) +
                     " block writes and flushes, " + std::to_string(cut_count) + " cuts, " +
                     std::to_string(state_count) + " states, " + std::to_string(violation_count) +
                     " violations";
  for (const std::string& line : violations) text += "\n  " + line;
  return text;
}

void ReplayReport::record() const {
  ::testing::Test::RecordProperty("events", std::to_string(event_count));
  ::testing::Test::RecordProperty("cuts", std::to_string(cut_count));
  ::testing::Test::RecordProperty("states", std::to_string(state_count));
  ::testing::Test::RecordProperty("violations", std::to_string(violation_count));
  std::cout << text() << "\n";
}

std::size_t cut_count() {
  const char* wanted = std::getenv("STOKER_CRASH_CUTS");
  return wanted == nullptr ? kShortCuts : std::strtoul(wanted, nullptr, 10);
}

bool is_long_run() {
  return cut_count() >= 10 * kShortCuts;
}

}  // namespace stoker::testing
