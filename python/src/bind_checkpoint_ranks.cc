#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "checkpoint/ranks/carried_meeting.h"
#include "checkpoint/ranks/launcher.h"
#include "checkpoint/ranks/meeting.h"
#include "checkpoint/ranks/message_carrier.h"
#include "checkpoint_arguments.h"
#include "interrupts.h"
#include "raise.h"
#include "session.h"
#include "wait_notices.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

struct MeetingAttempts {
  std::vector<std::string> nonces;
  std::shared_ptr<KnownRanks> known = std::make_shared<KnownRanks>();
};

/// Runs a wait of the core that Ctrl-C can end.
template <typename Work>
auto waiting(Work&& work) {
  const Interrupts interrupts;
  auto result = without_gil(std::forward<Work>(work));
  interrupts.raise();
  return value_or_raise(std::move(result));
}

Session session_of(std::unique_ptr<Meeting> meeting) {
  Session session{.meeting = std::move(meeting)};
  session.coordinator = value_or_raise(session.meeting->make_coordinator());
  return session;
}

Result<MeetingOptions> meeting_of(const std::string& directory, const std::string& word,
                                  const std::tuple<std::uint32_t, std::uint32_t>& ranks,
                                  const std::shared_ptr<WaitNotices>& notices) {
  const auto [rank, world_size] = ranks;
  STOKER_ASSIGN(CheckpointDirectory place, CheckpointDirectory::make(posix_file_ops(), directory));
  MeetingOptions options{.place = std::move(place),
                         .word = word,
                         .rank = rank,
                         .world_size = world_size,
                         .pause = Interrupts::pause,
                         .on_wait = WaitNotices::sink(notices)};
  return options;
}

/// `launcher`: the rank variable of the program that started the ranks, or "", and `is_job_given`:
/// the user has named the job, so a different launcher does not mean a different job. `attempts`:
/// those of this rank that have failed (meeting.h).
Session meet(const nb::bytes& directory, const std::string& word,
             const std::tuple<std::string, bool>& launcher,
             const std::tuple<std::uint32_t, std::uint32_t>& ranks, std::optional<double> timeout,
             const std::shared_ptr<WaitNotices>& notices, MeetingAttempts& attempts) {
  const std::string path = path_of(directory);
  const Deadline deadline = deadline_after(timeout_of(timeout));
  return session_of(waiting([&]() -> Result<std::unique_ptr<Meeting>> {
    STOKER_ASSIGN(MeetingOptions options, meeting_of(path, word, ranks, notices));
    const auto& [rank_variable, is_job_given] = launcher;
    if (!is_job_given) {
      options.launcher = find_launcher(rank_variable);
      if (rank_variable.empty())
        options.advice =
            ". Ranks that were not all started by one process need the same job= on each of them";
    }
    options.siblings = [variable = rank_variable] { return find_siblings(variable); };
    options.attempts = &attempts.nonces;
    return Meeting::meet(options, deadline);
  }));
}

Session enter(const nb::bytes& directory, const std::string& token,
              const std::tuple<std::uint32_t, std::uint32_t>& ranks,
              const std::shared_ptr<WaitNotices>& notices) {
  const std::string path = path_of(directory);
  return session_of(waiting([&]() -> Result<std::unique_ptr<Meeting>> {
    STOKER_ASSIGN(const MeetingOptions options, meeting_of(path, token, ranks, notices));
    return Meeting::enter(options, token);
  }));
}

/// `key`: key and purpose of the meeting, and other purposes (carried_meeting.h).
Session meet_by_carrier(const std::shared_ptr<MessageCarrier>& carrier,
                        const std::tuple<std::string, std::string, std::vector<std::string>>& key,
                        const nb::bytes& directory,
                        const std::tuple<std::uint32_t, std::uint32_t>& ranks,
                        std::optional<double> timeout, const std::shared_ptr<WaitNotices>& notices,
                        MeetingAttempts& entered) {
  const Deadline deadline = deadline_after(timeout_of(timeout));
  const auto& [name, purpose, other_purposes] = key;
  const auto [rank, world_size] = ranks;
  const CarriedMeetingOptions options{.carrier = carrier,
                                      .key = name,
                                      .purpose = purpose,
                                      .other_purposes = other_purposes,
                                      .where = path_of(directory),
                                      .rank = rank,
                                      .world_size = world_size,
                                      .entered = &entered.nonces,
                                      .known = entered.known,
                                      .pause = Interrupts::pause,
                                      .on_wait = WaitNotices::sink(notices)};
  Session session{.carried = waiting([&] { return CarriedMeeting::meet(options, deadline); })};
  session.coordinator = value_or_raise(session.carried->make_coordinator());
  return session;
}

