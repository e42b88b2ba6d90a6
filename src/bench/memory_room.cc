#include "bench/memory_room.h"

#include <fstream>
#include <string>

namespace stoker {

std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  std::string unit;
  while (file >> name >> kib) {
    if (name == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return ~std::uint64_t{0};
}

}  // namespace stoker
