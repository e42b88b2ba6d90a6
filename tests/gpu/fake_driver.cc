#include "gpu/fake_driver.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "gpu/fake_stream.h"
#include "gpu/gather.h"

namespace stoker::testing {
namespace {

constexpr CudaPointer kDeviceBit = CudaPointer{1} << 62;  // no address of a process has it
constexpr CudaResult kInvalidValue = 1;
constexpr CudaResult kInvalidDevice = 101;
constexpr CudaResult kInvalidContext = 201;
constexpr CudaResult kInvalidHandle = 400;
constexpr CudaResult kNotReady = 600;
constexpr CudaResult kLaunchFailed = 719;
constexpr CudaResult kCaptureUnsupported = 900;

// As the driver, each thread has a stack of contexts and a capture mode; 0 is global.
thread_local std::vector<CudaContext> t_contexts;
thread_local int t_capture_mode = 0;

template <typename Handle, typename Object>
Handle as_handle(Object* object) {
  return reinterpret_cast<Handle>(object);
}

/// A context is the number of its device and one more.
CudaContext context_of(int device) {
  return reinterpret_cast<CudaContext>(static_cast<std::uintptr_t>(device) + 1);
}
int current_device() {
  if (t_contexts.empty()) return -1;
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(t_contexts.back())) - 1;
}

/// Whether destructors, or what ends something after a failure, make this call.
bool is_of_destructors(std::string_view call) {
  constexpr std::array<std::string_view, 9> kCalls = {
      "primary_ctx_release", "ctx_push_current", "stream_destroy", "stream_synchronize",
      "stream_query",        "event_destroy",    "mem_free",       "mem_host_unregister",
      "module_unload"};
  return std::ranges::find(kCalls, call) != kCalls.end();
}

struct Event {
  int device = 0;
  std::shared_ptr<FakeSignal> done;  // null before the first record
};

}  // namespace

struct FakeDriver::State {
  explicit State(int count) : device_count(count) {
    for (int device = 0; device < count; ++device)
      default_streams.push_back(std::make_unique<FakeStream>(device));
  }

  const int device_count;
  mutable Mutex mutex;
  std::vector<std::unique_ptr<FakeStream>> default_streams;
  std::map<CudaStream, std::unique_ptr<FakeStream>> streams STOKER_GUARDED_BY(mutex);
  std::map<CudaEvent, std::unique_ptr<Event>> events STOKER_GUARDED_BY(mutex);
  std::set<CudaStream> capturing STOKER_GUARDED_BY(mutex);
  std::map<std::byte*, std::size_t> registered STOKER_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<std::vector<std::byte>>> uploads STOKER_GUARDED_BY(mutex);
  std::map<CudaPointer, std::size_t> uploaded STOKER_GUARDED_BY(mutex);  // sizes of allocations
  std::map<CudaPointer, std::vector<std::byte>> allocations STOKER_GUARDED_BY(mutex);
  std::vector<std::shared_ptr<FakeSignal>> gates STOKER_GUARDED_BY(mutex);
  std::vector<std::string> calls STOKER_GUARDED_BY(mutex);
  std::size_t failing_call STOKER_GUARDED_BY(mutex) = std::numeric_limits<std::size_t>::max();
  std::string failing_name STOKER_GUARDED_BY(mutex);  // empty: none
  Fault fault STOKER_GUARDED_BY(mutex) = Fault::sticky;
  bool is_broken STOKER_GUARDED_BY(mutex) = false;
  std::size_t memory_left STOKER_GUARDED_BY(mutex) = std::numeric_limits<std::size_t>::max();
  bool refuses_registration STOKER_GUARDED_BY(mutex) = false;
  std::size_t registrations STOKER_GUARDED_BY(mutex) = 0;
  std::size_t unregistered_copies STOKER_GUARDED_BY(mutex) = 0;
  int retained STOKER_GUARDED_BY(mutex) = 0;
  bool is_in_use STOKER_GUARDED_BY(mutex) = true;

