#include "checkpoint/restore/restore_agreement.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/ranks/message_json.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// How long a new name, or what it leads to, may be invisible on other machines.
constexpr nanoseconds kSeenAfter = seconds(5);
constexpr nanoseconds kLookEvery = milliseconds(100);
constexpr nanoseconds kFarewell = seconds(10);

/// A status that ends choose_checkpoint() without another try; the real result is kept elsewhere.
Status over() {
  return Status(Code::cancelled, "the ranks have agreed");
}

Json texts_json(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push_back(text);
  return json;
}

Json report_json(const RestoreReport& report) {
  return {{"failure", failure_json(report.status)},
          {"detail", report.detail},
          {"is_callers", report.is_callers ? 1U : 0U},
          {"lacks", texts_json(report.lacks)},
          {"is_lenient", report.is_lenient ? 1U : 0U}};
}

RestoreReport report_of(MessageMembers& members) {
  return {.status = members.failure(),
          .detail = members.text("detail"),
          .is_callers = members.number("is_callers") != 0,
          .lacks = members.texts("lacks"),
          .is_lenient = members.number("is_lenient") != 0};
}

Result<RestoreReport> parse_report(std::string_view text) {
  MessageMembers members(text);
  RestoreReport report = report_of(members);
  STOKER_TRY(members.check());
  return report;
}

std::string format_failure(const std::optional<RestoreFailure>& failure) {
  if (!failure) return message_text({{"rank", "none"}});
  Json message = report_json(failure->report);
  message["rank"] = failure->rank;
  message["is_of_trial"] = failure->is_of_trial ? 1U : 0U;
  return message_text(message);
}

/// `unused`: see Outcome; ignored if there is a failure.
std::string format_decision(const std::optional<RestoreFailure>& failure,
                            const std::vector<std::string>& unused) {
  if (failure || unused.empty()) return format_failure(failure);
  Json message{{"rank", "none"}};
  message["unused"] = texts_json(unused);
  return message_text(message);
}

Result<std::optional<RestoreFailure>> parse_failure(std::string_view text) {
  MessageMembers none(text);
  if (none.text("rank") == "none") return std::optional<RestoreFailure>();
  MessageMembers members(text);
  RestoreFailure failure{.rank = static_cast<std::uint32_t>(members.number("rank")),
                         .report = report_of(members),
                         .is_of_trial = members.number("is_of_trial") != 0};
  STOKER_TRY(members.check(!failure.report.status.ok()));
  return std::optional(std::move(failure));
}

std::string asked_for(std::string_view name, bool finite) {
  return (name.empty() ? "the newest checkpoint" : std::string(name)) +
         (finite ? " that is finite" : "");
}

/// Returns the failure that decides: one that ends the restore, else something gone, else damage.
std::optional<RestoreFailure> worst_of(std::vector<RestoreReport> reports) {
  const auto weight = [](const RestoreReport& report) {
    if (!report.passes_over()) return 0;
    return is_damage(report.status) ? 2 : 1;
  };
  std::optional<RestoreFailure> worst;
  for (std::uint32_t rank = 0; rank < reports.size(); ++rank) {
    RestoreReport& report = reports[rank];
    if (report.status.ok() || (worst && weight(worst->report) <= weight(report))) continue;
    worst = RestoreFailure{.rank = rank, .report = std::move(report), .is_of_trial = true};
  }
  return worst;
}

/// Returns what the checkpoint has and no rank.
std::vector<std::string> find_unused(std::span<const RestoreReport> reports) {
  if (reports.empty()) return {};
  std::vector<std::string> unused = reports.front().lacks;
  for (const RestoreReport& report : reports.subspan(1)) {
    const std::unordered_set<std::string_view> lacks(report.lacks.begin(), report.lacks.end());
    std::erase_if(unused, [&](const std::string& line) { return !lacks.contains(line); });
  }
  return unused;
}

RestoreFailure unused_failure(std::span<const std::string> unused) {
  constexpr std::size_t kToldMax = 10;
  std::string text = "no rank has these:";
  for (std::size_t i = 0; i < unused.size() && i < kToldMax; ++i) text += "\n  " + unused[i];
  if (unused.size() > kToldMax)
    text += "\n  and " + std::to_string(unused.size() - kToldMax) + " more";
  return RestoreFailure{.report = {.status = Status(Code::invalid_argument, std::move(text))}};
}

}  // namespace

bool RestoreReport::passes_over() const noexcept {
  return !is_callers && (is_damage(status) || is_gone(status));
}

