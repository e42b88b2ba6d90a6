#include "crash/crash_scenarios.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "checkpoint/catalog/notes.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/opened.h"
#include "support/faulty_file_ops.h"
#include "support/interrupting_file_ops.h"
#include "support/model_disk_text.h"

namespace stoker::testing {
namespace {

void must(const Status& status) {
  EXPECT_TRUE(status.ok()) << status.message();
}

/// Saves these one after the other and closes.
std::uint64_t save_all(CutRun& run, FileOps& ops, const CrashSaver::Options& options,
                       const std::vector<SavedStep>& saves) {
  CrashSaver saver(run.disk(), ops, &run, options);
  for (const SavedStep& saved : saves) must(saver.save(saved));
  must(saver.close());
  return saver.generation();
}

/// Retention takes from now on what is not among the newest `keep`.
void save_keeping(CutRun& run, FileOps& ops, std::size_t keep, std::size_t count) {
  RetentionRules rules;
  rules.keep_last = keep;
  CrashSaver saver(run.disk(), ops, &run, {.retention = rules});
  for (std::size_t i = 0; i < count; ++i) {
    if (i >= keep) note_may_go(run, {.step = 10 * (i - keep + 1)});
    must(saver.save({.step = 10 * (i + 1)}));
  }
  must(saver.close());
}

/// The state goes wrong after step 10, which stays although retention keeps one: it is the newest
/// that is sound.
void save_gone_wrong(CutRun& run, FileOps& ops) {
  RetentionRules rules;
  rules.keep_last = 1;
  CrashSaver saver(run.disk(), ops, &run, {.retention = rules});
  must(saver.save({.step = 10}));
  for (const std::uint64_t step : {20U, 30U, 40U}) {
    if (step > 20) note_may_go(run, {.step = step - 10, .version = kNonfiniteVersion});
    must(saver.save({.step = step, .version = kNonfiniteVersion}));
  }
  must(saver.close());
}

/// Saves 10, 20 and 30, goes back to 10, and saves 20 and 30 again; `latest` leads to 30 meanwhile.
void save_rewound(CutRun& run, FileOps& ops) {
  const std::uint64_t first = save_all(run, ops, {}, {{.step = 10}});
  const CheckpointParent parent{.step = 10, .generation = first};
  save_all(run, ops, {.token = "second", .parent = parent}, {{.step = 20}, {.step = 30}});
  save_all(run, ops, {.token = "rewound", .parent = parent},
           {{.step = 20, .version = 2}, {.step = 30, .version = 2}});
}

/// Saves 10, and 20 again and again from there: `latest` leads to what is superseded.
void save_one_step_thrice(CutRun& run, FileOps& ops) {
  const std::uint64_t first = save_all(run, ops, {}, {{.step = 10}});
  const CheckpointParent parent{.step = 10, .generation = first};
  for (const int version : {1, 2, 3})
    save_all(run, ops, {.token = "run-" + std::to_string(version), .parent = parent},
             {{.step = 20, .version = version}});
}

/// Notes of a kept step, a pin against retention, and saves between them.
void save_and_annotate(CutRun& run, FileOps& ops) {
  RetentionRules rules;
  rules.keep_last = 1;
  CrashSaver saver(run.disk(), ops, &run, {.retention = rules});
  must(saver.save({.step = 10}));
  const std::uint64_t generation = saver.generation();
  const CheckpointDirectory directory = opened(kRunDirectory, ops);
  must(pin_checkpoint(directory, 10, generation, true));
  note_pinned(run, {.step = 10});
  for (int loss = 1; loss <= 3; ++loss) {
    run.note("annotating");
    must(annotate_checkpoint(directory, 10, generation, {{"loss", static_cast<double>(loss)}}));
    run.note("annotated");
    if (loss > 1) note_may_go(run, {.step = 10 * static_cast<std::uint64_t>(loss)});
    must(saver.save({.step = 10 * static_cast<std::uint64_t>(loss + 1)}));
  }
  must(saver.close());
}

/// Somebody pins step 10 while retention is about to remove it, at that moment of the second save.
/// If the pin returns OK, it holds.
void save_and_pin_at(CutRun& run, FileOps& ops, const std::string& point) {
  LocklessFileOps lockless(ops);
  InterruptingFileOps interrupted(ops, point, point.starts_with("checkpoint.") ? 2 : 1, [&] {
    const Status pinned = pin_checkpoint(opened(kRunDirectory, lockless), 10, 1, true);
    if (pinned.ok()) note_pinned(run, {.step = 10});
    EXPECT_TRUE(pinned.ok() || pinned.code() == Code::not_found) << pinned.message();
  });
  save_keeping(run, interrupted, 1, 3);
  EXPECT_TRUE(interrupted.has_fired()) << point;
}

/// Two saves on their way at once.
void save_overlapping(CutRun& run, FileOps& ops) {
  CrashSaver saver(run.disk(), ops, &run, {.in_flight = 2});
  for (const std::uint64_t step : {10U, 20U, 30U}) {
    must(saver.begin({.step = step}));
    if (step > 10) must(saver.finish());
  }
  must(saver.finish());
  must(saver.close());
}

/// One call fails, in the second save or a later one; what comes then continues as if it had not
/// been.
void save_with_a_failure(CutRun& run, FileOps& ops, int fail_at) {
  save_all(run, ops, {}, {{.step = 10}});
  FaultyFileOps faulty(ops, fail_at, EIO);
  CrashSaver saver(run.disk(), faulty, &run, {.token = "failing"});
  int saved_count = 0;
  for (const std::uint64_t step : {20U, 30U, 40U, 50U})
    saved_count += saver.save({.step = step}).ok() ? 1 : 0;
  EXPECT_GE(saved_count, 2) << "one failed, and one was told so";
  static_cast<void>(saver.close());
  EXPECT_TRUE(faulty.fired());
}

/// A checkpoint, and what writers that died have left beside it.
ModelState after_a_death() {
  ModelDisk disk(empty_run());
  CrashSaver saver(disk, disk, nullptr, {});
  must(saver.save({.step = 10}));
  must(saver.close());
  const std::string owner = kRunDirectory + "/" + owner_name("dead");
  must(disk.mkdir(owner));
  must(disk.mkdir(owner + "/step-1"));
  must(write_text(disk, owner + "/step-1/rank-00000.safetensors", "half"));
  must(write_text(disk, owner + "/step-1/rank-00001.safetensors", "less"));
  must(write_text(disk, owner + "/message-begin-1-1", "hello"));
  const std::string trash = kRunDirectory + "/.trash-step-1-x";
  must(disk.mkdir(trash));
  must(write_text(disk, trash + "/manifest.json", "{}"));
  must(disk.mkdir(kRunDirectory + "/.trash-step-2-y"));
  for (const std::string& path : {owner + "/step-1", owner, trash, kRunDirectory})
    must(disk.fsync_dir(path));
  return disk.snapshot();
}

/// What a writer has left that died between two steps of its retention, and one before it of whose
/// things it had just taken possession: of steps 10 to 70 only 70 has its name.
///   10, 20  to be retired; 10 was pinned before it was put aside, and 20 has a note
///   30      to be retired, and nobody has said anything
///   40      superseded on a filesystem without links
///   50, 60  as 10 and 30, of the writer before
///   and one that is half removed
ModelState after_a_death_in_retention() {
  ModelDisk disk(empty_run());
  CrashSaver saver(disk, disk, nullptr, {});
  for (std::uint64_t step = 10; step <= 70; step += 10) must(saver.save({.step = step}));
  must(saver.close());
  const CheckpointDirectory directory = opened(kRunDirectory, disk);
  must(pin_checkpoint(directory, 10, 1, true));
  must(annotate_checkpoint(directory, 20, 2, {{"loss", 0.5}}));
  must(pin_checkpoint(directory, 50, 5, true));
  const OwnerDirectory dead(directory, "dead");
  const PathAt taken = dead.at(taken_name("before"));
  const PathAt half = dead.at(remove_name("half"));
  for (const PathAt& path : {dead.self(), taken, half}) must(disk.mkdir(path));
  must(write_text(disk, half.text() + "/manifest.json", "{}"));
  const auto put_aside = [&](const PathAt& place, std::uint64_t step, AsideName::Purpose purpose) {
    const AsideName aside{.purpose = purpose,
                          .step = StepName{.step = step, .superseded_generation = {}},
                          .generation = step / 10};
    must(disk.rename(directory.at(step_name(step)), place / aside_name(aside)));
  };
  for (const std::uint64_t step : {10U, 20U, 30U})
    put_aside(dead.self(), step, AsideName::Purpose::retire);
  put_aside(dead.self(), 40, AsideName::Purpose::keep);
  for (const std::uint64_t step : {50U, 60U}) put_aside(taken, step, AsideName::Purpose::retire);
  for (const PathAt& path : {half, taken, dead.self(), directory.self()})
    must(disk.fsync_dir(path));
  return disk.snapshot();
}

void take_over_in_retention(CutRun& run, FileOps& ops) {
  const std::string put_aside = " 10 1 20 1 30 1 40 1 50 1 60 1";
  for (const std::string& mark :
       {"began" + put_aside + " 70 1", "aside" + put_aside, std::string("may go 30 1 60 1"),
        "acknowledged" + put_aside + " 70 1", std::string("pinned 10 1 50 1")})
    run.note(mark);
  CrashSaver saver(run.disk(), ops, &run, {.token = "successor"});
  must(saver.save({.step = 80}));
  run.note("swept");
  must(saver.save({.step = 90}));
  must(saver.close());
}

void take_over(CutRun& run, FileOps& ops) {
  run.note("began 10 1");
  run.note("acknowledged 10 1");
  save_all(run, ops, {.token = "successor"}, {{.step = 20}, {.step = 30}});
}

void take_over_on_ranks(CutRun& run, FileOps& ops) {
  run.note("began 10 1");
  run.note("acknowledged 10 1");
  save_on_ranks(run, {.rank_count = 2,
                      .saves = {{.step = 20}, {.step = 30}},
                      .session = "successors",
                      .ops = [&](std::uint32_t) -> FileOps& { return ops; }});
}

void rewind_on_ranks(CutRun& run, FileOps& ops) {
  const auto shared = [&](std::uint32_t) -> FileOps& { return ops; };
  const std::uint64_t first = save_on_ranks(
      run, {.rank_count = 2, .saves = {{.step = 10}}, .session = "first", .ops = shared});
  const CheckpointParent parent{.step = 10, .generation = first};
  for (const int version : {1, 2})
    save_on_ranks(run, {.rank_count = static_cast<std::uint32_t>(version + 1),
                        .saves = {{.step = 20, .version = version}},
                        .session = "again-" + std::to_string(version),
                        .parent = parent,
                        .ops = shared});
}

}  // namespace

void note_pinned(CutRun& run, const SavedStep& saved) {
  run.note(mark_of("pinned", saved));
}

ModelState empty_run() {
  ModelDisk disk;
  must(disk.mkdir("/run"));
  must(disk.fsync_dir("/"));
  return disk.snapshot();
}

void save_three(CutRun& run, FileOps& ops) {
  save_all(run, ops, {}, {{.step = 10}, {.step = 20}, {.step = 30}});
}

void save_keeping_one(CutRun& run, FileOps& ops) {
  save_keeping(run, ops, 1, 3);
}

std::uint64_t save_on_ranks(CutRun& run, const RanksPlan& plan) {
  return save_on_ranks(
      CheckpointPlace::on(run.disk(), run.disk()),
      [&run](const std::string& mark) { run.note(mark); }, plan);
}

std::vector<CrashScenario> crash_scenarios() {
  const ModelState empty = empty_run();
  std::vector<CrashScenario> all = {
      {"saves in a row",
       [](CutRun& run, FileOps& ops) {
         save_all(run, ops, {}, {{.step = 10}, {.step = 20}, {.step = 30}, {.step = 40}});
       },
       empty},
      {"in a directory just made",
       [](CutRun& run, FileOps& ops) {
         must(ops.mkdir(kRunDirectory));
         save_three(run, ops);
       },
       empty},
      {"two in flight", save_overlapping, empty},
      {"retention", [](CutRun& run, FileOps& ops) { save_keeping(run, ops, 2, 5); }, empty},
      {"retention of what went wrong", save_gone_wrong, empty},
      {"rewind", save_rewound, empty},
      {"rewind to what latest names", save_one_step_thrice, empty},
      {"notes and pins", save_and_annotate, empty},
      {"takeover and sweep", take_over, after_a_death()},
      {"takeover in retention", take_over_in_retention, after_a_death_in_retention()},
      {"ranks",
       [](CutRun& run, FileOps& ops) {
         save_on_ranks(run, {.saves = {{.step = 10}, {.step = 20}, {.step = 30}},
                             .ops = [&](std::uint32_t) -> FileOps& { return ops; }});
       },
       empty, true},
      {"ranks, rewound", rewind_on_ranks, empty, true},
      {"ranks, retention",
       [](CutRun& run, FileOps& ops) {
         save_on_ranks(run, {.rank_count = 2,
                             .saves = {{.step = 10}, {.step = 20}, {.step = 30}},
                             .retention = {.keep_last = 1},
                             .ops = [&](std::uint32_t) -> FileOps& { return ops; }});
       },
       empty, true},
      {"ranks, takeover", take_over_on_ranks, after_a_death(), true},
  };
  for (const char* point :
       {"checkpoint.parent_synced", "retention.retired", "retention.condemned", "owner.unlinked"})
    all.push_back({std::string("pin at ") + point,
                   [point](CutRun& run, FileOps& ops) { save_and_pin_at(run, ops, point); },
                   empty});
  for (const int fail_at : {15, 65})
    all.push_back({"failure of call " + std::to_string(fail_at),
                   [fail_at](CutRun& run, FileOps& ops) { save_with_a_failure(run, ops, fail_at); },
                   empty});
  return all;
}

std::string checkpoints_and_notes_hold(ModelDisk& disk, const CutPoint& point) {
  const auto began = static_cast<double>(point.count("annotating"));
  const auto ended = static_cast<double>(point.count("annotated"));
  if (began > 0) {
    const Result<StepNotes> notes = read_step_notes(opened(kRunDirectory, disk), 10);
    if (!notes.ok()) return std::string(notes.status().message());
    double found = 0;
    for (const auto& [generation, note] : *notes)
      if (const auto loss = note.values.find("loss"); loss != note.values.end())
        found = loss->second;
    if (found < ended || found > began) return "the note of " + std::to_string(found);
  }
  return checkpoints_hold(disk, point);
}

}  // namespace stoker::testing
