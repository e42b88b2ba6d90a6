// libcuda.so.1 of tests: the entry points of the driver, with a FakeDriver behind them.
#include "gpu/fake_libcuda.h"

#include <map>
#include <string_view>

namespace stoker::testing {
namespace {

template <auto kEntry, typename... Arguments>
void* function_of(std::function<CudaResult(Arguments...)> CudaDriver::*) {
  return reinterpret_cast<void*>(
      +[](Arguments... arguments) { return (fake_cuda().table().*kEntry)(arguments...); });
}

void* init() {
  return reinterpret_cast<void*>(+[](unsigned) { return kCudaSuccess; });
}

/// By the names of the driver's documentation.
const std::map<std::string_view, void*>& functions() {
#define STOKER_ENTRY(symbol, entry) {symbol, function_of<&CudaDriver::entry>(&CudaDriver::entry)}
  static const std::map<std::string_view, void*> found = {
      {"cuInit", init()},
      STOKER_ENTRY("cuDriverGetVersion", driver_get_version),
      STOKER_ENTRY("cuGetErrorName", get_error_name),
      STOKER_ENTRY("cuDeviceGetCount", device_get_count),
      STOKER_ENTRY("cuDeviceGet", device_get),
      STOKER_ENTRY("cuDeviceGetAttribute", device_get_attribute),
      STOKER_ENTRY("cuDeviceGetPCIBusId", device_get_pci_bus_id),
      STOKER_ENTRY("cuDevicePrimaryCtxGetState", primary_ctx_get_state),
      STOKER_ENTRY("cuDevicePrimaryCtxRetain", primary_ctx_retain),
      STOKER_ENTRY("cuDevicePrimaryCtxRelease", primary_ctx_release),
      STOKER_ENTRY("cuCtxPushCurrent", ctx_push_current),
      STOKER_ENTRY("cuCtxPopCurrent", ctx_pop_current),
      STOKER_ENTRY("cuThreadExchangeStreamCaptureMode", thread_exchange_capture_mode),
      STOKER_ENTRY("cuStreamCreate", stream_create),
      STOKER_ENTRY("cuStreamDestroy", stream_destroy),
      STOKER_ENTRY("cuStreamWaitEvent", stream_wait_event),
      STOKER_ENTRY("cuStreamSynchronize", stream_synchronize),
      STOKER_ENTRY("cuStreamQuery", stream_query),
      STOKER_ENTRY("cuStreamIsCapturing", stream_is_capturing),
      STOKER_ENTRY("cuEventCreate", event_create),
      STOKER_ENTRY("cuEventDestroy", event_destroy),
      STOKER_ENTRY("cuEventRecord", event_record),
      STOKER_ENTRY("cuEventQuery", event_query),
      STOKER_ENTRY("cuEventSynchronize", event_synchronize),
      STOKER_ENTRY("cuMemAlloc", mem_alloc),
      STOKER_ENTRY("cuMemFree", mem_free),
      STOKER_ENTRY("cuMemGetInfo", mem_get_info),
      STOKER_ENTRY("cuMemHostRegister", mem_host_register),
      STOKER_ENTRY("cuMemHostUnregister", mem_host_unregister),
      STOKER_ENTRY("cuPointerGetAttribute", pointer_get_attribute),
      STOKER_ENTRY("cuMemcpyDtoHAsync", memcpy_dtoh_async),
      STOKER_ENTRY("cuMemcpyHtoDAsync", memcpy_htod_async),
      STOKER_ENTRY("cuMemcpyDtoDAsync", memcpy_dtod_async),
      STOKER_ENTRY("cuModuleLoadData", module_load_data),
      STOKER_ENTRY("cuModuleUnload", module_unload),
      STOKER_ENTRY("cuModuleGetFunction", module_get_function),
      STOKER_ENTRY("cuLaunchKernel", launch_kernel),
  };
#undef STOKER_ENTRY
  return found;
}

}  // namespace

FakeDriver& fake_cuda() {
  static FakeDriver& driver = *new FakeDriver();  // its streams are used until the process ends
  return driver;
}

}  // namespace stoker::testing

/// As the driver's, of CUDA 12.0.
extern "C" stoker::CudaResult cuGetProcAddress_v2(const char* symbol, void** function, int,
                                                  std::uint64_t, int*) {
  const auto found = stoker::testing::functions().find(symbol);
  constexpr stoker::CudaResult kNotFound = 500;
  if (found == stoker::testing::functions().end()) return kNotFound;
  *function = found->second;
  return stoker::kCudaSuccess;
}
