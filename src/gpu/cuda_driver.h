/// \file
/// The functions of the CUDA driver that Stoker uses, loaded at run time: nothing here needs
/// NVIDIA's headers or libraries to be built, or to be loaded on a machine without them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "stoker/status.h"

namespace stoker {

using CudaResult = int;                           ///< CUresult; 0 is success.
using CudaPointer = unsigned long long;           ///< CUdeviceptr: an address on a device.
using CudaContext = struct CudaContextHandle*;    ///< CUcontext.
using CudaStream = struct CudaStreamHandle*;      ///< CUstream; null: the legacy default stream.
using CudaEvent = struct CudaEventHandle*;        ///< CUevent.
using CudaModule = struct CudaModuleHandle*;      ///< CUmodule.
using CudaFunction = struct CudaFunctionHandle*;  ///< CUfunction.

/// Results that callers act on. All others are failures.
inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaOutOfMemory = 2;
inline constexpr CudaResult kCudaNotReady = 600;
inline constexpr CudaResult kCudaAlreadyRegistered = 712;
inline constexpr CudaResult kCudaCaptureImplicit = 906;

inline constexpr unsigned kCudaStreamNonBlocking = 1;   ///< Not ordered with the default stream.
inline constexpr unsigned kCudaEventBlockingSync = 1;   ///< event_synchronize() does not spin.
inline constexpr unsigned kCudaEventDisableTiming = 2;  ///< Costs less.
inline constexpr unsigned kCudaRegisterPortable = 1;    ///< Pinned for every device.
inline constexpr int kCudaCaptureNone = 0;              ///< stream_is_capturing(): no capture.
inline constexpr int kCudaCaptureModeRelaxed = 2;       ///< thread_exchange_capture_mode().
inline constexpr int kCudaAttributeMemoryType = 2;      ///< pointer_get_attribute().
inline constexpr unsigned kCudaMemoryTypeHost = 1;      ///< Its value for pinned host memory.

/// The driver's entry points, each with the signature of the version that find() asks for. Tests
/// fill in a table of their own. The names are those of the driver's documentation without "cu".
///
/// Thread safety: immutable once filled in; the functions may be called from any thread.
struct CudaDriver {
  /// Loads libcuda.so.1 and initializes it, once per process; creates no context. `unsupported`
  /// with the reason if there is no library, it is older than CUDA 12.0, or it finds no GPU. The
  /// table is never freed.
  static Result<const CudaDriver*> find();

  /// Returns OK for kCudaSuccess; otherwise a failure "call: CUDA_ERROR_NAME (number)", which is
  /// `unavailable` if the device is out of memory and `io_error` if not.
  Status check(CudaResult result, const char* call) const;

  /// Whether a stream, whose device is current, captures a CUDA graph: then nothing may be enqueued
  /// that is no part of it.
  Result<bool> is_capturing(CudaStream stream) const;

  std::function<CudaResult(int* version)> driver_get_version;
  std::function<CudaResult(CudaResult error, const char** name)> get_error_name;
  std::function<CudaResult(int* count)> device_get_count;
  std::function<CudaResult(int* device, int ordinal)> device_get;
  std::function<CudaResult(int* value, int attribute, int device)> device_get_attribute;
  std::function<CudaResult(char* id, int size, int device)> device_get_pci_bus_id;

  std::function<CudaResult(int device, unsigned* flags, int* is_active)> primary_ctx_get_state;
  std::function<CudaResult(CudaContext* context, int device)> primary_ctx_retain;
  std::function<CudaResult(int device)> primary_ctx_release;
  std::function<CudaResult(CudaContext context)> ctx_push_current;
  std::function<CudaResult(CudaContext* context)> ctx_pop_current;
  std::function<CudaResult(int* mode)> thread_exchange_capture_mode;

  std::function<CudaResult(CudaStream* stream, unsigned flags)> stream_create;
  std::function<CudaResult(CudaStream stream)> stream_destroy;
  std::function<CudaResult(CudaStream stream, CudaEvent event, unsigned flags)> stream_wait_event;
  std::function<CudaResult(CudaStream stream)> stream_synchronize;
  std::function<CudaResult(CudaStream stream)> stream_query;
  std::function<CudaResult(CudaStream stream, int* status)> stream_is_capturing;

  std::function<CudaResult(CudaEvent* event, unsigned flags)> event_create;
  std::function<CudaResult(CudaEvent event)> event_destroy;
  std::function<CudaResult(CudaEvent event, CudaStream stream)> event_record;
  std::function<CudaResult(CudaEvent event)> event_query;
  std::function<CudaResult(CudaEvent event)> event_synchronize;

  std::function<CudaResult(CudaPointer* memory, std::size_t size_bytes)> mem_alloc;
  std::function<CudaResult(CudaPointer memory)> mem_free;
  std::function<CudaResult(std::size_t* free_bytes, std::size_t* total_bytes)> mem_get_info;
  std::function<CudaResult(void* memory, std::size_t size_bytes, unsigned flags)> mem_host_register;
  std::function<CudaResult(void* memory)> mem_host_unregister;
  std::function<CudaResult(void* value, int attribute, CudaPointer memory)> pointer_get_attribute;

  std::function<CudaResult(void* to, CudaPointer from, std::size_t size_bytes, CudaStream stream)>
      memcpy_dtoh_async;
  std::function<CudaResult(CudaPointer to, const void* from, std::size_t size_bytes,
                           CudaStream stream)>
      memcpy_htod_async;
  std::function<CudaResult(CudaPointer to, CudaPointer from, std::size_t size_bytes,
                           CudaStream stream)>
      memcpy_dtod_async;

  std::function<CudaResult(CudaModule* module, const void* image)> module_load_data;
  std::function<CudaResult(CudaModule module)> module_unload;
  std::function<CudaResult(CudaFunction* function, CudaModule module, const char* name)>
      module_get_function;
  std::function<CudaResult(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                           unsigned block_x, unsigned block_y, unsigned block_z,
                           unsigned shared_bytes, CudaStream stream, void** parameters,
                           void** extra)>
      launch_kernel;
};

}  // namespace stoker
