#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda_driver.h"

namespace stoker::testing {

/// A CUDA driver with devices whose memory is this process's. Streams run what they are given, in
/// order, on threads of their own. A device pointer cannot be dereferenced by the host, a call with
/// the wrong context fails, and so does one that would spoil another thread's capture.
///
/// Thread safety: everything may be called from any thread.
class FakeDriver {
 public:
  explicit FakeDriver(int device_count = 2);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const CudaDriver& table() const noexcept { return table_; }

  /// Allocates memory of a device, filled with `bytes`. It lives as long as the driver. Like the
  /// driver, refuses a copy that spans two allocations.
  CudaPointer upload(std::span<const std::byte> bytes);
  /// The same, but two allocations side by side. Returns the address of the first.
  CudaPointer upload_adjacent(std::span<const std::byte> first, std::span<const std::byte> second);
  /// The memory behind a device pointer.
  static std::byte* memory_at(CudaPointer pointer) noexcept;

  /// A stream of the test's own, as a caller's. Destroyed with the driver.
  CudaStream make_stream(int device);
  /// Enqueues a write to device memory, which happens when the stream gets there.
  void enqueue_write(int device, CudaStream stream, CudaPointer to, std::vector<std::byte> bytes);
  /// What is enqueued from now on waits for release().
  void hold(int device, CudaStream stream);
  void release();
  /// Waits until the stream has done everything.
  void finish(int device, CudaStream stream);
  void set_capturing(CudaStream stream, bool is_capturing);
  /// Whether the process has used the devices; true at first.
  void set_in_use(bool is_in_use);

  /// How a call fails.
  enum class Fault : std::uint8_t {
    once,    ///< It returns an error and does nothing.
    sticky,  ///< So do all later calls, and no work that is left is done.
    later,  ///< It succeeds, its work and all that is left are lost, and later calls return errors.
    /// It throws std::bad_alloc and does nothing: the program has no memory at this point. Calls
    /// that destructors make succeed.
    no_memory,
  };
  /// The call with this number, counted from now on and from 0, fails.
  void fail_call(std::size_t number, Fault fault = Fault::sticky);
  /// The next call of this name fails.
  void fail_next(std::string name, Fault fault);
  void heal();
  /// The calls since the last fail_call() or the beginning, by name.
  std::vector<std::string> calls() const;
  std::size_t count_of(const std::string& name) const;

  void set_memory_left(std::size_t bytes);  ///< For mem_alloc().
  void refuse_registration(bool is_refused);
  std::size_t registered_count() const;     ///< Ranges that are registered now.
  std::size_t registration_count() const;   ///< Ranges that ever were.
  std::size_t unregistered_copies() const;  ///< Copies to or from memory that is not registered.
  std::size_t allocated_bytes() const;      ///< By mem_alloc(), and not freed.
  int retained_count() const;               ///< Primary contexts.

 private:
  struct State;
  std::shared_ptr<State> state_;
  CudaDriver table_;
};

}  // namespace stoker::testing
