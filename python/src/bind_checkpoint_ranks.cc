#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bind.h"
#include "checkpoint/coordinator.h"
#include "checkpoint/meeting.h"
#include "checkpoint_arguments.h"
#include "interrupts.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

/// Runs a wait of the core so that Ctrl-C ends it.
template <typename Work>
auto waiting(Work&& work) {
  const Interrupts interrupts;
  auto result = without_gil(std::forward<Work>(work));
  interrupts.raise();
  return value_or_raise(std::move(result));
}

MeetingOptions meeting_of(const nb::bytes& directory, const std::string& word, std::uint32_t rank,
                          std::uint32_t world_size) {
  return {.directory = path_of(directory),
          .word = word,
          .rank = rank,
          .world_size = world_size,
          .pause = Interrupts::pause};
}

std::unique_ptr<Coordinator> make_coordinator(const nb::bytes& directory,
                                              const std::string& session, std::uint32_t rank,
                                              std::uint32_t world_size) {
  return value_or_raise(
      make_shared_directory_coordinator(posix_file_ops(), {.directory = path_of(directory),
                                                           .session = session,
                                                           .rank = rank,
                                                           .world_size = world_size,
                                                           .pause = Interrupts::pause}));
}

}  // namespace

void bind_checkpoint_ranks(nb::module_& module) {
  nb::class_<Coordinator>(module, "Coordinator", "How ranks that share a directory agree.")
      .def(nb::new_(&make_coordinator), "directory"_a, "session"_a, "rank"_a, "world_size"_a)
      .def(
          "gather",
          [](Coordinator& self, const std::string& key, const std::string& text,
             std::optional<double> timeout) {
            const Deadline deadline = deadline_after(timeout_of(timeout));
            return waiting([&] { return self.gather(key, text, deadline); });
          },
          "key"_a, "text"_a, "timeout"_a.none(),
          "On rank 0 the texts of all ranks; on others nothing.")
      .def(
          "broadcast",
          [](Coordinator& self, const std::string& key, const std::string& text,
             std::optional<double> timeout) {
            const Deadline deadline = deadline_after(timeout_of(timeout));
            return waiting([&] { return self.broadcast(key, text, deadline); });
          },
          "key"_a, "text"_a, "timeout"_a.none(), "Rank 0's text, on every rank.");
  module.def(
      "meet_ranks",
      [](const nb::bytes& directory, const std::string& word, std::uint32_t rank,
         std::uint32_t world_size, std::optional<double> timeout) {
        const MeetingOptions options = meeting_of(directory, word, rank, world_size);
        const Deadline deadline = deadline_after(timeout_of(timeout));
        return waiting([&] { return meet_ranks(posix_file_ops(), options, deadline); });
      },
      "directory"_a, "word"_a, "rank"_a, "world_size"_a, "timeout"_a.none(),
      "A session that the ranks agree on. Rank 0 then makes its directory.");
  module.def(
      "clear_meeting",
      [](const nb::bytes& directory, const std::string& word, std::uint32_t world_size) {
        const MeetingOptions options = meeting_of(directory, word, 0, world_size);
        without_gil([&] { clear_meeting(posix_file_ops(), options); });
      },
      "directory"_a, "word"_a, "world_size"_a, "Removes what a meeting has left; on rank 0.");
}

}  // namespace stoker::python
