// What python/tests/loader/test_loader_cpp.py runs beside stoker.Loader, with the public headers
// alone. Prints lines, and the Status of a failure on stderr.
//
//     loader_tool run SHARDS BATCHES SHUFFLE TAIL MICRO_BATCH [STATE]   step and keys, then the
//     state loader_tool split SHARDS SEED FRACTION...                        fingerprint of each
//     part loader_tool tokens DATA WINDOW PACK                              fingerprint, row 1
//     loader_tool mixture SHARDS SHARDS                                fingerprint
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/loader.h"

namespace {

using stoker::Status;
using Arguments = std::vector<std::string>;

std::uint64_t number(const std::string& text) {
  return std::strtoull(text.c_str(), nullptr, 10);
}

Status run(const Arguments& given) {
  STOKER_ASSIGN(const stoker::Shuffle shuffle, stoker::parse_shuffle(given.at(2)));
  STOKER_ASSIGN(const stoker::Tail tail, stoker::parse_tail(given.at(3)));
  STOKER_ASSIGN(stoker::Loader loader,
                stoker::Loader::open({.data = {given.at(0)},
                                      .global_batch_size = 8,
                                      .micro_batch_size = number(given.at(4)),
                                      .shuffle = shuffle,
                                      .seed = 7,
                                      .epochs = std::nullopt,
                                      .total_epochs = 3,
                                      .tail = tail,
                                      .fields = {{"cls", stoker::FieldKind::int64}}}));
  if (given.size() > 5) STOKER_TRY(loader.resume(given[5]));
  for (std::uint64_t i = 0; i < number(given.at(1)); ++i) {
    STOKER_ASSIGN(const std::optional<stoker::Batch> batch, loader.next());
    if (!batch) break;
    std::printf("%llu", static_cast<unsigned long long>(loader.step()));
    for (std::size_t k = 0; k < batch->size(); ++k) std::printf(" %s", batch->key(k).c_str());
    std::printf("\n");
  }
  STOKER_ASSIGN(const std::string state, loader.state());
  std::printf("%s\n", state.c_str());
  return {};
}

Status split(const Arguments& given) {
  STOKER_ASSIGN(const stoker::Dataset dataset, stoker::Dataset::open(given.at(0)));
  std::vector<double> fractions;
  for (std::size_t i = 2; i < given.size(); ++i) fractions.push_back(std::stod(given[i]));
  STOKER_ASSIGN(const std::vector<stoker::Dataset> parts,
                dataset.split(fractions, number(given.at(1))));
  for (const stoker::Dataset& part : parts) std::printf("%s\n", part.fingerprint().hex().c_str());
  return {};
}

Status tokens(const Arguments& given) {
  STOKER_ASSIGN(const stoker::Dataset dataset, stoker::Dataset::open(given.at(0)));
  STOKER_ASSIGN(const stoker::Tokens rows,
                stoker::Tokens::open(dataset, {.window = number(given.at(1)),
                                               .pack = number(given.at(2)),
                                               .dtype = stoker::Dtype::int64}));
  STOKER_ASSIGN(const stoker::TokenRow row, rows.read(1));
  std::printf("%s\n", rows.fingerprint().hex().c_str());
  for (std::size_t at = 0; at < row.tokens.size(); at += sizeof(std::int64_t)) {
    std::int64_t token = 0;
    std::memcpy(&token, row.tokens.data() + at, sizeof(token));
    std::printf("%lld ", static_cast<long long>(token));
  }
  std::printf("\n");
  return {};
}

Status mixture(const Arguments& given) {
  STOKER_ASSIGN(const stoker::Dataset one, stoker::Dataset::open(given.at(0)));
  STOKER_ASSIGN(const stoker::Dataset other, stoker::Dataset::open(given.at(1)));
  STOKER_ASSIGN(const stoker::Mixture both, stoker::Mixture::make({{one, 0.7}, {other, 0.3}}));
  std::printf("%s\n", both.fingerprint().hex().c_str());
  return {};
}

}  // namespace

int main(int count, char** words) {
  const Arguments given(words + 2, words + count);
  const std::string_view name = words[1];
  const Status status = name == "run"      ? run(given)
                        : name == "split"  ? split(given)
                        : name == "tokens" ? tokens(given)
                                           : mixture(given);
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
