// Any bytes as a file of AWS, as keys in JSON, or as the answer of STS: nothing crashes, what is
// refused is corrupt, and accepted keys can be part of a header.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/credentials/key_text.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Result<FetchedCredentials>& fetched) {
  if (!fetched.ok()) {
    require(fetched.status().code() == Code::corrupt);
    return;
  }
  const S3Credentials& keys = fetched->keys;
  require(!keys.access_key_id.empty() && !keys.secret_access_key.empty());
  for (const std::string_view text :
       {std::string_view(keys.access_key_id), std::string_view(keys.session_token)})
    require(std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; }));
}

void read_keys(std::string_view text) {
  const Result<IniFile> file = parse_ini(text);
  require(file.ok() || file.status().code() == Code::corrupt);
  check(parse_json_keys(text));
  check(parse_sts_keys(text));
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::read_keys({reinterpret_cast<const char*>(data), size});
  return 0;
}
