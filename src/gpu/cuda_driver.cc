#include "gpu/cuda_driver.h"

#include <dlfcn.h>

#include <cerrno>
#include <memory>
#include <string>

namespace stoker {
namespace {

/// cuGetProcAddress_v2, of CUDA 12.0.
using GetProcAddress = CudaResult (*)(const char* symbol, void** function, int version,
                                      std::uint64_t flags, int* found);

Status missing(const std::string& why) {
  return Status(Code::unsupported, "no CUDA: " + why);
}

/// Looks up entry points by the version of CUDA that introduced the signature declared here: by its
/// name alone, dlsym would find the oldest.
class Loader {
 public:
  explicit Loader(GetProcAddress get) : get_(get) {}

  template <typename Result, typename... Arguments>
  void find(std::function<Result(Arguments...)>& entry, const char* symbol, int version) {
    void* function = nullptr;
    int found = 0;
    const CudaResult result = get_(symbol, &function, version, /*flags=*/0, &found);
    if (result == kCudaSuccess && function != nullptr)
      entry = reinterpret_cast<Result (*)(Arguments...)>(function);
    else if (missing_.empty())
      missing_ = symbol;
  }
  const std::string& missing() const noexcept { return missing_; }

 private:
  GetProcAddress get_;
  std::string missing_;  // the first one
};

void find_all(Loader& loader, CudaDriver& driver) {
  loader.find(driver.driver_get_version, "cuDriverGetVersion", 2020);
  loader.find(driver.get_error_name, "cuGetErrorName", 6000);
  loader.find(driver.device_get_count, "cuDeviceGetCount", 2000);
  loader.find(driver.device_get, "cuDeviceGet", 2000);
  loader.find(driver.device_get_attribute, "cuDeviceGetAttribute", 2000);
  loader.find(driver.device_get_pci_bus_id, "cuDeviceGetPCIBusId", 4010);
  loader.find(driver.primary_ctx_get_state, "cuDevicePrimaryCtxGetState", 7000);
  loader.find(driver.primary_ctx_retain, "cuDevicePrimaryCtxRetain", 7000);
  loader.find(driver.primary_ctx_release, "cuDevicePrimaryCtxRelease", 11000);
  loader.find(driver.ctx_push_current, "cuCtxPushCurrent", 4000);
  loader.find(driver.ctx_pop_current, "cuCtxPopCurrent", 4000);
  loader.find(driver.thread_exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010);
  loader.find(driver.stream_create, "cuStreamCreate", 2000);
  loader.find(driver.stream_destroy, "cuStreamDestroy", 4000);
  loader.find(driver.stream_wait_event, "cuStreamWaitEvent", 3020);
  loader.find(driver.stream_synchronize, "cuStreamSynchronize", 2000);
  loader.find(driver.stream_query, "cuStreamQuery", 2000);
  loader.find(driver.stream_is_capturing, "cuStreamIsCapturing", 10000);
  loader.find(driver.event_create, "cuEventCreate", 2000);
  loader.find(driver.event_destroy, "cuEventDestroy", 4000);
  loader.find(driver.event_record, "cuEventRecord", 2000);
  loader.find(driver.event_query, "cuEventQuery", 2000);
  loader.find(driver.event_synchronize, "cuEventSynchronize", 2000);
  loader.find(driver.mem_alloc, "cuMemAlloc", 3020);
  loader.find(driver.mem_free, "cuMemFree", 3020);
  loader.find(driver.mem_get_info, "cuMemGetInfo", 3020);
  loader.find(driver.mem_host_register, "cuMemHostRegister", 6050);
  loader.find(driver.mem_host_unregister, "cuMemHostUnregister", 4000);
  loader.find(driver.pointer_get_attribute, "cuPointerGetAttribute", 4000);
  loader.find(driver.memcpy_dtoh_async, "cuMemcpyDtoHAsync", 3020);
  loader.find(driver.memcpy_htod_async, "cuMemcpyHtoDAsync", 3020);
  loader.find(driver.memcpy_dtod_async, "cuMemcpyDtoDAsync", 3020);
  loader.find(driver.module_load_data, "cuModuleLoadData", 2000);
  loader.find(driver.module_unload, "cuModuleUnload", 2000);
  loader.find(driver.module_get_function, "cuModuleGetFunction", 2000);
  loader.find(driver.launch_kernel, "cuLaunchKernel", 4000);
}

Result<const CudaDriver*> load() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return missing(why != nullptr ? why : "libcuda.so.1 cannot be loaded");
  }
  const auto get = reinterpret_cast<GetProcAddress>(::dlsym(library, "cuGetProcAddress_v2"));
  if (get == nullptr) return missing("the driver is older than CUDA 12.0");
  auto driver = std::make_unique<CudaDriver>();
  Loader loader(get);
  std::function<CudaResult(unsigned flags)> init;
  loader.find(init, "cuInit", 2000);
  find_all(loader, *driver);
  if (!loader.missing().empty()) return missing("the driver has no " + loader.missing());
  if (const CudaResult result = init(0); result != kCudaSuccess)
    return missing(std::string(driver->check(result, "cuInit").message()));
  int count = 0;
  STOKER_TRY(driver->check(driver->device_get_count(&count), "cuDeviceGetCount"));
  if (count == 0) return missing("the driver finds no GPU");
  return static_cast<const CudaDriver*>(driver.release());
}

}  // namespace

Result<const CudaDriver*> CudaDriver::find() {
  static const Result<const CudaDriver*> found = load();
  return found;
}

Status CudaDriver::check(CudaResult result, const char* call) const {
  if (result == kCudaSuccess) return {};
  const char* name = nullptr;
  if (!get_error_name || get_error_name(result, &name) != kCudaSuccess || name == nullptr)
    name = "an unknown error";
  const Code code = result == kCudaOutOfMemory ? Code::unavailable : Code::io_error;
  // Not EIO, which would be an error of the medium: a checkpoint that was being read is not
  // damaged.
  return Status(code, std::string(call) + ": " + name + " (" + std::to_string(result) + ")",
                code == Code::io_error ? EREMOTEIO : 0);
}

Result<bool> CudaDriver::is_capturing(CudaStream stream) const {
  int status = kCudaCaptureNone;
  const CudaResult asked = stream_is_capturing(stream, &status);
  if (asked == kCudaCaptureImplicit) return true;
  STOKER_TRY(check(asked, "cuStreamIsCapturing"));
  return status != kCudaCaptureNone;
}

}  // namespace stoker
