#include "checkpoint/save/abandon_save.h"

#include <algorithm>

#include "checkpoint/manifest/names.h"

namespace stoker {
namespace {

/// Whether the checkpoint that has the step's name may be this save: it may also be one that a
/// rewound run has left.
bool may_be_published(const UnansweredSave& save) {
  const std::string name = step_name(save.step);
  const Result<StoredStep> there = save.store.find_step(name);
  if (!there.ok()) return there.status().code() != Code::not_found;
  const Result<CheckpointManifest> present = save.store.read_manifest(name);
  if (!present.ok()) return true;
  return std::ranges::all_of(save.part.files, [&](const CheckpointFile& file) {
    return std::ranges::find(present->files, file) != present->files.end();
  });
}

}  // namespace

SaveOutcome abandon_save(const UnansweredSave& save) {
  switch (save.store.abandon(save.staging)) {
    case Abandoned::done: return SaveOutcome::failed;
    case Abandoned::unknown: return SaveOutcome::unknown;
    case Abandoned::not_there: break;  // committed or removed before
  }
  return may_be_published(save) ? SaveOutcome::unknown : SaveOutcome::failed;
}

}  // namespace stoker