RestoreAgreement::RestoreAgreement(Coordinator& coordinator, Deadline deadline,
                                   std::function<Status(nanoseconds)> pause)
    : coordinator_(coordinator), deadline_(deadline), pause_(std::move(pause)) {
  if (pause_) return;
  pause_ = [](nanoseconds duration) {
    std::this_thread::sleep_for(duration);
    return Status();
  };
}

Status RestoreAgreement::lost(const Status& status) {
  if (lost_.ok()) lost_ = status;
  return status;
}

/// Broadcasts rank 0's text; returns it on every rank.
Result<std::string> RestoreAgreement::tell(const char* what, const std::string& text) {
  Result<std::string> told =
      coordinator_.broadcast(what + ("-" + std::to_string(round_)), text, deadline_);
  if (!told.ok()) return lost(told.status());
  return told;
}

/// Gathers the texts of all ranks on rank 0; returns an empty list on the others.
Result<std::vector<std::string>> RestoreAgreement::hear(const std::string& text) {
  Result<std::vector<std::string>> heard =
      coordinator_.gather("tried-" + std::to_string(round_), text, deadline_);
  if (!heard.ok()) return lost(heard.status());
  return heard;
}

Result<RestoreChoice> RestoreAgreement::choose(const RankRequest& request,
                                               const TryCheckpoint& attempt) const {
  STOKER_ASSIGN(StoreHandle directory, request.open());
  RestoreRequest wanted{.directory = std::move(directory),
                        .name = request.name,
                        .finite = request.finite,
                        .reader = request.reader};
  if (held_.size() > 1)
    wanted.may_restore = [this](const CatalogStep& step) { return check_common(held_, step); };
  return choose_checkpoint(wanted, attempt);
}

/// Gathers what each rank has on rank 0.
Result<std::optional<RestoreFailure>> RestoreAgreement::compare_places(const RankRequest& request) {
  ++round_;
  const Result<HeldCheckpoints> own = list_held(request.open);
  Json message = report_json({.status = own.status()});
  if (own.ok()) message["held"] = format_held(*own);
  STOKER_ASSIGN(const std::vector<std::string> said, hear(message_text(message)));
  if (own.ok()) held_ = {*own};
  std::optional<RestoreFailure> found;
  for (std::uint32_t rank = 0; rank < said.size() && !found; ++rank) {
    STOKER_ASSIGN(RestoreReport report, parse_report(said[rank]));
    if (!report.status.ok()) {
      found = RestoreFailure{.rank = rank, .report = std::move(report)};
    } else if (rank > 0) {
      MessageMembers members(said[rank]);
      STOKER_ASSIGN(HeldCheckpoints held, parse_held(members.text("held")));
      held_.push_back(std::move(held));
    }
  }
  STOKER_ASSIGN(const std::string told, tell("compared", format_failure(found)));
  return parse_failure(told);
}

Result<RestoreAgreement::Outcome> RestoreAgreement::restore(const RankRequest& request,
                                                            const RestoreTrial& trial) {
  const std::string own =
      message_text({{"name", request.name},
                    {"finite", request.finite ? 1U : 0U},
                    {"has_private_disks", request.has_private_disks ? 1U : 0U}});
  Result<std::optional<RestoreFailure>> compared = compare(own, &request);
  if (compared.ok() && !*compared && request.has_private_disks && coordinator_.world_size() > 1)
    compared = compare_places(request);
  // Rank 0 must not read later what a rank has told that gives up now.
  if (!compared.ok() && coordinator_.rank() != 0)
    coordinator_.withdraw("tried-" + std::to_string(round_));
  STOKER_ASSIGN(std::optional<RestoreFailure> failure, std::move(compared));
  if (failure) return Outcome{.failure = std::move(failure)};
  return coordinator_.rank() == 0 ? lead(request, trial) : follow(request, trial);
}

Status RestoreAgreement::refuse(const RestoreReport& why) {
  return compare(message_text(report_json(why)), nullptr).status();
}

