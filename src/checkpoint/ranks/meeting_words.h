/// \file
/// The files that ranks write when they meet: names and texts. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/ranks/launcher.h"

namespace stoker {

inline constexpr std::string_view kClaimPrefix = "claim-";
inline constexpr std::string_view kWelcomePrefix = "welcome-";
inline constexpr std::string_view kReadyPrefix = "ready-";
inline constexpr std::string_view kRefusedPrefix = "refused-";
inline constexpr std::size_t kMessageBytesMax = std::size_t{64} << 20;

/// "claim-3-<nonce>", and the inverse: rank and nonce.
std::string word_name(std::string_view prefix, std::uint32_t rank, const std::string& nonce);
std::optional<std::pair<std::uint32_t, std::string>> parse_word_name(std::string_view name,
                                                                     std::string_view prefix);

/// The claim of one process to a rank.
struct RankClaim {
  std::uint32_t rank = 0;
  std::string nonce;
  std::string host;
  ProcessIdentity process;
  ProcessIdentity launcher;

  /// Whether the launchers of both are known, on one machine, and different.
  bool is_of_another_job(const RankClaim& other) const;
  /// "pid 123 on node7, started by pid 100"
  std::string who() const;

  /// Returns text of a fixed length, so that a claim completely overwrites the previous one. `beat`
  /// is incremented as a heartbeat.
  std::string format(std::uint64_t beat) const;
  /// Returns nothing for a text that is not a claim.
  static std::optional<RankClaim> parse(std::string_view text, std::uint32_t rank,
                                        const std::string& nonce);
};

/// Rank 0's message to all ranks, published again whenever it changes.
struct RankWelcome {
  std::string session;
  std::set<std::string> nonces;      ///< Nonces of all claims seen.
  std::vector<std::string> members;  ///< The nonce of each rank, once all are ready.
  std::vector<std::uint32_t> missing;
  std::string failure;  ///< Why there will be no session; empty if there is no failure.

  std::string format() const;
  static std::optional<RankWelcome> parse(std::string_view text);
};

/// The message of a rank that has detected two jobs, to all processes present.
struct RankRefusal {
  std::set<std::string> nonces;  ///< Nonces of all claims seen.
  std::string text;

  std::string format() const;
  static std::optional<RankRefusal> parse(std::string_view text);
};

}  // namespace stoker