  /// Counts a call. Returns its error if it is to fail.
  std::optional<CudaResult> begin(const char* name, bool& is_lost) {
    std::vector<FakeStream*> queues;
    {
      MutexLock lock(mutex);
      calls.emplace_back(name);
      const bool is_named = failing_name == name;
      if (is_named) failing_name.clear();
      const bool is_failing = is_named || calls.size() - 1 == failing_call;
      if (is_failing && fault == Fault::once) return kLaunchFailed;
      if (is_failing && fault == Fault::no_memory) {
        if (!is_of_destructors(name)) throw std::bad_alloc();
        return std::nullopt;
      }
      is_lost = is_failing && fault == Fault::later;
      is_broken = is_broken || is_failing;
      if (!is_broken || is_lost) return std::nullopt;
      for (const auto& stream : default_streams) queues.push_back(stream.get());
      for (const auto& [handle, stream] : streams) queues.push_back(stream.get());
    }
    for (FakeStream* const queue : queues) queue->synchronize();  // nothing is written any more
    return kLaunchFailed;
  }

  FakeStream* find(CudaStream stream) {
    const int device = current_device();
    if (stream == nullptr)
      return device >= 0 ? default_streams[static_cast<std::size_t>(device)].get() : nullptr;
    MutexLock lock(mutex);
    const auto found = streams.find(stream);
    return found == streams.end() ? nullptr : found->second.get();
  }
  /// The stream, if the calling thread has its context current.
  FakeStream* find_current(CudaStream stream) {
    FakeStream* const found = find(stream);
    return found != nullptr && found->device() == current_device() ? found : nullptr;
  }
  Event* find(CudaEvent event) {
    MutexLock lock(mutex);
    const auto found = events.find(event);
    return found == events.end() ? nullptr : found->second.get();
  }
  bool spoils_a_capture() {
    MutexLock lock(mutex);
    return !capturing.empty() && t_capture_mode != kCudaCaptureModeRelaxed;
  }
  bool is_registered(const std::byte* at, std::size_t size) {
    MutexLock lock(mutex);
    return std::ranges::any_of(registered, [&](const auto& range) {
      return at >= range.first && at + size <= range.first + range.second;
    });
  }
  bool has_broken() {
    MutexLock lock(mutex);
    return is_broken;
  }
  CudaPointer add_upload(std::unique_ptr<std::vector<std::byte>> made, std::size_t first_bytes) {
    const auto pointer = reinterpret_cast<CudaPointer>(made->data()) | kDeviceBit;
    MutexLock lock(mutex);
    uploaded[pointer] = first_bytes;
    if (first_bytes < made->size()) uploaded[pointer + first_bytes] = made->size() - first_bytes;
    uploads.push_back(std::move(made));
    return pointer;
  }
  /// Whether it leaves the allocation in which it begins. Other memory than that of upload() is the
  /// test's own.
  bool spans_two(CudaPointer at, std::size_t size) {
    MutexLock lock(mutex);
    auto after = uploaded.upper_bound(at);
    if (after == uploaded.begin()) return false;
    const auto [begin, whole] = *std::prev(after);
    return at < begin + whole && at + size > begin + whole;
  }

  /// Enqueues a copy. From or to memory that is not registered it is complete on return, as with
  /// the driver.
  CudaResult copy(std::byte* to, const std::byte* from, std::size_t size, const std::byte* host,
                  CudaStream stream, bool is_lost) {
    FakeStream* const queue = find_current(stream);
    if (queue == nullptr) return kInvalidContext;
    queue->enqueue([this, to, from, size, is_lost] {
      if (!is_lost && !has_broken()) std::memcpy(to, from, size);
    });
    if (host != nullptr && !is_registered(host, size)) {
      queue->synchronize();
      MutexLock lock(mutex);
      ++unregistered_copies;
    }
    return kCudaSuccess;
  }
};

std::byte* FakeDriver::memory_at(CudaPointer pointer) noexcept {
  return reinterpret_cast<std::byte*>(pointer & ~kDeviceBit);
}

