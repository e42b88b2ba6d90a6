// tests/plan/CMakeLists.txt compiles this with each MIXED: only 0 may pass.
#if MIXED == 3
#include "stoker/plan.h"
#else
#include "stoker/quantity.h"
#endif

namespace stoker::plan {

#if MIXED == 0
constexpr BytesPerSecond kRight = Bytes{1} / Seconds{1} + BytesPerSecond{1};
static_assert(kRight == BytesPerSecond{2});
static_assert(Bytes{6} / BytesPerSecond{3} == Seconds{2});
static_assert(Bytes{6} / Bytes{3} == 2.0);
#elif MIXED == 1
const auto wrong = Bytes{1} + Seconds{1};
#elif MIXED == 2
const BytesPerSecond wrong = Bytes{1};
#elif MIXED == 3
const ReadInputs wrong = {.sample = BytesPerSecond{1}};
#elif MIXED == 4
const bool wrong = Money{1} < MoneyPerSecond{1};
#elif MIXED == 5
const Bytes wrong = 130e3;
#elif MIXED == 6
const MoneyPerByte wrong = MoneyPerSecond{1};
#elif MIXED == 7
const Money wrong = Bytes{1} * Money{1};
#endif

}  // namespace stoker::plan
