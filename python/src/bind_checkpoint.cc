#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "checkpoint/device/device_copier.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint_arguments.h"
#include "engine_setting.h"
#include "gil.h"
#include "gpu/cuda_driver.h"
#include "gpu/pinned_memory.h"
#include "host_memory.h"
#include "interrupts.h"
#include "killing_file_ops.h"
#include "raise.h"
#include "session.h"
#include "stoker/version.h"
#include "wait_notices.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

/// The settings of a checkpointer from Python: plain values with defaults.
struct CheckpointerSettings {
  std::string late = "block";
  std::uint32_t in_flight = 1;
  std::optional<std::uint64_t> memory_bytes = {};
  std::uint64_t rate_limit = 0;
  bool has_private_disks = false;
  double deadline = 1800;
  bool dedup = true;
  std::optional<std::tuple<std::uint64_t, std::uint64_t, std::string>> parent = {};
  std::optional<double> lock_timeout = {};
  double lock_ttl = 60;
  std::optional<std::uint64_t> keep_last = {};
  std::optional<std::uint64_t> keep_every = {};
  std::optional<std::tuple<std::string, std::string, std::uint64_t>> keep_best = {};
  std::vector<std::uint64_t> damaged = {};
  std::map<std::string, std::uint64_t> seen = {};
  std::string job = {};
  std::shared_ptr<Session> session = {};
  std::shared_ptr<WaitNotices> notices = {};
  bool gather = true;
  std::string kill_at = {};
  std::uint32_t kill_count = 1;
};

LatePolicy late_of(const std::string& name) {
  if (name == "block") return LatePolicy::block;
  if (name == "skip") return LatePolicy::skip;
  if (name == "replace") return LatePolicy::replace;
  throw nb::value_error("late is \"block\", \"skip\" or \"replace\"");
}

RetentionRules rules_of(const CheckpointerSettings& settings) {
  RetentionRules rules{.keep_last = settings.keep_last, .keep_every = settings.keep_every};
  if (settings.keep_best) {
    const auto& [metric, order, count] = *settings.keep_best;
    if (order != "min" && order != "max")
      throw nb::value_error("keep_best is (metric, \"min\" or \"max\", count)");
    rules.keep_best =
        KeepBest{.metric = metric,
                 .order = order == "min" ? KeepBest::Order::min : KeepBest::Order::max,
                 .count = count};
  }
  rules.seen = settings.seen;
  rules.damaged.insert(settings.damaged.begin(), settings.damaged.end());
  return rules;
}