namespace {

/// Makes an entry of the table: `call` gets whether its work is to be lost, and its arguments.
template <typename State, typename Call, typename... Arguments>
void set(std::function<CudaResult(Arguments...)>& entry, State& state, const char* name,
         Call call) {
  entry = [&state, name, call](Arguments... arguments) -> CudaResult {
    bool is_lost = false;
    if (const std::optional<CudaResult> failure = state.begin(name, is_lost)) return *failure;
    return call(is_lost, arguments...);
  };
}

template <typename State>
void set_contexts(CudaDriver& table, State& s) {
  const auto is_device = [&s](int device) { return device >= 0 && device < s.device_count; };
  table.get_error_name = [](CudaResult error, const char** name) {
    *name = error == kCudaOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error == kLaunchFailed  ? "CUDA_ERROR_LAUNCH_FAILED"
                                      : "CUDA_ERROR_OTHER";
    return kCudaSuccess;
  };
  set(table.driver_get_version, s, "driver_get_version", [](bool, int* version) {
    *version = 12000;
    return kCudaSuccess;
  });
  set(table.device_get_count, s, "device_get_count", [&s](bool, int* count) {
    *count = s.device_count;
    return kCudaSuccess;
  });
  set(table.device_get, s, "device_get", [is_device](bool, int* device, int ordinal) {
    *device = ordinal;
    return is_device(ordinal) ? kCudaSuccess : kInvalidDevice;
  });
  set(table.device_get_attribute, s, "device_get_attribute", [](bool, int* value, int, int) {
    *value = 0;
    return kCudaSuccess;
  });
  set(table.device_get_pci_bus_id, s, "device_get_pci_bus_id", [](bool, char* id, int size, int) {
    std::strncpy(id, "0000:00:00.0", static_cast<std::size_t>(size));
    return kCudaSuccess;
  });
  set(table.primary_ctx_get_state, s, "primary_ctx_get_state",
      [&s](bool, int, unsigned* flags, int* is_active) {
        MutexLock lock(s.mutex);
        *flags = 0;
        *is_active = s.is_in_use || s.retained > 0 ? 1 : 0;
        return kCudaSuccess;
      });
  set(table.primary_ctx_retain, s, "primary_ctx_retain",
      [&s, is_device](bool, CudaContext* context, int device) {
        if (!is_device(device)) return kInvalidDevice;
        *context = context_of(device);
        MutexLock lock(s.mutex);
        ++s.retained;
        return kCudaSuccess;
      });
  set(table.primary_ctx_release, s, "primary_ctx_release", [&s](bool, int) {
    MutexLock lock(s.mutex);
    --s.retained;
    return kCudaSuccess;
  });
  set(table.ctx_push_current, s, "ctx_push_current", [](bool, CudaContext context) {
    t_contexts.push_back(context);
    return kCudaSuccess;
  });
  // Not counted: a thread must get back what it had.
  table.ctx_pop_current = [](CudaContext* context) {
    if (t_contexts.empty()) return kInvalidContext;
    *context = t_contexts.back();
    t_contexts.pop_back();
    return kCudaSuccess;
  };
  table.thread_exchange_capture_mode = [](int* mode) {
    std::swap(*mode, t_capture_mode);
    return kCudaSuccess;
  };
}

template <typename State>
void set_streams(CudaDriver& table, State& s) {
  set(table.stream_create, s, "stream_create", [&s](bool, CudaStream* stream, unsigned) {
    if (current_device() < 0) return kInvalidContext;
    auto made = std::make_unique<FakeStream>(current_device());
    *stream = as_handle<CudaStream>(made.get());
    MutexLock lock(s.mutex);
    s.streams.emplace(*stream, std::move(made));
    return kCudaSuccess;
  });
  set(table.stream_destroy, s, "stream_destroy", [&s](bool, CudaStream stream) {
    std::unique_ptr<FakeStream> ended;  // joined after the lock is released
    MutexLock lock(s.mutex);
    const auto found = s.streams.find(stream);
    if (found == s.streams.end()) return kInvalidHandle;
    ended = std::move(found->second);
    s.streams.erase(found);
    return kCudaSuccess;
  });
  set(table.stream_wait_event, s, "stream_wait_event",
      [&s](bool is_lost, CudaStream stream, CudaEvent event, unsigned) {
        FakeStream* const queue = s.find(stream);
        const Event* const known = s.find(event);
        if (queue == nullptr || known == nullptr) return kInvalidHandle;
        if (known->done == nullptr || is_lost) return kCudaSuccess;
        queue->enqueue([done = known->done] { done->wait(); });
        return kCudaSuccess;
      });
  set(table.stream_synchronize, s, "stream_synchronize", [&s](bool, CudaStream stream) {
    if (s.spoils_a_capture()) return kCaptureUnsupported;
    FakeStream* const queue = s.find(stream);
    if (queue == nullptr) return kInvalidHandle;
    queue->synchronize();
    return s.has_broken() ? kLaunchFailed : kCudaSuccess;
  });
  set(table.stream_query, s, "stream_query", [&s](bool, CudaStream stream) {
    if (s.spoils_a_capture()) return kCaptureUnsupported;
    FakeStream* const queue = s.find(stream);
    if (queue == nullptr) return kInvalidHandle;
    if (!queue->is_idle()) return kNotReady;
    return s.has_broken() ? kLaunchFailed : kCudaSuccess;
  });
  // As with events below, what was not ready does not count.
  table.stream_query = [&s, counted = table.stream_query](CudaStream stream) {
    FakeStream* const queue = s.find(stream);
    return queue == nullptr || queue->is_idle() || s.has_broken() ? counted(stream) : kNotReady;
  };
  set(table.stream_is_capturing, s, "stream_is_capturing",
      [&s](bool, CudaStream stream, int* status) {
        MutexLock lock(s.mutex);
        if (stream == nullptr && !s.capturing.empty()) return kCudaCaptureImplicit;
        *status = s.capturing.contains(stream) ? 1 : kCudaCaptureNone;
        return kCudaSuccess;
      });
  set(table.event_create, s, "event_create", [&s](bool, CudaEvent* event, unsigned) {
    if (current_device() < 0) return kInvalidContext;
    auto made = std::make_unique<Event>(Event{.device = current_device(), .done = nullptr});
    *event = as_handle<CudaEvent>(made.get());
    MutexLock lock(s.mutex);
    s.events.emplace(*event, std::move(made));
    return kCudaSuccess;
  });
  set(table.event_destroy, s, "event_destroy", [&s](bool, CudaEvent event) {
    MutexLock lock(s.mutex);
    return s.events.erase(event) == 1 ? kCudaSuccess : kInvalidHandle;
  });
  set(table.event_record, s, "event_record", [&s](bool, CudaEvent event, CudaStream stream) {
    Event* const known = s.find(event);
    FakeStream* const queue = s.find(stream);
    if (known == nullptr || queue == nullptr) return kInvalidHandle;
    if (queue->device() != known->device) return kInvalidHandle;
    known->done = std::make_shared<FakeSignal>();
    queue->enqueue([done = known->done] { done->set(); });
    return kCudaSuccess;
  });
  set(table.event_query, s, "event_query", [&s](bool, CudaEvent event) {
    if (s.spoils_a_capture()) return kCaptureUnsupported;
    const Event* const known = s.find(event);
    if (known == nullptr) return kInvalidHandle;
    if (known->done != nullptr && !known->done->is_set()) return kNotReady;
    return s.has_broken() ? kLaunchFailed : kCudaSuccess;
  });
  // What was not ready does not count: how often a thread asks depends on the time.
  table.event_query = [&s, counted = table.event_query](CudaEvent event) {
    const Event* const known = s.find(event);
    const bool is_ready = known == nullptr || known->done == nullptr || known->done->is_set();
    return is_ready || s.has_broken() ? counted(event) : kNotReady;
  };
  set(table.event_synchronize, s, "event_synchronize", [&s](bool, CudaEvent event) {
    if (s.spoils_a_capture()) return kCaptureUnsupported;
    const Event* const known = s.find(event);
    if (known == nullptr) return kInvalidHandle;
    const std::shared_ptr<FakeSignal> done = known->done;
    if (done != nullptr) done->wait();
    return s.has_broken() ? kLaunchFailed : kCudaSuccess;
  });
}

template <typename State>
void set_memory(CudaDriver& table, State& s) {
  set(table.mem_alloc, s, "mem_alloc", [&s](bool, CudaPointer* memory, std::size_t size) {
    if (s.spoils_a_capture()) return kCaptureUnsupported;
    MutexLock lock(s.mutex);
    if (current_device() < 0) return kInvalidContext;
    if (size > s.memory_left) return kCudaOutOfMemory;
    std::vector<std::byte> made(size);
    *memory = reinterpret_cast<CudaPointer>(made.data()) | kDeviceBit;
    s.allocations.emplace(*memory, std::move(made));
    return kCudaSuccess;
  });
  set(table.mem_free, s, "mem_free", [&s](bool, CudaPointer memory) {
    MutexLock lock(s.mutex);
    return s.allocations.erase(memory) == 1 ? kCudaSuccess : kInvalidValue;
  });
  set(table.mem_get_info, s, "mem_get_info",
      [](bool, std::size_t* free_bytes, std::size_t* total_bytes) {
        *free_bytes = *total_bytes = std::size_t{1} << 30;
        return kCudaSuccess;
      });
  set(table.mem_host_register, s, "mem_host_register",
      [&s](bool, void* memory, std::size_t size, unsigned flags) {
        if (s.spoils_a_capture()) return kCaptureUnsupported;
        MutexLock lock(s.mutex);
        if (current_device() < 0) return kInvalidContext;
        if (s.refuses_registration) return kCudaOutOfMemory;
        if (flags != kCudaRegisterPortable) return kInvalidValue;
        const bool is_new = s.registered.emplace(static_cast<std::byte*>(memory), size).second;
        if (!is_new) return kCudaAlreadyRegistered;
        ++s.registrations;
        return kCudaSuccess;
      });
  set(table.mem_host_unregister, s, "mem_host_unregister", [&s](bool, void* memory) {
    MutexLock lock(s.mutex);
    return s.registered.erase(static_cast<std::byte*>(memory)) == 1 ? kCudaSuccess : kInvalidValue;
  });
  set(table.pointer_get_attribute, s, "pointer_get_attribute",
      [&s](bool, void* value, int attribute, CudaPointer memory) {
        if (attribute != kCudaAttributeMemoryType) return kInvalidValue;
        const bool is_device = (memory & kDeviceBit) != 0;
        if (!is_device && !s.is_registered(FakeDriver::memory_at(memory), 1)) return kInvalidValue;
        *static_cast<unsigned*>(value) = is_device ? 2 : kCudaMemoryTypeHost;
        return kCudaSuccess;
      });
  set(table.memcpy_dtoh_async, s, "memcpy_dtoh_async",
      [&s](bool is_lost, void* to, CudaPointer from, std::size_t size, CudaStream stream) {
        auto* const host = static_cast<std::byte*>(to);
        if (s.spans_two(from, size)) return kInvalidValue;
        return s.copy(host, FakeDriver::memory_at(from), size, host, stream, is_lost);
      });
  set(table.memcpy_htod_async, s, "memcpy_htod_async",
      [&s](bool is_lost, CudaPointer to, const void* from, std::size_t size, CudaStream stream) {
        const auto* const host = static_cast<const std::byte*>(from);
        if (s.spans_two(to, size)) return kInvalidValue;
        return s.copy(FakeDriver::memory_at(to), host, size, host, stream, is_lost);
      });
  set(table.memcpy_dtod_async, s, "memcpy_dtod_async",
      [&s](bool is_lost, CudaPointer to, CudaPointer from, std::size_t size, CudaStream stream) {
        if (s.spans_two(to, size) || s.spans_two(from, size)) return kInvalidValue;
        return s.copy(FakeDriver::memory_at(to), FakeDriver::memory_at(from), size, nullptr, stream,
                      is_lost);
      });
}

}  // namespace

