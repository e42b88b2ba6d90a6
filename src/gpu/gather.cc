#include "gpu/gather.h"

#include <algorithm>
#include <array>
#include <utility>

namespace stoker {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocksPerPiece = 4;
static_assert(sizeof(CudaGather::Piece) == 16);

/// The kernel, as it would be in CUDA C:
///
///   struct Piece { u64 from; u32 to_bytes; u32 size_bytes; };
///   __global__ void stoker_gather(u64 block, Piece pieces[255]) {
///     Piece piece = pieces[blockIdx.x];
///     u64 to = block + piece.to_bytes;
///     u64 first = blockIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.x;
///     Copies units of 16 bytes if both addresses and the size allow it, otherwise of 4, or of 1:
///     for (u64 at = first * unit; at < piece.size_bytes; at += step * unit)
///       copy a unit from piece.from + at to to + at;
///   }
constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry stoker_gather(
  .param .u64 stoker_gather_block,
  .param .align 8 .b8 stoker_gather_pieces[4080]
)
{
  .reg .pred %p<4>;
  .reg .b16 %rs<2>;
  .reg .b32 %r<16>;
  .reg .b64 %rd<32>;

  mov.b64 %rd1, stoker_gather_pieces;
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd3, %rd1, %rd2;
  ld.param.u64 %rd4, [%rd3];
  ld.param.u32 %r2, [%rd3+8];
  ld.param.u32 %r3, [%rd3+12];
  ld.param.u64 %rd5, [stoker_gather_block];
  cvt.u64.u32 %rd6, %r2;
  add.s64 %rd7, %rd5, %rd6;
  cvt.u64.u32 %rd8, %r3;

  cvta.to.global.u64 %rd9, %rd4;
  cvta.to.global.u64 %rd10, %rd7;

  mov.u32 %r4, %ctaid.y;
  mov.u32 %r5, %ntid.x;
  mov.u32 %r6, %tid.x;
  mad.lo.u32 %r7, %r4, %r5, %r6;
  mov.u32 %r8, %nctaid.y;
  mul.lo.u32 %r9, %r8, %r5;
  cvt.u64.u32 %rd11, %r7;
  cvt.u64.u32 %rd12, %r9;

  or.b64 %rd13, %rd9, %rd10;
  or.b64 %rd13, %rd13, %rd8;
  and.b64 %rd14, %rd13, 15;
  setp.eq.u64 %p1, %rd14, 0;
  @%p1 bra SIXTEEN;
  and.b64 %rd14, %rd13, 3;
  setp.eq.u64 %p1, %rd14, 0;
  @%p1 bra FOUR;

ONE:
  setp.ge.u64 %p2, %rd11, %rd8;
  @%p2 bra DONE;
  add.s64 %rd15, %rd9, %rd11;
  add.s64 %rd16, %rd10, %rd11;
  ld.global.u8 %rs1, [%rd15];
  st.global.u8 [%rd16], %rs1;
  add.s64 %rd11, %rd11, %rd12;
  bra ONE;

FOUR:
  shl.b64 %rd11, %rd11, 2;
  shl.b64 %rd12, %rd12, 2;
FOUR_NEXT:
  setp.ge.u64 %p2, %rd11, %rd8;
  @%p2 bra DONE;
  add.s64 %rd15, %rd9, %rd11;
  add.s64 %rd16, %rd10, %rd11;
  ld.global.u32 %r10, [%rd15];
  st.global.u32 [%rd16], %r10;
  add.s64 %rd11, %rd11, %rd12;
  bra FOUR_NEXT;

SIXTEEN:
  shl.b64 %rd11, %rd11, 4;
  shl.b64 %rd12, %rd12, 4;
SIXTEEN_NEXT:
  setp.ge.u64 %p2, %rd11, %rd8;
  @%p2 bra DONE;
  add.s64 %rd15, %rd9, %rd11;
  add.s64 %rd16, %rd10, %rd11;
  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd15];
  st.global.v4.u32 [%rd16], {%r10, %r11, %r12, %r13};
  add.s64 %rd11, %rd11, %rd12;
  bra SIXTEEN_NEXT;

DONE:
  ret;
}
)";

}  // namespace

Result<std::unique_ptr<CudaGather>> CudaGather::make(std::shared_ptr<const CudaDevice> device) {
  const CudaScope scope(*device);
  STOKER_TRY(scope.status());
  const CudaDriver& driver = device->driver();
  CudaModule module = nullptr;
  STOKER_TRY(driver.check(driver.module_load_data(&module, kPtx), "cuModuleLoadData"));
  CudaFunction kernel = nullptr;
  const CudaResult found = driver.module_get_function(&kernel, module, "stoker_gather");
  std::unique_ptr<CudaGather> made(new CudaGather(std::move(device), module, kernel));
  STOKER_TRY(driver.check(found, "cuModuleGetFunction"));
  return made;
}

CudaGather::~CudaGather() {
  if (!guard_.is_here()) return;
  const CudaScope scope(*device_);
  if (scope.status().ok()) static_cast<void>(device_->driver().module_unload(module_));
}

Status CudaGather::enqueue(CudaPointer block, std::span<const Piece> pieces,
                           CudaStream stream) const {
  std::array<Piece, kPiecesMax> arguments{};
  std::ranges::copy(pieces, arguments.begin());
  std::array<void*, 2> parameters = {&block, arguments.data()};
  const CudaDriver& driver = device_->driver();
  return driver.check(
      driver.launch_kernel(kernel_, static_cast<unsigned>(pieces.size()), kBlocksPerPiece, 1,
                           kThreads, 1, 1, 0, stream, parameters.data(), nullptr),
      "cuLaunchKernel");
}

}  // namespace stoker
