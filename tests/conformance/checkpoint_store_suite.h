#pragma once

// What every CheckpointStore must do. An implementation is done when it passes this suite:
//
//   INSTANTIATE_TEST_SUITE_P(mine, CheckpointStoreSuite,
//                            ::testing::Values(CheckpointStoreMaker{"mine", make_my_place}),
//                            checkpoint_store_name);

#include <gtest/gtest.h>

#include <barrier>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/manifest/names.h"
#include "conformance/checkpoint_store_fixture.h"

namespace stoker::testing {

TEST_P(CheckpointStoreSuite, what_was_committed_is_listed_and_opens_with_the_same_bytes) {
  const Writer writer = write();
  EXPECT_TRUE(names().empty());
  save(writer, 1, 1, small_);
  save(writer, 20, 2, other_);
  EXPECT_EQ(names(), (std::set<std::string>{step_name(1), step_name(20)}));
  expect_files(step_name(1), small_);
  expect_files(step_name(20), other_);
  const std::shared_ptr<const CheckpointStore> reader = place_->open();
  const Result<CheckpointManifest> manifest = reader->read_manifest(step_name(20));
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  EXPECT_EQ(manifest->generation, 2U);
  EXPECT_TRUE(reader->find_step(step_name(20)).ok());
  EXPECT_EQ(reader->find_step(step_name(2)).status().code(), Code::not_found);
  EXPECT_EQ(reader->open_step(step_name(2)).status().code(), Code::not_found);
  const Result<std::unique_ptr<OpenStep>> step = reader->open_step(step_name(20));
  ASSERT_TRUE(step.ok());
  Result<std::vector<std::string>> files = (*step)->list_files();
  ASSERT_TRUE(files.ok());
  std::ranges::sort(*files);
  EXPECT_EQ(*files,
            (std::vector<std::string>{std::string(kManifestName), "rank-00000.safetensors"}));
  EXPECT_EQ((*step)->find_file("rank-00000.safetensors")->size_bytes, 11U);
  EXPECT_EQ((*step)->find_file("rank-00001.safetensors").status().code(), Code::not_found);
}

TEST_P(CheckpointStoreSuite, what_was_staged_and_not_committed_is_never_visible) {
  std::string staging;
  {
    const Writer writer = write();
    staging = writer.writer->staging_name(1, ++number_);
    ASSERT_TRUE(stage(*writer.store, staging, small_).ok());
    EXPECT_TRUE(names().empty());
    EXPECT_EQ(place_->open()->find_step(step_name(1)).status().code(), Code::not_found);
    const Result<CheckpointPart> part = writer.store->read_part(staging, 0);
    ASSERT_TRUE(part.ok()) << part.status().message();
    EXPECT_EQ(part->files, described(small_));
    EXPECT_FALSE(writer.store->read_part(staging, 1).ok());
    const std::string failed = writer.writer->staging_name(2, ++number_);
    ASSERT_TRUE(stage(*writer.store, failed, small_).ok());
    writer.writer->discard_staged(failed);
    EXPECT_FALSE(writer.store->read_part(failed, 0).ok());
  }
  const Writer next = write("b");
  EXPECT_TRUE(names().empty());
  EXPECT_FALSE(next.store->read_part(staging, 0).ok()) << "a dead writer's part was not swept";
  save(next, 1, 1, other_);
  expect_files(step_name(1), other_);
}

TEST_P(CheckpointStoreSuite, of_two_commits_of_one_name_at_once_exactly_one_wins) {
  const Writer writer = write();
  for (std::uint64_t step = 1; step <= 20; ++step) {
    const std::vector<Files> contents{small_, other_};
    std::vector<std::string> staging;
    for (const Files& files : contents) {
      staging.push_back(writer.writer->staging_name(step, ++number_));
      ASSERT_TRUE(stage(*writer.store, staging.back(), files).ok());
    }
    std::barrier start(2);
    std::vector<Status> ended(2);
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < 2; ++i)
        threads.emplace_back([&, i] {
          const CheckpointManifest manifest = manifest_of(step, step, contents[i]);
          start.arrive_and_wait();
          ended[i] = commit(writer, staging[i], manifest);
        });
    }
    ASSERT_NE(ended[0].ok(), ended[1].ok()) << ended[0].message() << ended[1].message();
    const std::size_t winner = ended[0].ok() ? 0 : 1;
    EXPECT_EQ(ended[1 - winner].code(), Code::already_exists) << ended[1 - winner].message();
    expect_files(step_name(step), contents[winner]);
  }
}