FakeDriver::FakeDriver(int device_count) : state_(std::make_shared<State>(device_count)) {
  State& s = *state_;
  set_contexts(table_, s);
  set_streams(table_, s);
  set_memory(table_, s);
  set(table_.module_load_data, s, "module_load_data", [](bool, CudaModule* module, const void*) {
    *module = reinterpret_cast<CudaModule>(std::uintptr_t{1});
    return kCudaSuccess;
  });
  set(table_.module_unload, s, "module_unload", [](bool, CudaModule) { return kCudaSuccess; });
  set(table_.module_get_function, s, "module_get_function",
      [](bool, CudaFunction* function, CudaModule, const char*) {
        *function = reinterpret_cast<CudaFunction>(std::uintptr_t{1});
        return kCudaSuccess;
      });
  // The only kernel there is.
  set(table_.launch_kernel, s, "launch_kernel",
      [&s](bool is_lost, CudaFunction, unsigned count, unsigned, unsigned, unsigned, unsigned,
           unsigned, unsigned, CudaStream stream, void** parameters, void**) {
        FakeStream* const queue = s.find_current(stream);
        if (queue == nullptr) return kInvalidContext;
        if (count == 0 || count > CudaGather::kPiecesMax || is_lost) return kCudaSuccess;
        const auto* const first = static_cast<const CudaGather::Piece*>(parameters[1]);
        queue->enqueue([&s, block = *static_cast<const CudaPointer*>(parameters[0]),
                        pieces = std::vector(first, first + count)] {
          if (s.has_broken()) return;
          for (const CudaGather::Piece& piece : pieces)
            std::memcpy(memory_at(block + piece.to_bytes), memory_at(piece.from), piece.size_bytes);
        });
        return kCudaSuccess;
      });
}