/// Compares the requests of all ranks. `request` is null on a rank that refuses.
Result<std::optional<RestoreFailure>> RestoreAgreement::compare(const std::string& own,
                                                                const RankRequest* request) {
  ++round_;
  STOKER_ASSIGN(const std::vector<std::string> said, hear(own));
  std::optional<RestoreFailure> found;
  std::optional<std::uint32_t> other;
  for (std::uint32_t rank = 0; rank < said.size() && !found; ++rank) {
    MessageMembers members(said[rank]);
    if (!members.has("name")) {
      STOKER_ASSIGN(RestoreReport report, parse_report(said[rank]));
      found = RestoreFailure{.rank = rank, .report = std::move(report)};
    } else if (said[rank] != own && !other) {
      other = rank;
    }
  }
  if (!found && other && request != nullptr) {
    MessageMembers members(said[*other]);
    const std::string theirs = asked_for(members.text("name"), members.number("finite") != 0);
    const bool is_private = members.number("has_private_disks") != 0;
    STOKER_TRY(members.check());
    if (is_private != request->has_private_disks)
      found = RestoreFailure{
          .report = {.status = Status(Code::invalid_argument,
                                      request->path + ": only one of the ranks 0 and " +
                                          std::to_string(*other) +
                                          " has disks=\"private\": it must be the same on all")}};
    else
      found = RestoreFailure{
          .report = {.status = Status(Code::invalid_argument,
                                      request->path + ": rank 0 restores " +
                                          asked_for(request->name, request->finite) + " and rank " +
                                          std::to_string(*other) + " restores " + theirs +
                                          ": all ranks must restore the same checkpoint")}};
  }
  STOKER_ASSIGN(const std::string told, tell("compared", format_failure(found)));
  return parse_failure(told);
}

Result<RestoreAgreement::Outcome> RestoreAgreement::lead(const RankRequest& request,
                                                         const RestoreTrial& trial) {
  const auto chosen = [&]() -> Result<RestoreChoice> {
    if (held_.size() > 1 && request.name.empty())
      STOKER_TRY(check_acknowledged(held_, request.path));
    return choose(request, [&](const CheckpointReader& reader) { return lead_one(reader, trial); });
  };
  Result<RestoreChoice> choice = chosen();
  STOKER_TRY(lost_);
  if (failure_) return Outcome{.failure = std::move(failure_)};
  ++round_;
  if (is_gone(choice.status()) && request.name.empty() && !is_tried_) choice = RestoreChoice();
  if (choice.ok() && held_.size() > 1) choice = tell_partial(held_, request.path, *choice);
  if (!choice.ok()) {
    RestoreFailure failure{.report = {.status = choice.status()}};
    if (damage_ && !request.name.empty()) failure = *damage_;
    if (damage_) failure.report.detail = damage_->report.detail;
    STOKER_TRY(tell("try", format_failure(failure)).status());
    return Outcome{.failure = std::move(failure)};
  }
  Json passed_over = Json::array();
  Json generations = Json::array();
  for (const PassedOver& passed : choice->passed_over) {
    generations.push_back(passed.generation);
    Json& pair = passed_over.push_back(Json::array());
    pair.push_back(passed.name);
    pair.push_back(passed.reason.message());
  }
  Json end{{"chosen", choice->name}};
  end["passed_over"] = std::move(passed_over);
  end["generations"] = std::move(generations);
  STOKER_TRY(tell("try", message_text(end)).status());
  if (!is_tried_) STOKER_TRY(confirm());
  return Outcome{.choice = *std::move(choice), .unused = std::move(unused_)};
}

/// Has rank 0 wait until all ranks have received the end, if they have answered nothing since their
/// requests: one of them may have given up after its request was read.
Status RestoreAgreement::confirm() {
  ++round_;
  return hear("").status();
}

Status RestoreAgreement::lead_one(const CheckpointReader& reader, const RestoreTrial& trial) {
  ++round_;
  is_tried_ = true;
  unused_.clear();
  const std::string name = reader.directory().substr(reader.directory().rfind('/') + 1);
  STOKER_TRY(tell("try", message_text({{"name", name},
                                       {"generation", reader.manifest().generation},
                                       {"line", reader.manifest().line}}))
                 .status());
  STOKER_TRY(lead_in(trial.check(reader)));
  ++round_;
  return lead_in(trial.read(reader));
}

/// Gathers the results of all ranks and broadcasts the decision. The return value is for
/// choose_checkpoint(), which skips a damaged checkpoint.
Status RestoreAgreement::lead_in(const RestoreReport& own) {
  STOKER_ASSIGN(const std::vector<std::string> said, hear(message_text(report_json(own))));
  std::vector<RestoreReport> reports;
  for (const std::string& text : said) {
    Result<RestoreReport> report = parse_report(text);
    if (!report.ok()) return lost(report.status());
    reports.push_back(*std::move(report));
  }
  const std::vector<std::string> unused = find_unused(reports);
  const bool is_lenient = std::ranges::all_of(reports, &RestoreReport::is_lenient);
  std::optional<RestoreFailure> failure;
  if (!unused.empty() && !is_lenient) failure = unused_failure(unused);
  if (std::optional<RestoreFailure> worst = worst_of(std::move(reports))) failure = worst;
  STOKER_TRY(tell("said", format_decision(failure, unused)).status());
  if (!failure) {
    if (!unused.empty()) unused_ = unused;
    return {};
  }
  const Status& status = failure->report.status;
  if (!failure->report.passes_over()) {
    failure_ = std::move(failure);
    return over();
  }
  if (!damage_) damage_ = failure;
  return failure->rank == 0 ? status : status.with_context("rank " + std::to_string(failure->rank));
}