TEST_P(CheckpointStoreSuite, a_step_that_is_saved_again_becomes_a_superseded_one) {
  const Writer writer = write();
  save(writer, 5, 1, small_);
  const std::string staging = writer.writer->staging_name(5, ++number_);
  ASSERT_TRUE(stage(*writer.store, staging, other_).ok());
  const Status committed = commit(writer, staging, manifest_of(5, 2, other_), 1);
  ASSERT_TRUE(committed.ok()) << committed.message();
  EXPECT_EQ(names(), (std::set<std::string>{step_name(5), superseded_name(5, 1)}));
  expect_files(step_name(5), other_);
  expect_files(superseded_name(5, 1), small_);
}

TEST_P(CheckpointStoreSuite, the_lock_has_one_holder_and_is_free_when_that_has_ended) {
  {
    const Writer first = write("a");
    EXPECT_FALSE(first.lock->find_successor());
    const Result<Writer> second = try_write("b", kLessThanTtl);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.status().code(), Code::unavailable);
    EXPECT_NE(second.status().message().find("on a"), std::string_view::npos)
        << "it does not name the holder: " << second.status().message();
    save(first, 1, 1, small_);
  }
  const Result<Writer> second = try_write("b", kLessThanTtl);
  ASSERT_TRUE(second.ok()) << second.status().message();
  expect_files(step_name(1), small_);
}

TEST_P(CheckpointStoreSuite, a_writer_whose_lock_was_taken_over_commits_and_removes_nothing) {
  const Writer slow = write("a");
  save(slow, 1, 1, small_);
  const CatalogStep first = catalog_step(*slow.store, step_name(1));
  const std::string staging = slow.writer->staging_name(2, ++number_);
  ASSERT_TRUE(stage(*slow.store, staging, other_).ok());
  EXPECT_TRUE(slow.writer->is_owner());

  const Writer fast = write("b");  // waits for the ttl
  EXPECT_FALSE(slow.writer->is_owner());
  EXPECT_TRUE(slow.lock->find_successor());
  EXPECT_FALSE(commit(slow, staging, manifest_of(2, 2, other_)).ok());
  EXPECT_FALSE(retire_checkpoint(*slow.writer, first, nullptr).ok());
  EXPECT_EQ(names(), std::set<std::string>{step_name(1)});
  expect_files(step_name(1), small_);
  save(fast, 2, 2, small_);
  expect_files(step_name(2), small_);
}

TEST_P(CheckpointStoreSuite, a_retired_step_vanishes_as_a_whole_and_its_note_stays) {
  const Writer writer = write();
  save(writer, 1, 1, small_);
  save(writer, 2, 2, small_);
  ASSERT_TRUE(annotate_checkpoint(*writer.store, 1, 1, {{"loss", 0.5}}, kLine).ok());
  const std::map<std::uint64_t, StepNotes> noted = read_all_notes(*writer.store)->by_step;
  ASSERT_TRUE(noted.contains(1));
  const CatalogStep step = catalog_step(*writer.store, step_name(1));
  const Result<std::optional<std::string>> condemned =
      retire_checkpoint(*writer.writer, step, &noted.at(1).at(1));
  ASSERT_TRUE(condemned.ok()) << condemned.status().message();
  ASSERT_TRUE(condemned->has_value());
  EXPECT_EQ(names(), std::set<std::string>{step_name(2)});
  EXPECT_EQ(place_->open()->open_step(step_name(1)).status().code(), Code::not_found);
  ASSERT_TRUE(writer.writer->remove(**condemned).ok());
  expect_files(step_name(2), small_);
  // What was said counts for its generation, whether that is there or not.
  EXPECT_EQ(read_all_notes(*place_->open())->greatest_generation(), 1U);
  EXPECT_EQ(pin_checkpoint(*place_->open(), 1, 1, true).code(), Code::not_found);
}

