#include "checkpoint/restore_choice.h"

#include <cerrno>
#include <map>
#include <utility>

namespace stoker {
namespace {

/// Every round follows a step that went away since the last.
constexpr int kRoundsMax = 100;

/// Whether another checkpoint may do better.
bool is_damage(const Status& status) {
  return status.code() == Code::corrupt || status.os_error() == EIO;
}

class Chooser {
 public:
  Chooser(const RestoreRequest& request, const TryCheckpoint& attempt)
      : request_(request), attempt_(attempt) {}

  /// `not_found` if a step went away: list again.
  Result<RestoreChoice> round() {
    STOKER_ASSIGN(const Catalog catalog, list_checkpoints(request_.ops, request_.directory));
    choice_.passed_over.clear();
    if (!request_.name.empty()) return named(catalog);
    // One without a manifest may have been the newest of all: it is always told.
    for (const CatalogStep& step : catalog.steps) {
      if (step.damage.ok()) continue;
      if (step.damage.code() == Code::unsupported) return step.damage;
      choice_.passed_over.push_back({step.name, step.damage});
    }
    for (const CatalogStep& step : catalog.steps) {
      if (!step.damage.ok()) continue;
      Status status;
      if (request_.finite && step.has_new_nonfinite)
        status = Status(Code::corrupt, step.name + ": has new values that are not finite");
      if (status.ok()) status = try_step(step);
      if (status.ok()) {
        choice_.name = step.name;
        return choice_;
      }
      if (!is_damage(status)) return status;
      choice_.passed_over.push_back({step.name, status});
    }
    if (choice_.passed_over.empty()) return choice_;
    return none_holds();
  }

 private:
  Result<RestoreChoice> named(const Catalog& catalog) {
    const CatalogStep* step = catalog.find(request_.name);
    if (step == nullptr)
      return Status(Code::not_found,
                    request_.directory + ": there is no checkpoint " + request_.name);
    STOKER_TRY(step->damage);
    STOKER_TRY(try_step(*step));
    choice_.name = step->name;
    return choice_;
  }

  Status try_step(const CatalogStep& step) {
    // What was found damaged stays so; a second round need not read it again.
    const auto known = known_.find(step.name);
    if (known != known_.end() && known->second.first == step.generation)
      return known->second.second;
    Result<CheckpointReader> reader =
        CheckpointReader::open(request_.ops, request_.directory + "/" + step.name, request_.reader);
    Status status = reader.ok() ? attempt_(*reader) : reader.status();
    if (is_damage(status)) known_[step.name] = {step.generation, status};
    return status;
  }

  Status none_holds() const {
    std::string message = request_.directory + ": no checkpoint holds";
    for (const PassedOver& passed : choice_.passed_over)
      message += "; " + passed.name + ": " + std::string(passed.reason.message());
    return Status(Code::corrupt, message);
  }

  const RestoreRequest& request_;
  const TryCheckpoint& attempt_;
  RestoreChoice choice_;
  std::map<std::string, std::pair<std::uint64_t, Status>> known_;
};

}  // namespace

Result<RestoreChoice> choose_checkpoint(const RestoreRequest& request,
                                        const TryCheckpoint& attempt) {
  Chooser chooser(request, attempt);
  for (int i = 0;; ++i) {
    Result<RestoreChoice> choice = chooser.round();
    if (choice.ok() || !is_gone(choice.status()) || i == kRoundsMax) return choice;
    // A named step that the list does not have stays away; so does the directory.
    if (!request.name.empty()) {
      const Result<Catalog> catalog = list_checkpoints(request.ops, request.directory);
      if (!catalog.ok() || catalog->find(request.name) == nullptr) return choice;
    } else if (!request.ops.kind_of(request.directory).ok()) {
      return choice;
    }
  }
}

}  // namespace stoker
