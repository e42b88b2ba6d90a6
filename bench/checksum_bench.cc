// Measures the overhead of our checksums over the libraries that compute them. Each is measured as
// one call and as a stream, against the library called directly, on the same warm buffer.
#include <benchmark/benchmark.h>
#include <isa-l/crc.h>
#include <openssl/evp.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(STOKER_XXH_DISPATCH)
#define XXH_DISPATCH_DISABLE_REPLACE
#include <xxh_x86dispatch.h>
#endif

#include <vector>

#include "base/checksum.h"

namespace stoker {
namespace {

/// Runs `body(data)` on a buffer of state.range(0) bytes.
template <typename Body>
void measure(benchmark::State& state, Body body) {
  std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)));
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(7 * i + 3);
  for (auto _ : state) {
    auto result = body(std::span<const std::byte>(data));
    benchmark::DoNotOptimize(result);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(64)->Arg(4096)->Arg(4 << 20);
}

void BM_Xxh3(benchmark::State& state) {
  measure(state, [](auto data) { return xxh3_128(data).low; });
}
void BM_Xxh3Stream(benchmark::State& state) {
  Xxh3Stream stream;
  measure(state, [&](auto data) {
    stream.reset();
    stream.update(data);
    return stream.digest().low;
  });
}
#if defined(STOKER_XXH_DISPATCH)
/// The entry point that Stoker calls, which dispatches by CPU.
void BM_Xxh3Library(benchmark::State& state) {
  measure(state, [](auto data) { return XXH3_128bits_dispatch(data.data(), data.size()).low64; });
}
void BM_Xxh3StreamLibrary(benchmark::State& state) {
  XXH3_state_t* stream = XXH3_createState();
  measure(state, [&](auto data) {
    XXH3_128bits_reset(stream);
    XXH3_128bits_update_dispatch(stream, data.data(), data.size());
    return XXH3_128bits_digest(stream).low64;
  });
  XXH3_freeState(stream);
}
#endif
/// The entry point that most programs call, compiled for the oldest CPU of the architecture.
void BM_Xxh3LibraryPortable(benchmark::State& state) {
  measure(state, [](auto data) { return XXH3_128bits(data.data(), data.size()).low64; });
}

void BM_Crc32c(benchmark::State& state) {
  measure(state, [](auto data) { return crc32c(data); });
}
void BM_Crc32cStream(benchmark::State& state) {
  Crc32cStream stream;
  measure(state, [&](auto data) {
    stream.reset();
    stream.update(data);
    return stream.digest();
  });
}
void BM_Crc32cLibrary(benchmark::State& state) {
  measure(state, [](auto data) {
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data.data()));
    return ~crc32_iscsi(bytes, static_cast<int>(data.size()), ~0U);
  });
}

void BM_Sha256(benchmark::State& state) {
  measure(state, [](auto data) { return (*sha256(data))[0]; });
}
void BM_Sha256Stream(benchmark::State& state) {
  Sha256Stream stream;
  measure(state, [&](auto data) {
    stream.reset();
    stream.update(data);
    return (*stream.digest())[0];
  });
}
void BM_Sha256Library(benchmark::State& state) {
  measure(state, [](auto data) {
    unsigned char digest[32];
    EVP_Digest(data.data(), data.size(), digest, nullptr, EVP_sha256(), nullptr);
    return digest[0];
  });
}
void BM_Sha256StreamLibrary(benchmark::State& state) {
  EVP_MD_CTX* stream = EVP_MD_CTX_new();
  measure(state, [&](auto data) {
    unsigned char digest[32];
    EVP_DigestInit_ex(stream, EVP_sha256(), nullptr);
    EVP_DigestUpdate(stream, data.data(), data.size());
    EVP_DigestFinal_ex(stream, digest, nullptr);
    return digest[0];
  });
  EVP_MD_CTX_free(stream);
}

// SSE code first: some libraries, called directly, slow down SSE code that runs after them.
BENCHMARK(BM_Sha256)->Apply(sizes);
BENCHMARK(BM_Sha256Library)->Apply(sizes);
BENCHMARK(BM_Sha256Stream)->Apply(sizes);
BENCHMARK(BM_Sha256StreamLibrary)->Apply(sizes);
BENCHMARK(BM_Xxh3LibraryPortable)->Apply(sizes);
BENCHMARK(BM_Xxh3)->Apply(sizes);
BENCHMARK(BM_Xxh3Stream)->Apply(sizes);
#if defined(STOKER_XXH_DISPATCH)
BENCHMARK(BM_Xxh3Library)->Apply(sizes);
BENCHMARK(BM_Xxh3StreamLibrary)->Apply(sizes);
#endif
BENCHMARK(BM_Crc32c)->Apply(sizes);
BENCHMARK(BM_Crc32cStream)->Apply(sizes);
BENCHMARK(BM_Crc32cLibrary)->Apply(sizes);

}  // namespace
}  // namespace stoker