TEST_P(CheckpointStoreSuite, a_pin_that_has_returned_holds) {
  const Writer writer = write();
  save(writer, 1, 1, small_);
  const CatalogStep step = catalog_step(*writer.store, step_name(1));
  ASSERT_TRUE(pin_checkpoint(*place_->open(), 1, 1, true, kLine).ok());
  const Result<std::optional<std::string>> condemned =
      retire_checkpoint(*writer.writer, step, nullptr);
  ASSERT_TRUE(condemned.ok()) << condemned.status().message();
  EXPECT_FALSE(condemned->has_value());
  expect_files(step_name(1), small_);
}

TEST_P(CheckpointStoreSuite, nobody_sees_a_step_while_it_is_asked_whether_it_may_go) {
  const Writer writer = write();
  save(writer, 1, 1, small_);
  bool was_visible = true;
  const Result<std::optional<std::string>> condemned =
      writer.writer->retire({.name = step_name(1),
                             .parsed = {.step = 1, .superseded_generation = {}},
                             .generation = 1,
                             .may_go = [&](const Result<CheckpointManifest>& manifest) {
                               EXPECT_TRUE(manifest.ok() && manifest->generation == 1);
                               was_visible = names().contains(step_name(1));
                               return false;
                             }});
  ASSERT_TRUE(condemned.ok()) << condemned.status().message();
  EXPECT_FALSE(condemned->has_value());
  EXPECT_FALSE(was_visible);
  expect_files(step_name(1), small_);
}

TEST_P(CheckpointStoreSuite, what_a_dead_writer_has_put_out_of_sight_is_there_again_or_gone) {
  struct Death {};
  const Writer writer = write("a");
  save(writer, 1, 1, small_);
  save(writer, 2, 2, other_);
  ASSERT_TRUE(pin_checkpoint(*writer.store, 1, 1, true, kLine).ok());
  EXPECT_THROW(static_cast<void>(writer.writer->retire(
                   {.name = step_name(1),
                    .parsed = {.step = 1, .superseded_generation = {}},
                    .generation = 1,
                    .may_go = [](const Result<CheckpointManifest>&) -> bool { throw Death(); }})),
               Death);
  EXPECT_FALSE(names().contains(step_name(1)));
  const Writer next = write("b");
  expect_files(step_name(1), small_);
  expect_files(step_name(2), other_);
}

TEST_P(CheckpointStoreSuite, what_was_reused_from_the_parent_survives_its_retirement) {
  const Writer writer = write();
  save(writer, 1, 1, small_);
  const std::string group = "rank-00000-group-000.safetensors";
  const FileInfo committed = infos_.at(group);
  infos_.clear();
  const auto is_as_committed = [&](const FileInfo& there) {
    FileInfo expected = committed;
    expected.link_count = there.link_count;
    return there == expected;
  };
  Files files = small_;
  files["rank-00000.safetensors"] = "changed";
  const std::string staging = writer.writer->staging_name(2, ++number_);
  const Status staged =
      stage(*writer.store, staging, files,
            {{group, {.step = step_name(1), .name = group, .is_as_committed = is_as_committed}}});
  ASSERT_TRUE(staged.ok()) << staged.message();
  EXPECT_FALSE(infos_.contains(group)) << "it was written, not reused";
  ASSERT_TRUE(commit(writer, staging, manifest_of(2, 2, files)).ok());
  const Result<bool> removed =
      remove_checkpoint(*writer.writer, catalog_step(*writer.store, step_name(1)));
  ASSERT_TRUE(removed.ok() && *removed) << removed.status().message();
  expect_files(step_name(2), files);
}

