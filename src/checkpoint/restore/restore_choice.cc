#include "checkpoint/restore/restore_choice.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace stoker {
namespace {

/// A round is repeated only if a step has disappeared since the list, or manifests must be read.
constexpr int kRoundsMax = 100;

class Chooser {
 public:
  Chooser(const RestoreRequest& request, const TryCheckpoint& attempt)
      : request_(request), attempt_(attempt), reader_(request.directory) {
    if (request.finite) reader_.forget_unverified();  // non-finite counts are compared across steps
  }

  /// Lists and tries once. `not_found` if a step has disappeared: call it again.
  Result<RestoreChoice> round() {
    STOKER_ASSIGN(Catalog catalog, reader_.list_newest());
    choice_ = {};
    if (!request_.name.empty()) return named(catalog);
    if (!std::ranges::all_of(catalog.steps, &CatalogStep::is_valid)) {
      STOKER_ASSIGN(catalog, list_after_damage(catalog));
    }
    // A step without a readable manifest may have been the newest: it is always reported.
    for (const CatalogStep& step : catalog.steps) {
      if (step.is_valid()) continue;
      if (!is_damage(step.problem) && may_be_newest(step, catalog))
        return unreadable(step, step.problem);
      choice_.passed_over.push_back({step.name, step.problem});
    }
    for (const CatalogStep* const one : newest_first(catalog)) {
      const CatalogStep& step = *one;
      Status status;
      if (request_.finite && step.has_new_nonfinite)
        status = Status(Code::corrupt, step.name + ": has new non-finite values");
      if (status.ok() && request_.may_restore) status = request_.may_restore(step);
      const bool is_tried = status.ok();
      if (is_tried) status = try_step(step);
      if (status.ok()) {
        choice_.name = step.name;
        tell_other_run(step, catalog);
        return choice_;
      }
      if (!is_damage(status)) return status;
      if (std::ranges::any_of(catalog.steps, &CatalogStep::is_unverified)) {
        reader_.forget_unverified();
        return Status(Code::not_found, "the manifests must be read first");  // another round
      }
      choice_.passed_over.push_back({step.name, status, is_tried ? step.generation : 0});
    }
    if (choice_.passed_over.empty()) return choice_;
    return none_is_valid();
  }

 private:
  Result<RestoreChoice> named(const Catalog& catalog) {
    const CatalogStep* step = catalog.find(request_.name);
    if (step == nullptr)
      return Status(Code::not_found, request_.directory->path() + ": there is no checkpoint " +
                                         request_.name + "; " +
                                         tell_others(catalog, request_.name));
    STOKER_TRY(step->problem);
    if (request_.may_restore) STOKER_TRY(request_.may_restore(*step));
    STOKER_TRY(try_step(*step));
    choice_.name = step->name;
    return choice_;
  }

  Status try_step(const CatalogStep& step) {
    // A damaged checkpoint stays damaged; a second round need not read it again.
    const auto known = known_.find(step.name);
    if (known != known_.end() && known->second.first == step.generation)
      return known->second.second;
    Result<CheckpointReader> reader =
        CheckpointReader::open(*request_.directory, step.name, request_.reader);
    if (reader.ok() && reader->manifest().generation != step.generation) {
      reader_.forget(step.name);  // it has changed since it was listed
      return Status(Code::not_found, step.name + ": was replaced by another checkpoint");
    }
    Status status = reader.ok() ? attempt_(*reader) : reader.status();
    if (!reader.ok() && !is_damage(status) && !is_gone(status)) return unreadable(step, status);
    if (is_damage(status)) known_[step.name] = {step.generation, status};
    return status;
  }

  /// Lists again without the catalog file, which must not decide which checkpoint is next. The file
  /// is used only to learn what the newest damaged checkpoint was.
  Result<Catalog> list_after_damage(const Catalog& catalog) {
    for (const CatalogStep& step : catalog.steps)
      if (step.lost != nullptr && (lost_ == nullptr || step.lost->generation > lost_->generation)) {
        lost_ = step.lost;
        lost_name_ = step.name;
      }
    reader_.forget_unverified();
    return reader_.list();
  }

