#include "checkpoint/save/save_pieces.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace stoker {

Status count_pieces(SaveJob& job, TensorCopier& copier, CopyRest& late) {
  if (!job.digests.empty() || job.request.tensors.empty()) return {};
  STOKER_ASSIGN(job.digests, copier.digests(job.request.tensors, late));
  return {};
}

std::vector<SharedPiece> pieces_of(const SaveJob& job) {
  std::vector<SharedPiece> pieces;
  for (std::size_t i = 0; i < job.digests.size(); ++i) {
    const SaveTensor& tensor = job.request.tensors[i];
    if (tensor.is_per_rank) continue;
    const Result<std::uint64_t> size_bytes = tensor_bytes(tensor.type, tensor.shape);
    pieces.push_back({.name = xxh3_128(std::as_bytes(std::span(tensor.name))),
                      .key = job.keys[i],
                      .digest = job.digests[i],
                      .size_bytes = size_bytes.ok() ? *size_bytes : 0,
                      .is_slice = !tensor.global_shape.empty()});
  }
  return pieces;
}

SharingVerdict decide_sharing(std::span<const BeginMessage> messages,
                              std::span<const std::uint32_t> places) {
  const auto has_failed = [](const BeginMessage& one) { return !one.failure.ok(); };
  if (messages.size() == 1 || std::ranges::any_of(messages, has_failed)) return {};
  const std::uint64_t number = messages.front().shared_number;
  const bool is_same = std::ranges::all_of(
      messages, [&](const BeginMessage& one) { return one.shared_number == number; });
  if (is_same && number != 0) return {};
  std::vector<std::span<const SharedPiece>> ranks;
  for (const BeginMessage& message : messages) {
    if (!message.pieces) return {.must_count = true};
    ranks.emplace_back(*message.pieces);
  }
  return {.owners = choose_owners(ranks, places)};
}

Status hash_copies(SaveJob& job, TensorCopier& copier, CopyRest& late) {
  if (job.held.empty()) return {};
  std::vector<SaveTensor> held;
  for (const std::size_t i : job.held) held.push_back(job.request.tensors[i]);
  std::vector<Digest128> digests;
  if (job.digests.empty()) {
    STOKER_ASSIGN(digests, copier.digests(held, late));
  } else {
    for (const std::size_t i : job.held) digests.push_back(job.digests[i]);
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i].offsets.empty()) held[i].offsets.resize(held[i].shape.size());
    job.copies.push_back({.name = std::move(held[i].name),
                          .offsets = std::move(held[i].offsets),
                          .shape = std::move(held[i].shape),
                          .digest = digests[i]});
  }
  return {};
}

}  // namespace stoker