FakeDriver::~FakeDriver() {
  release();
  std::vector<FakeStream*> queues;
  {
    MutexLock lock(state_->mutex);
    for (const auto& stream : state_->default_streams) queues.push_back(stream.get());
    for (const auto& [handle, stream] : state_->streams) queues.push_back(stream.get());
  }
  for (FakeStream* const queue : queues) queue->synchronize();  // before its memory is freed
}

CudaPointer FakeDriver::upload(std::span<const std::byte> bytes) {
  return state_->add_upload(std::make_unique<std::vector<std::byte>>(bytes.begin(), bytes.end()),
                            bytes.size());
}

CudaPointer FakeDriver::upload_adjacent(std::span<const std::byte> first,
                                        std::span<const std::byte> second) {
  auto made = std::make_unique<std::vector<std::byte>>(first.begin(), first.end());
  made->insert(made->end(), second.begin(), second.end());
  return state_->add_upload(std::move(made), first.size());
}

CudaStream FakeDriver::make_stream(int device) {
  auto made = std::make_unique<FakeStream>(device);
  const auto stream = as_handle<CudaStream>(made.get());
  MutexLock lock(state_->mutex);
  state_->streams.emplace(stream, std::move(made));
  return stream;
}

void FakeDriver::enqueue_write(int device, CudaStream stream, CudaPointer to,
                               std::vector<std::byte> bytes) {
  t_contexts.push_back(context_of(device));
  FakeStream* const queue = state_->find(stream);
  t_contexts.pop_back();
  queue->enqueue(
      [to, bytes = std::move(bytes)] { std::memcpy(memory_at(to), bytes.data(), bytes.size()); });
}

