#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "base/work_together.h"
#include "bind.h"
#include "io/engine/arena.h"
#include "io/engine/residency.h"
#include "io/files/filesystem.h"
#include "io/files/publish.h"
#include "io/files/regular_file.h"
#include "io/read_many.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using Numbers = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Source = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Place = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

/// Paths are bytes, as in the kernel: made by Python's os.fsencode().
std::string path_of(const nb::bytes& path) {
  return {path.c_str(), path.size()};
}

/// The memory of all arrays of one call; freed with the last of them.
class Memory {
 public:
  static Result<std::unique_ptr<Memory>> make(std::size_t size_bytes) {
    constexpr std::size_t kMapFromBytes = std::size_t{4} << 20;  // from here huge pages pay off
    auto made = std::unique_ptr<Memory>(new Memory);
    if (size_bytes >= kMapFromBytes) {
      Result<MappedArena> arena = MappedArena::map(size_bytes, true, false);
      if (!arena.ok()) return arena.status();
      made->arena_.emplace(*std::move(arena));
      made->bytes_ = made->arena_->bytes();
    } else if (size_bytes > 0) {
      made->small_.reset(::operator new(size_bytes, std::align_val_t{kAlignBytes}));
      made->bytes_ = {static_cast<std::byte*>(made->small_.get()), size_bytes};
    }
    return made;
  }
  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t kAlignBytes = 4096;
  struct Free {
    void operator()(void* memory) const noexcept {
      ::operator delete(memory, std::align_val_t{kAlignBytes});
    }
  };
  Memory() = default;

  std::optional<MappedArena> arena_;
  std::unique_ptr<void, Free> small_;
  std::span<std::byte> bytes_;
};

/// Returns the result of probe_engine(), called once because it takes a millisecond. Not a static
/// local object: a fork could leave its lock held.
EngineKind probed_engine() {
  static std::atomic<EngineKind> known{EngineKind::automatic};  // relaxed: guards no other data
  EngineKind kind = known.load(std::memory_order_relaxed);
  if (kind == EngineKind::automatic) {
    kind = probe_engine().kind;
    known.store(kind, std::memory_order_relaxed);
  }
  return kind;
}

std::vector<ReadRange> ranges_from(const Numbers& table, const nb::object& places) {
  std::vector<ReadRange> ranges(table.size() / 3);
  for (std::size_t i = 0; i < ranges.size(); ++i)
    ranges[i] = {.file = static_cast<std::uint32_t>(table.data()[3 * i]),
                 .offset_bytes = table.data()[3 * i + 1],
                 .size_bytes = table.data()[3 * i + 2]};
  if (places.is_none()) return ranges;
  std::size_t next = 0;
  for (const nb::handle item : places) {
    const auto place = nb::cast<Place>(item);
    static std::byte nothing{};  // an empty place also needs an address
    auto* data = place.size() == 0 ? &nothing : reinterpret_cast<std::byte*>(place.data());
    ranges.at(next++).into = {data, place.size()};
  }
  return ranges;
}

nb::list arrays_of(const ManyReads& reads, std::unique_ptr<Memory> memory) {
  const std::span<std::byte> bytes = memory->bytes();
  const nb::capsule owner(memory.release(),
                          [](void* held) noexcept { delete static_cast<Memory*>(held); });
  static std::uint8_t nothing = 0;
  nb::list arrays;
  for (std::size_t i = 0; i < reads.count(); ++i) {
    const std::span<std::byte> part = reads.bytes(i, bytes);
    auto* data = part.empty() ? &nothing : reinterpret_cast<std::uint8_t*>(part.data());
    arrays.append(Bytes(data, {part.size()}, owner));
  }
  return arrays;
}

nb::object read_many(const nb::list& paths, const Numbers& table, const nb::object& places,
                     const std::string& policy, const std::string& engine) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const nb::handle path : paths) names.push_back(path_of(nb::cast<nb::bytes>(path)));
  ReadManyOptions options;
  options.policy = value_or_raise(parse_cache_policy(policy));
  options.engine = value_or_raise(parse_engine_kind(engine));
  options.sync_for_few = options.engine == EngineKind::automatic;
  // Runs on the thread that called us and held the GIL: native threads never take it.
  options.is_interrupted = [] {
    const TakenGil gil;
    return PyErr_CheckSignals() != 0;
  };
  std::vector<ReadRange> ranges = ranges_from(table, places);
  std::unique_ptr<Memory> memory;
  auto reads = without_gil([&]() -> Result<ManyReads> {
    if (options.engine == EngineKind::automatic) options.engine = probed_engine();
    STOKER_ASSIGN(ManyReads planned, ManyReads::plan(posix_file_ops(), std::move(names),
                                                     std::move(ranges), std::move(options)));
    STOKER_ASSIGN(memory, Memory::make(planned.memory_bytes()));
    STOKER_TRY(planned.read(memory->bytes()));
    return planned;
  });
  if (PyErr_Occurred() != nullptr) throw nb::python_error();  // from a signal handler
  raise_if_failed(reads.status());
  if (!places.is_none()) return nb::none();
  return arrays_of(*reads, std::move(memory));
}

