#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "checkpoint/restore/restore_agreement.h"
#include "engine_setting.h"
#include "interrupts.h"
#include "open_checkpoint.h"
#include "session.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

/// A failed attempt, from Python: "damaged", "gone" or "failed", the message, details for the other
/// ranks, and whether the caller's own code failed. Or "lacks" or "unexpected", for a check that
/// has succeeded, with lines separated by a zero byte as the message: "lacks" if they fail the
/// restore when no rank has what they name.
using Report = std::tuple<std::string, std::string, std::string, bool>;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

RestoreReport report_of(const Report& report) {
  const auto& [kind, message, detail, is_callers] = report;
  if (kind == "lacks" || kind == "unexpected")
    return {.lacks = lines_of(message), .is_lenient = kind == "unexpected"};
  Code code = Code::invalid_argument;
  if (kind == "damaged") code = Code::corrupt;
  if (kind == "gone") code = Code::not_found;
  return {.status = Status(code, message), .detail = detail, .is_callers = is_callers};
}

/// Calls Python with checkpoints, on the thread that called us: native threads never take the GIL.
///
/// Thread safety: none.
class PythonTrial {
 public:
  PythonTrial(nb::callable check, nb::callable read)
      : check_(std::move(check)), read_(std::move(read)) {}

  RestoreTrial trial() {
    return {.check =
                [this](const CheckpointReader& reader) {
                  lend(&reader);
                  return call(check_);
                },
            .read =
                [this](const CheckpointReader&) {
                  const RestoreReport report = call(read_);
                  lend(nullptr);
                  return report;
                }};
  }
  /// Raises an exception that is not a report, such as KeyboardInterrupt. Ends the lending.
  void end() {
    take_back();
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  /// Lends one object for a check and the read after it. The reader belongs to the restore: if the
  /// object is kept longer, it is closed.
  void lend(const CheckpointReader* reader) {
    const TakenGil gil;
    take_back();
    if (reader != nullptr)
      lent_ = nb::cast(OpenCheckpoint{{std::shared_ptr<const CheckpointReader>(), reader}});
  }
  void take_back() {
    if (lent_.is_valid()) nb::cast<OpenCheckpoint&>(lent_).reader.reset();
    lent_.reset();
  }

  RestoreReport call(const nb::callable& act) {
    const TakenGil gil;
    try {
      const nb::object answer = act(lent_);
      return answer.is_none() ? RestoreReport() : report_of(nb::cast<Report>(answer));
    } catch (const nb::python_error& error) {
      raised_ = std::current_exception();
      return {.status = Status(Code::cancelled, "it was interrupted"), .is_callers = true};
    }
  }

  nb::callable check_;
  nb::callable read_;
  nb::object lent_;
  std::exception_ptr raised_;
};

/// Keeps the session alive: ranks that did not receive the end still need its messages.
void keep(const Session& session) {
  static auto& kept = *new std::vector<Session>();
  kept.push_back(session);
}

/// Ends the agreement, without the GIL. Returns whether all ranks have received its end.
bool leave(RestoreAgreement& agreement, const Session* session) {
  const bool is_heard = agreement.take_leave();
  if (!is_heard && session != nullptr && session->carried)
    session->carried->end(deadline_after(std::chrono::seconds(2)));
  return is_heard;
}

/// `session`: none for a single process. Returns the name of the restored checkpoint, empty if
/// there is none; those that were passed over; the generations of those whose data is damaged; the
/// failure that a rank reported: whether it is from this rank's last attempt, the message and the
/// detail; and the "unexpected" lines of all ranks.
nb::tuple restore(const nb::bytes& directory, const std::string& name, bool finite,
                  const std::optional<Session>& session,
                  const std::tuple<nb::callable, nb::callable>& trial,
                  std::optional<double> timeout, bool has_private_disks) {
  const std::string path = path_of(directory);
  const RankRequest request{.path = path,
                            .open = [&path]() -> Result<StoreHandle> {
                              STOKER_ASSIGN(const CheckpointDirectory opened,
                                            CheckpointDirectory::open(posix_file_ops(), path));
                              return StoreHandle(opened);
                            },
                            .name = name,
                            .finite = finite,
                            .reader = {.engine = make_engine_factory(engine_setting())},
                            .has_private_disks = has_private_disks};
  PythonTrial python(std::get<0>(trial), std::get<1>(trial));
  const std::shared_ptr<Coordinator> coordinator =
      session ? session->coordinator : std::shared_ptr<Coordinator>(make_single_coordinator());
  RestoreAgreement agreement(*coordinator, deadline_after(timeout_of(timeout)), Interrupts::pause);
  const Interrupts interrupts;
  bool is_heard = false;
  const Result<RestoreAgreement::Outcome> outcome = without_gil([&] {
    Result<RestoreAgreement::Outcome> restored = agreement.restore(request, python.trial());
    is_heard = leave(agreement, session ? &*session : nullptr);
    return restored;
  });
  if (!is_heard && session) keep(*session);
  python.end();
  interrupts.raise();
  raise_if_failed(outcome.status());
  nb::object failure = nb::none();
  if (outcome->failure) {
    const RestoreReport& report = outcome->failure->report;
    const std::uint32_t rank = outcome->failure->rank;
    const bool is_own = rank == coordinator->rank();
    const Status status =
        is_own ? report.status : report.status.with_context("rank " + std::to_string(rank));
    if (report.detail.empty()) raise_if_damaged(status, path);  // from rank 0, outside a trial
    failure = nb::make_tuple(is_own && outcome->failure->is_of_trial,
                             text_of(std::string(status.message())), text_of(report.detail));
  }
  nb::list passed_over;
  nb::list damaged;
  for (const PassedOver& passed : outcome->choice.passed_over) {
    passed_over.append(
        nb::make_tuple(text_of(passed.name), text_of(std::string(passed.reason.message()))));
    if (passed.generation != 0) damaged.append(passed.generation);
  }
  nb::list unused;
  for (const std::string& line : outcome->unused) unused.append(text_of(line));
  return nb::make_tuple(text_of(outcome->choice.name), passed_over, damaged, failure, unused);
}

void refuse(const Session& session, const Report& report, std::optional<double> timeout) {
  RestoreAgreement agreement(*session.coordinator, deadline_after(timeout_of(timeout)),
                             Interrupts::pause);
  const Interrupts interrupts;
  bool is_heard = false;
  const Status status = without_gil([&] {
    const Status refused = agreement.refuse(report_of(report));
    is_heard = leave(agreement, &session);
    return refused;
  });
  if (!is_heard) keep(session);
  interrupts.raise();
  raise_if_failed(status);
}

}  // namespace

void bind_checkpoint_restore(nb::module_& module) {
  module.def("restore_checkpoint", &restore, "directory"_a, "name"_a, "finite"_a,
             "session"_a.none(), "trial"_a, "timeout"_a.none(), "has_private_disks"_a = false,
             nb::sig("def restore_checkpoint(directory: bytes, name: str, finite: bool, "
                     "session: Session | None, trial: tuple[Any, Any], timeout: float | None, "
                     "has_private_disks: bool = False) -> "
                     "tuple[str, list[tuple[str, str]], list[int], tuple[bool, str, str] | None, "
                     "list[str]]"),
             "Every rank checks, then reads, checkpoints until one is valid on all of them.");
  module.def("refuse_restore", &refuse, "session"_a, "report"_a, "timeout"_a.none(),
             "Ends a restore on every rank, because this rank failed before it.");
}

}  // namespace stoker::python