TEST_P(CheckpointStoreSuite, a_file_that_is_not_as_it_was_committed_is_not_reused) {
  const Writer writer = write();
  save(writer, 1, 1, small_);
  const std::string staging = writer.writer->staging_name(2, ++number_);
  infos_.clear();
  std::map<std::string, ReuseSource> reused;
  for (const auto& [name, bytes] : small_)
    reused[name] = {.step = step_name(1), .name = name, .is_as_committed = [](const FileInfo&) {
                      return false;
                    }};
  ASSERT_TRUE(stage(*writer.store, staging, small_, reused).ok());
  EXPECT_EQ(infos_.size(), small_.size());
  ASSERT_TRUE(commit(writer, staging, manifest_of(2, 2, small_)).ok());
  expect_files(step_name(2), small_);
}

TEST_P(CheckpointStoreSuite, nothing_is_committed_from_what_a_rank_has_abandoned) {
  const Writer writer = write();
  const std::string staging = writer.writer->staging_name(1, ++number_);
  ASSERT_TRUE(stage(*writer.store, staging, small_).ok());
  const std::shared_ptr<const CheckpointStore> rank = place_->open();
  EXPECT_FALSE(rank->is_abandoned(staging));
  EXPECT_EQ(rank->abandon(staging), Abandoned::done);
  EXPECT_EQ(rank->abandon(staging), Abandoned::done);
  EXPECT_TRUE(writer.store->is_abandoned(staging));
  EXPECT_EQ(commit(writer, staging, manifest_of(1, 1, small_)).code(), Code::not_found);
  EXPECT_TRUE(names().empty());
  const std::string next = writer.writer->staging_name(1, ++number_);
  ASSERT_TRUE(stage(*writer.store, next, small_).ok());
  ASSERT_TRUE(commit(writer, next, manifest_of(1, 1, small_)).ok());
  EXPECT_EQ(rank->abandon(next), Abandoned::not_there);
  expect_files(step_name(1), small_);
}

TEST_P(CheckpointStoreSuite, of_notes_that_are_changed_at_once_none_is_lost) {
  constexpr int kThreads = 4;
  constexpr int kChanges = 10;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&] {
        const std::shared_ptr<const CheckpointStore> store = place_->open();
        for (int n = 0; n < kChanges; ++n) {
          const Status status = store->update_note(
              7,
              [](const std::optional<std::string>& text) {
                return Result<std::string>(text.value_or("") + "x");
              },
              is_fine);
          EXPECT_TRUE(status.ok()) << status.message();
        }
      });
  }
  const std::shared_ptr<const CheckpointStore> store = place_->open();
  EXPECT_EQ(*store->read_note(7), std::string(kThreads * kChanges, 'x'));
  EXPECT_EQ(*store->list_notes(), std::vector<std::uint64_t>{7});
  EXPECT_EQ(store->read_note(8).status().code(), Code::not_found);
  const Status refused = store->update_note(
      7,
      [](const std::optional<std::string>&) {
        return Result<std::string>(Status(Code::invalid_argument, "no"));
      },
      is_fine);
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  const Status doubted = store->update_note(
      7, [](const std::optional<std::string>& text) { return Result<std::string>(*text); },
      [] { return Status(Code::not_found, "gone"); });
  EXPECT_EQ(doubted.code(), Code::not_found);
  EXPECT_EQ(store->read_note(7)->size(), static_cast<std::size_t>(kThreads * kChanges));
}

TEST_P(CheckpointStoreSuite, a_manifest_and_a_note_tell_whether_they_are_the_same) {
  const Writer writer = write();
  save(writer, 1, 1, small_);
  save(writer, 2, 2, small_);
  const auto version = [&](std::uint64_t step) {
    return *place_->open()->find_manifest(step_name(step));
  };
  EXPECT_EQ(version(1), version(1));
  EXPECT_NE(version(1), version(2));
  const auto write_note = [&](const std::string& text) {
    ASSERT_TRUE(
        writer.store
            ->update_note(
                1, [&](const std::optional<std::string>&) { return Result<std::string>(text); },
                is_fine)
            .ok());
  };
  write_note("one");
  const FileInfo before = *writer.store->find_note(1);
  EXPECT_EQ(*writer.store->find_note(1), before);
  write_note("another");
  EXPECT_NE(*writer.store->find_note(1), before);
}

}  // namespace stoker::testing