Result<std::optional<RestoreFailure>> RestoreAgreement::agree(const RestoreReport& own) {
  STOKER_TRY(hear(message_text(report_json(own))).status());
  STOKER_ASSIGN(const std::string told, tell("said", ""));
  if (MessageMembers members(told); members.has("unused")) unused_ = members.texts("unused");
  return parse_failure(told);
}

Result<RestoreAgreement::Outcome> RestoreAgreement::follow(const RankRequest& request,
                                                           const RestoreTrial& trial) {
  for (;;) {
    ++round_;
    STOKER_ASSIGN(const std::string told, tell("try", ""));
    MessageMembers members(told);
    if (members.has("failure")) {
      STOKER_ASSIGN(std::optional<RestoreFailure> failure, parse_failure(told));
      return Outcome{.failure = std::move(failure)};
    }
    if (members.has("chosen")) {
      Outcome outcome{.unused = std::move(unused_)};
      outcome.choice.name = members.text("chosen");
      const auto passed_over = members.pairs("passed_over");
      const std::vector<std::uint64_t> generations = members.numbers("generations");
      STOKER_TRY(members.check(generations.size() == passed_over.size()));
      for (std::size_t i = 0; i < passed_over.size(); ++i)
        outcome.choice.passed_over.push_back(
            {passed_over[i].first, Status(Code::corrupt, passed_over[i].second), generations[i]});
      if (!is_tried_) STOKER_TRY(confirm());
      return outcome;
    }
    RankRequest named = request;
    named.name = members.text("name");
    named.finite = false;
    const std::uint64_t generation = members.number("generation");
    const std::string line = members.text("line");
    STOKER_TRY(members.check());
    is_tried_ = true;
    unused_.clear();
    if (!held_.empty()) named.name = name_of(held_.front(), generation, line);
    STOKER_ASSIGN(std::optional<RestoreFailure> failure,
                  follow_one(named, trial, generation, line));
    if (failure && !failure->report.passes_over()) return Outcome{.failure = std::move(failure)};
  }
}

/// Tries the checkpoint that rank 0 tries, and receives the decision for all ranks.
Result<std::optional<RestoreFailure>> RestoreAgreement::follow_one(const RankRequest& request,
                                                                   const RestoreTrial& trial,
                                                                   std::uint64_t generation,
                                                                   const std::string& line) {
  RestoreReport own;                      // the last result of this rank
  std::optional<RestoreFailure> refused;  // the failure of some rank's check
  const auto try_one = [&](const CheckpointReader& reader) -> Status {
    const CheckpointManifest& manifest = reader.manifest();
    if (manifest.generation != generation || manifest.line != line) {
      own.status =
          Status(Code::not_found, reader.directory() + ": generation " +
                                      std::to_string(manifest.generation) + " of " + manifest.line +
                                      ", not " + std::to_string(generation) + " of " + line);
      return over();
    }
    own = trial.check(reader);
    if (!own.status.ok()) return own.is_callers ? over() : own.status;
    Result<std::optional<RestoreFailure>> checked = agree(own);
    if (!checked.ok()) return checked.status();
    refused = *std::move(checked);
    if (refused) return over();
    ++round_;
    own = trial.read(reader);
    return own.status.ok() ? Status() : over();
  };
  const Deadline seen = std::min(deadline_, deadline_after(kSeenAfter));
  const std::uint64_t round = round_;
  for (;;) {
    own = {};
    const Result<RestoreChoice> choice = choose(request, try_one);
    STOKER_TRY(lost_);
    if (refused) return refused;
    if (!choice.ok() && own.status.ok()) own.status = choice.status();
    const bool is_unseen = round_ == round && !own.is_callers && is_gone(own.status);
    if (!is_unseen || Clock::now() >= seen) return agree(own);
    if (const Status paused = pause_(kLookEvery); !paused.ok()) return lost(paused);
  }
}

bool RestoreAgreement::take_leave() {
  ++round_;
  deadline_ = std::min(deadline_, deadline_after(kFarewell));
  return lost_.ok() && hear("").ok();
}

}  // namespace stoker