/// Waits for the lock; Ctrl-C ends the wait. Runs on the thread that called save() and held the
/// GIL. The exception passes through the core to save() below, where nothing has begun yet.
void pause_for_signals(nanoseconds time) {
  std::this_thread::sleep_for(time);
  const TakenGil gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// A checkpointer, and the memory in which it stages.
struct PythonCheckpointer {
  std::unique_ptr<CheckpointSaver> core;
  std::shared_ptr<PinnedMemory> memory = PinnedMemory::make();
  // Set in save():
  std::shared_ptr<std::string> gather_problem = std::make_shared<std::string>();
  std::shared_ptr<std::vector<std::string>> differing =
      std::make_shared<std::vector<std::string>>();
};

std::unique_ptr<PythonCheckpointer> make_checkpointer(const nb::bytes& directory,
                                                      const CheckpointerSettings& settings) {
  auto made = std::make_unique<PythonCheckpointer>();
  SaverOptions options;
  options.copy_threads = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  options.copier =
      make_device_copier({.memory = made->memory,
                          .thread_count = options.copy_threads,
                          .may_gather = settings.gather,
                          .gather_failed = [text = made->gather_problem](const Status& failure) {
                            *text = failure.message();
                          }});
  options.staging_arena = made->memory->maker();
  options.on_differing = [names = made->differing](const std::vector<std::string>& found) {
    *names = found;
  };
  options.directory = path_of(directory);
  options.has_private_disks = settings.has_private_disks;
  options.late = late_of(settings.late);
  options.in_flight = settings.in_flight;
  options.memory_bytes = settings.memory_bytes;
  options.rate_limit_bytes_per_s = settings.rate_limit;
  options.deadline = timeout_of(settings.deadline);
  options.dedup = settings.dedup;
  if (settings.parent)
    options.parent = CheckpointParent{.step = std::get<0>(*settings.parent),
                                      .generation = std::get<1>(*settings.parent),
                                      .line = std::get<2>(*settings.parent)};
  options.lock.timeout = timeout_of(settings.lock_timeout);
  options.lock.ttl = timeout_of(settings.lock_ttl);
  options.lock.pause = pause_for_signals;
  options.lock.job = settings.job;
  if (settings.notices != nullptr) options.lock.on_wait = WaitNotices::sink(settings.notices);
  options.tool = std::string("stoker ") + kVersion;
  options.engine = make_engine_factory(engine_setting());
  FileOps* ops = &posix_file_ops();
  // Never freed: threads of an abandoned checkpointer may still use it.
  if (!settings.kill_at.empty())
    ops = make_killing_file_ops(settings.kill_at, settings.kill_count).release();
  options.ops = ops;
  if (settings.session != nullptr)  // keeps the meeting alive while a rank can wait in it
    options.coordinator = {settings.session, settings.session->coordinator.get()};
  options.retention = rules_of(settings);
  made->core =
      value_or_raise(without_gil([&] { return CheckpointSaver::make(std::move(options)); }));
  return made;
}

/// The caller's streams, as pairs of a device and a handle; and a function that lends memory of a
/// device for a snapshot, or None.
using DeviceArguments = std::pair<std::vector<std::pair<std::int32_t, std::uintptr_t>>, nb::object>;

/// Has Python lend memory for a snapshot, on the thread that called save(). An exception there, as
/// of a signal handler, does not end the save: it goes the other way, through the host, and the
/// exception is raised afterwards.
///
/// Thread safety: none; of the thread that called save().
class Lender {
 public:
  explicit Lender(nb::handle lend) : lend_(lend) {}

  DeviceMemory operator()(std::int32_t device, std::uint64_t size_bytes) {
    const TakenGil gil;
    try {
      const nb::object lent = lend_(device, size_bytes);
      if (lent.is_none()) return {};
      const auto [address, size] = nb::cast<std::pair<std::uintptr_t, std::size_t>>(lent);
      return {.data = reinterpret_cast<std::byte*>(address), .size_bytes = size};
    } catch (...) {
      raised_ = std::current_exception();
      return {};
    }
  }
  void raise() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  const nb::handle lend_;
  std::exception_ptr raised_;
};

DeviceUse device_use_of(const DeviceArguments& arguments, Lender& lender) {
  DeviceUse use;
  for (const auto& [device, handle] : arguments.first)
    use.streams.push_back({.device = device, .handle = reinterpret_cast<void*>(handle)});
  if (arguments.second.is_none()) return use;
  use.snapshot_memory = [&lender](std::int32_t device, std::uint64_t size_bytes) {
    return lender(device, size_bytes);
  };
  return use;
}

/// Appends the save to the caller's list, and sets `lent.native` to it, because a signal handler
/// may raise before the caller could store a returned value.
void save(PythonCheckpointer& self, std::uint64_t step, const TensorArguments& tensors,
          const std::tuple<std::string, std::string, std::string>& texts,
          const std::map<std::string, double>& reference, nb::list begun,
          const std::optional<std::string>& refusal, std::optional<double> deadline,
          const DeviceArguments& devices, nb::object lent) {
  Lender lender(devices.second);
  SaveRequest request{.step = step,
                      .tensors = save_tensors_of(tensors),
                      .state_json = std::get<0>(texts),
                      .extra_json = std::get<1>(texts),
                      .cursor_json = std::get<2>(texts),
                      .reference = reference,
                      .devices = device_use_of(devices, lender)};
  if (deadline) request.deadline = timeout_of(deadline);
  const auto check = [&]() -> Status {
    if (refusal) return Status(Code::invalid_argument, *refusal);
    STOKER_TRY(check_state_json(request.state_json, "the state"));
    STOKER_TRY(check_state_json(request.extra_json, "extra"));
    return check_state_json(request.cursor_json, "the loader's state");
  };
  const Interrupts interrupts;
  Result<PendingSave> pending = without_gil([&] {
    request.refusal = check();
    return self.core->save(std::move(request));
  });
  if (pending.ok()) {
    const nb::object made = nb::cast(*pending);
    if (!lent.is_none()) nb::setattr(lent, "native", made);
    begun.append(made);
  }
  interrupts.raise();
  lender.raise();
  raise_if_failed(pending.status());
}

void bind_settings(nb::module_& module) {
  using Settings = CheckpointerSettings;
  nb::class_<Settings>(module, "CheckpointerSettings", "The settings of a checkpointer.")
      .def(nb::init<>())
      .def_rw("late", &Settings::late)
      .def_rw("in_flight", &Settings::in_flight)
      .def_rw("memory_bytes", &Settings::memory_bytes, nb::arg().none())
      .def_rw("rate_limit", &Settings::rate_limit, "Bytes per second; 0 means no limit.")
      .def_rw("deadline", &Settings::deadline, "Seconds, like all times here.")
      .def_rw("dedup", &Settings::dedup)
      .def_rw("parent", &Settings::parent, nb::arg().none(), "Step, generation and line.")
      .def_rw("lock_timeout", &Settings::lock_timeout, nb::arg().none())
      .def_rw("lock_ttl", &Settings::lock_ttl)
      .def_rw("keep_last", &Settings::keep_last, nb::arg().none())
      .def_rw("keep_every", &Settings::keep_every, nb::arg().none())
      .def_rw("keep_best", &Settings::keep_best, nb::arg().none())
      .def_rw("has_private_disks", &Settings::has_private_disks,
              "Whether every node has a directory of its own.")
      .def_rw("damaged", &Settings::damaged, "Generations that retention never removes.")
      .def_rw("seen", &Settings::seen,
              "The greatest generation of each line at the time of the restore.")
      .def_rw("job", &Settings::job, "For messages of processes that wait for the lock.")
      .def_rw("session", &Settings::session, nb::arg().none(),
              "For several ranks: the result of meet_ranks().")
      .def_rw("notices", &Settings::notices, nb::arg().none())
      .def_rw("gather", &Settings::gather,
              "For benchmarks: whether small tensors on a device are gathered there first.")
      .def_rw("kill_at", &Settings::kill_at,
              "For tests: the crash point at which the process is killed.")
      .def_rw("kill_count", &Settings::kill_count, "For tests: how often it must be reached.");
}

void bind_pending(nb::module_& module) {
  nb::class_<PendingSave>(module, "PendingSave", "A save in progress or finished.")
      .def_prop_ro("step", &PendingSave::step)
      .def_prop_ro("is_staged", &PendingSave::is_staged)
      .def_prop_ro("is_released", &PendingSave::is_released,
                   "Whether nothing reads the tensors or the memory of a snapshot any more.")
      .def_prop_ro("is_done", &PendingSave::is_done)
      .def_prop_ro("outcome",
                   [](const PendingSave& self) -> std::optional<std::string> {
                     const std::optional<SaveOutcome> outcome = self.outcome();
                     if (!outcome) return std::nullopt;
                     return std::string(outcome_name(*outcome));
                   })
      .def_prop_ro("generation", &PendingSave::generation)
      .def_prop_ro("line", &PendingSave::line)
      .def(
          "wait",
          [](const PendingSave& self, double timeout) {
            // check() raises the error.
            without_gil([&] { static_cast<void>(self.wait(timeout_of(timeout))); });
            return self.is_done();
          },
          "timeout"_a, "Waits at most this many seconds; returns whether the save is done.")
      .def(
          "check", [](const PendingSave& self) { raise_if_failed(self.wait(nanoseconds(0))); },
          "Raises the error of the save, if it failed.")
      .def("set_reported", &PendingSave::set_reported,
           "Marks the error as reported: the checkpointer does not raise it again.");
}

}  // namespace