void FakeDriver::hold(int device, CudaStream stream) {
  auto gate = std::make_shared<FakeSignal>();
  t_contexts.push_back(context_of(device));
  FakeStream* const queue = state_->find(stream);
  t_contexts.pop_back();
  queue->enqueue([gate] { gate->wait(); });
  MutexLock lock(state_->mutex);
  state_->gates.push_back(std::move(gate));
}

void FakeDriver::release() {
  std::vector<std::shared_ptr<FakeSignal>> gates;
  {
    MutexLock lock(state_->mutex);
    gates.swap(state_->gates);
  }
  for (const auto& gate : gates) gate->set();
}

void FakeDriver::finish(int device, CudaStream stream) {
  t_contexts.push_back(context_of(device));
  FakeStream* const queue = state_->find(stream);
  t_contexts.pop_back();
  queue->synchronize();
}

void FakeDriver::set_capturing(CudaStream stream, bool is_capturing) {
  MutexLock lock(state_->mutex);
  if (is_capturing)
    state_->capturing.insert(stream);
  else
    state_->capturing.erase(stream);
}

void FakeDriver::set_in_use(bool is_in_use) {
  MutexLock lock(state_->mutex);
  state_->is_in_use = is_in_use;
}

void FakeDriver::fail_call(std::size_t number, Fault fault) {
  MutexLock lock(state_->mutex);
  state_->calls.clear();
  state_->failing_call = number;
  state_->fault = fault;
}

void FakeDriver::fail_next(std::string name, Fault fault) {
  MutexLock lock(state_->mutex);
  state_->failing_name = std::move(name);
  state_->fault = fault;
}

void FakeDriver::heal() {
  MutexLock lock(state_->mutex);
  state_->failing_name.clear();
  state_->failing_call = std::numeric_limits<std::size_t>::max();
  state_->is_broken = false;
}

std::vector<std::string> FakeDriver::calls() const {
  MutexLock lock(state_->mutex);
  return state_->calls;
}

std::size_t FakeDriver::count_of(const std::string& name) const {
  const std::vector<std::string> made = calls();
  return static_cast<std::size_t>(std::ranges::count(made, name));
}

void FakeDriver::set_memory_left(std::size_t bytes) {
  MutexLock lock(state_->mutex);
  state_->memory_left = bytes;
}

void FakeDriver::refuse_registration(bool is_refused) {
  MutexLock lock(state_->mutex);
  state_->refuses_registration = is_refused;
}

std::size_t FakeDriver::registered_count() const {
  MutexLock lock(state_->mutex);
  return state_->registered.size();
}

std::size_t FakeDriver::registration_count() const {
  MutexLock lock(state_->mutex);
  return state_->registrations;
}

std::size_t FakeDriver::unregistered_copies() const {
  MutexLock lock(state_->mutex);
  return state_->unregistered_copies;
}

std::size_t FakeDriver::allocated_bytes() const {
  MutexLock lock(state_->mutex);
  std::size_t total = 0;
  for (const auto& [pointer, memory] : state_->allocations) total += memory.size();
  return total;
}

int FakeDriver::retained_count() const {
  MutexLock lock(state_->mutex);
  return state_->retained;
}

}  // namespace stoker::testing
