#include "base/token.h"

#include <array>
#include <random>
#include <span>

#include "base/hex.h"

namespace stoker {

std::string make_token() {
  std::random_device random;
  std::array<unsigned, 4> words{};
  for (unsigned& word : words) word = random();
  return format_hex(std::as_bytes(std::span(words)));
}

}  // namespace stoker