  bool is_newest_lost(const Catalog& catalog) const {
    const CatalogStep* const newest = catalog.newest();
    return lost_ != nullptr && newest != nullptr && lost_->generation > newest->generation;
  }

  /// Adds to the reason if the checkpoint that is used instead of the newest is of another run.
  void tell_other_run(const CatalogStep& taken, const Catalog& catalog) {
    if (!is_newest_lost(catalog) || continues(*lost_, *taken.summary)) return;
    for (PassedOver& passed : choice_.passed_over)
      if (passed.name == lost_name_)
        passed.reason = Status(passed.reason.code(),
                               std::string(passed.reason.message()) +
                                   "; no checkpoint that it continues could be restored, and " +
                                   taken.name + ", which is taken instead, is of another run");
  }

  /// Returns the valid steps. Those that the newest of them continues come before those abandoned
  /// by rewinding: if the newest is damaged, the run continues from its own past.
  std::vector<const CatalogStep*> newest_first(const Catalog& catalog) const {
    std::vector<const CatalogStep*> steps;
    for (const CatalogStep& step : catalog.steps)
      if (step.is_valid()) steps.push_back(&step);
    // What only some nodes have says nothing about the others. It stays in front, and is skipped.
    const auto first = std::ranges::find_if(steps, [&](const CatalogStep* step) {
      return !request_.may_restore || request_.may_restore(*step).ok();
    });
    if (first == steps.end()) return steps;
    const StepSummary* newest = (*first)->summary.get();
    if (is_newest_lost(catalog)) newest = lost_.get();
    std::ranges::stable_partition(first, steps.end(), [&](const CatalogStep* step) {
      return continues(*newest, *step->summary);
    });
    return steps;
  }

  /// Whether an unreadable step may be the newest. A superseded one has its generation in its name.
  static bool may_be_newest(const CatalogStep& step, const Catalog& catalog) {
    const CatalogStep* newest = catalog.newest();
    return step.generation == 0 || newest == nullptr || step.generation > newest->generation;
  }

  static Status unreadable(const CatalogStep& step, const Status& problem) {
    if (problem.code() == Code::unsupported) return problem;
    return problem.with_context(
        step.name +
        " cannot be read, and may be the newest; make it readable, or name the step to "
        "restore");
  }

  Status none_is_valid() const {
    std::string message = request_.directory->path() + ": no checkpoint is valid";
    for (const PassedOver& passed : choice_.passed_over)
      message += "; " + passed.name + ": " + std::string(passed.reason.message());
    return Status(Code::corrupt, message);
  }

  const RestoreRequest& request_;
  const TryCheckpoint& attempt_;
  CatalogReader reader_;
  RestoreChoice choice_;
  std::shared_ptr<const StepSummary> lost_;  // of the newest step whose manifest is damaged
  std::string lost_name_;
  std::map<std::string, std::pair<std::uint64_t, Status>> known_;
};

}  // namespace

Result<RestoreChoice> choose_checkpoint(const RestoreRequest& request,
                                        const TryCheckpoint& attempt) {
  Chooser chooser(request, attempt);
  for (int i = 0;; ++i) {
    Result<RestoreChoice> choice = chooser.round();
    if (choice.ok() || !is_gone(choice.status()) || i == kRoundsMax) return choice;
    // A named step that the list does not contain will not come back, nor will the store.
    if (!request.name.empty()) {
      const Result<Catalog> catalog = list_checkpoints(*request.directory);
      if (!catalog.ok() || catalog->find(request.name) == nullptr) return choice;
    } else if (const Result<bool> is_there = request.directory->is_there();
               !is_there.ok() || !*is_there) {
      return choice;
    }
  }
}

}  // namespace stoker