/// A view of any contiguous buffer, without a copy.
class BufferView {
 public:
  explicit BufferView(const nb::object& object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  ~BufferView() { PyBuffer_Release(&view_); }

  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

void write_durable(const nb::bytes& path, const nb::object& data, bool must_be_new) {
  const BufferView view(data);
  const std::string name = path_of(path);
  const IfExists if_exists = must_be_new ? IfExists::fail : IfExists::replace;
  raise_if_failed(
      without_gil([&] { return publish_file(posix_file_ops(), name, view.bytes(), if_exists); }));
}

nb::tuple look(const nb::bytes& path, std::uint64_t offset, std::uint64_t size, bool evict_first) {
  const std::string name = path_of(path);
  const Residency found = value_or_raise(without_gil([&]() -> Result<Residency> {
    STOKER_ASSIGN(const UniqueFd fd, open_regular(posix_file_ops(), name));
    const std::string context = (evict_first ? "evict " : "residency ") + name;
    if (evict_first) STOKER_TRY(stoker::evict(fd.get()).with_context(context));
    Result<Residency> counted = stoker::residency(fd.get(), offset, size);
    if (!counted.ok()) return counted.status().with_context(context);
    return counted;
  }));
  return nb::make_tuple(found.resident_bytes, found.size_bytes);
}

/// Uses several threads for large copies: one does not reach the memory bandwidth.
void copy_bytes(const Source& from, const Place& to) {
  constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  constexpr std::size_t kThreadsMax = 4;
  if (from.size() != to.size()) throw nb::value_error("as many bytes as there is room for");
  std::atomic<std::size_t> next{0};  // relaxed: threads share only the number
  const auto work = [&] {
    for (;;) {
      const std::size_t at = next.fetch_add(kPieceBytes, std::memory_order_relaxed);
      if (at >= from.size()) return;
      std::memcpy(to.data() + at, from.data() + at, std::min(kPieceBytes, from.size() - at));
    }
  };
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  const std::size_t pieces = from.size() / kPieceBytes;
  without_gil([&] { work_together(std::min({kThreadsMax, cores, pieces}), work); });
}

/// Empty if it cannot be asked.
std::string name_filesystem(const nb::bytes& path) {
  const std::string name = path_of(path);
  const nb::gil_scoped_release release;
  const UniqueFd fd(::open(name.c_str(), O_PATH | O_CLOEXEC));
  const Result<FilesystemKind> kind = filesystem_of(fd.get());
  return kind.ok() ? kind->name : std::string();
}

}  // namespace

// stoker/io.py has the public names, checks the arguments and documents them.
void bind_io(nb::module_& module) {
  module.def("read_many", &read_many, "paths"_a, "table"_a, "places"_a.none(), "policy"_a,
             "engine"_a,
             nb::sig("def read_many(paths: list[bytes], table: NDArray[numpy.uint64], "
                     "places: list[NDArray[numpy.uint8]] | None, policy: str, engine: str) -> "
                     "list[NDArray[numpy.uint8]] | None"),
             "Rows of `table`: file, offset, size. Use stoker.io.read_many.");
  module.def("write_durable", &write_durable, "path"_a, "data"_a, "must_be_new"_a,
             nb::sig("def write_durable(path: bytes, data: Any, must_be_new: bool) -> None"),
             "Use stoker.io.write_durable.");
  module.def(
      "advise_huge_pages",
      [](std::uintptr_t address, std::size_t size) {
        advise_huge_pages({reinterpret_cast<std::byte*>(address), size});
      },
      "address"_a, "size"_a,
      "Asks for huge pages in new memory that is about to be filled, before it is touched.");
  module.def("residency", &look, "path"_a, "offset"_a, "size"_a, "evict_first"_a,
             nb::sig("def residency(path: bytes, offset: int, size: int, evict_first: bool) -> "
                     "tuple[int, int]"),
             "Returns resident bytes and size of a range; size 0 means to the end. Use "
             "stoker.io.residency.");
  module.def("filesystem_of", &name_filesystem, "path"_a,
             nb::sig("def filesystem_of(path: bytes) -> str"),
             "Returns the name of its filesystem, such as 'ext4'; empty if it cannot be asked.");
  module.def(
      "copy_bytes", &copy_bytes, "source"_a, "to"_a,
      nb::sig("def copy_bytes(source: NDArray[numpy.uint8], to: NDArray[numpy.uint8]) -> None"),
      "Copies bytes; uses several threads for large arrays.");
}

}  // namespace stoker::python