const char* verb_name(CarriedRequest::Verb verb) {
  switch (verb) {
    case CarriedRequest::Verb::put: return "put";
    case CarriedRequest::Verb::claim: return "claim";
    case CarriedRequest::Verb::retire: return "retire";
    case CarriedRequest::Verb::find: return "find";
    case CarriedRequest::Verb::check: return "check";
    case CarriedRequest::Verb::remove: return "remove";
  }
  return "";
}

nb::object next_request(MessageCarrier& self) {
  const std::optional<CarriedRequest> request = without_gil([&] { return self.next(); });
  if (!request) return nb::none();
  return nb::make_tuple(verb_name(request->verb), nb::cast(request->names),
                        nb::bytes(request->text.data(), request->text.size()));
}

void answer_request(MessageCarrier& self, const std::vector<nb::bytes>& texts) {
  std::vector<std::string> answer;
  for (const nb::bytes& text : texts) answer.emplace_back(text.c_str(), text.size());
  self.answer(std::move(answer));
}

void bind_carrier(nb::module_& module) {
  nb::class_<MessageCarrier>(module, "MessageCarrier",
                             "Requests about messages of ranks, for one thread of Python.")
      .def(nb::new_([](const std::string& name) { return std::make_shared<MessageCarrier>(name); }),
           "name"_a)
      .def(
          "next", &next_request, nb::sig("def next(self) -> tuple[str, list[str], bytes] | None"),
          "Waits for a request: put, claim, retire, find, check or remove; names; and a text. None "
          "at the end.")
      .def("answer", &answer_request, "texts"_a,
           "Answers the last one: texts that were found, or names as bytes.")
      .def("fail", &MessageCarrier::fail, "reason"_a, "Fails all requests, and later ones.")
      .def("close", &MessageCarrier::close, "Accepts no more requests.");
  module.def("meet_by_carrier", &meet_by_carrier, "carrier"_a, "key"_a, "directory"_a, "ranks"_a,
             "timeout"_a.none(), "notices"_a, "entered"_a,
             "Begins a session on rank 0, and enters it on the others. `key`: a key, the purpose, "
             "and other purposes; `entered`: sessions of this rank.");
}

/// Returns "boot id/namespace/pid/started", or "".
std::string launcher_text(const std::string& rank_variable) {
  const ProcessIdentity launcher = without_gil([&] { return find_launcher(rank_variable); });
  if (!launcher.is_known()) return "";
  return launcher.space + "/" + std::to_string(launcher.pid) + "/" + launcher.started;
}

}  // namespace

void bind_checkpoint_ranks(nb::module_& module) {
  nb::class_<WaitNotices>(module, "WaitNotices", "Messages about long waits in the core.")
      .def(nb::new_([](double after) { return std::make_shared<WaitNotices>(timeout_of(after)); }),
           "after"_a)
      .def("take", &WaitNotices::take,
           "Returns the messages of native threads since the last call.");
  nb::class_<MeetingAttempts>(module, "MeetingAttempts",
                              "Failed attempts of this rank to meet the others.")
      .def(nb::init<>());
  nb::class_<Session>(module, "Session", "A session of ranks, and its messages.")
      .def_prop_ro("token", &Session::token)
      .def_prop_ro(
          "conflict", &Session::conflict,
          "Names the two jobs, if a rank has left the session because of them; otherwise empty.")
      .def(
          "gather",
          [](const Session& self, const std::string& key, const std::string& text,
             std::optional<double> timeout) {
            const Deadline deadline = deadline_after(timeout_of(timeout));
            return waiting([&] { return self.coordinator->gather(key, text, deadline); });
          },
          "key"_a, "text"_a, "timeout"_a.none(),
          "Returns the texts of all ranks on rank 0, and an empty list on others.")
      .def(
          "broadcast",
          [](const Session& self, const std::string& key, const std::string& text,
             std::optional<double> timeout) {
            const Deadline deadline = deadline_after(timeout_of(timeout));
            return waiting([&] { return self.coordinator->broadcast(key, text, deadline); });
          },
          "key"_a, "text"_a, "timeout"_a.none(), "Returns the text of rank 0 on every rank.");
  module.def(
      "meet_ranks", &meet, "directory"_a, "word"_a, "launcher"_a, "ranks"_a, "timeout"_a.none(),
      "notices"_a, "attempts"_a,
      "Waits for all ranks of the job that `word` identifies. `ranks`: rank and world size.");
  module.def("enter_session", &enter, "directory"_a, "token"_a, "ranks"_a, "notices"_a,
             "Enters a session whose token the ranks have agreed on by other means.");
  bind_carrier(module);
  module.def("find_launcher", &launcher_text, "rank_variable"_a,
             "Returns the process that started this one as a rank; empty if unknown.");
}

}  // namespace stoker::python