// python/stoker/_checkpoint has the public names.
void bind_checkpoint(nb::module_& module) {
  bind_settings(module);
  bind_pending(module);
  module.def(
      "host_memory", &host_memory, "tensor"_a, "strided"_a, "types"_a, "has_cuda"_a = false,
      nb::sig("def host_memory(tensor: Any, strided: Any, types: dict[Any, str], "
              "has_cuda: bool = False) -> tuple[Any, ...] | None"),
      "Returns the items of a Memory for a torch tensor that is without gaps in host memory, or "
      "with has_cuda on a CUDA device; None for any other. Types: names in safetensors by dtype.");
  module.def(
      "find_cuda_problem",
      []() -> std::optional<std::string> {
        const Status found = without_gil([] { return CudaDriver::find().status(); });
        if (found.ok()) return std::nullopt;
        return std::string(found.message());
      },
      "Returns why tensors on CUDA devices cannot be copied directly; None if they can. "
      "Initializes the driver.");
  nb::class_<PythonCheckpointer>(module, "Checkpointer", "Use stoker.Checkpointer.")
      .def(nb::new_(&make_checkpointer), "directory"_a, "settings"_a)
      .def(
          "save", &save, "step"_a, "tensors"_a, "texts"_a, "reference"_a, "begun"_a,
          "refusal"_a = nb::none(), "deadline"_a = nb::none(),
          "devices"_a = nb::make_tuple(nb::list(), nb::none()), "lent"_a = nb::none(),
          nb::sig("def save(self, step: int, "
                  "tensors: tuple[dict[str, Any], dict[str, Any], set[str]], "
                  "texts: tuple[str, str, str], reference: dict[str, float], "
                  "begun: list[PendingSave], refusal: str | None = None, "
                  "deadline: float | None = None, "
                  "devices: tuple[list[tuple[int, int]], Any] = ([], None), "
                  "lent: Any = None) -> None"),
          "Tensors: the memory of each by name, the places of slices, and the names of those that "
          "belong to this rank alone. Texts: state, extra, cursor. The tensors' memory may change "
          "after the return. Appends "
          "the save to `begun`, even if a signal handler raises. With a refusal the save fails on "
          "every rank. The deadline is that of the settings if None. Devices: streams, as pairs of "
          "a device and a handle, and a function that gets a device and a size, and returns "
          "address and size of memory for a snapshot, used until `is_released` of the save; or "
          "None. Sets `lent.native` to the save as well.")
      .def_prop_ro(
          "pin_problem",
          [](const PythonCheckpointer& self) {
            return std::string(self.memory->failure().message());
          },
          "Why the driver could not pin the staging memory; empty if it could, or was not asked.")
      .def_prop_ro(
          "gather_problem", [](const PythonCheckpointer& self) { return *self.gather_problem; },
          "Why small tensors were not gathered on their device in an earlier save; empty if they "
          "were, or there were none.")
      .def_prop_ro(
          "differing",
          [](const PythonCheckpointer& self) {
            nb::list names;
            for (const std::string& name : *self.differing) names.append(text_of(name));
            return names;
          },
          nb::sig("def differing(self) -> list[str]"),
          "Names of tensors that differ between the ranks, as the last save that has compared them "
          "has found; on the first rank that has them.")
      .def(
          "wait",
          [](PythonCheckpointer& self, std::optional<double> timeout) {
            raise_if_failed(without_gil([&] { return self.core->wait(timeout_of(timeout)); }));
          },
          "timeout"_a.none())
      .def(
          "close",
          [](PythonCheckpointer& self, std::optional<double> timeout) {
            raise_if_failed(without_gil([&] { return self.core->close(timeout_of(timeout)); }));
          },
          "timeout"_a.none())
      .def(
          "progress",
          [](const PythonCheckpointer& self) {
            const SaveProgress now = without_gil([&] { return self.core->progress(); });
            return std::make_tuple(now.step, now.size_bytes, now.staged_bytes, now.written_bytes,
                                   now.in_flight);
          },
          "Returns, for the save being written, step, total bytes, copied bytes and written bytes; "
          "and the saves in flight.");
}

}  // namespace stoker::python
