#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "checkpoint/directory/wait_notice.h"
#include "checkpoint/ranks/meeting.h"
#include "checkpoint/ranks/meeting_words.h"
#include "io/files/file_ops.h"
#include "io/files/path_at.h"

namespace stoker {

/// The protocol by which ranks meet (numbered in meeting_talk.cc): one attempt of one rank.
///
/// Thread safety: none.
class Meeting::Talk {
 public:
  Talk(Meeting& meeting, Deadline deadline)
      : meeting_(meeting),
        options_(meeting.options_),
        ops_(meeting.options_.place.ops()),
        deadline_(deadline),
        notice_(meeting.options_.on_wait) {}

  Result<std::string> lead();
  Result<std::string> follow();

 private:
  /// The contents of the directory at one moment.
  struct Look {
    std::vector<RankClaim> claims;
    std::map<std::string, std::string> welcomes;  ///< Text by rank 0's nonce.
    std::map<std::string, std::string> ready;     ///< Session by nonce.
    std::string refusal;                          ///< Why another rank refuses this one; or empty.

    bool has_said(const std::map<std::string, std::string>& what, const std::string& nonce,
                  const std::string& text) const {
      const auto found = what.find(nonce);
      return found != what.end() && found->second == text;
    }
  };

  PathAt at(const std::string& name) const { return meeting_.directory_ / name; }
  std::string read(const std::string& name) const;
  Result<Look> look();
  Look look_once();
  bool is_alive(const RankClaim& claim) const;
  void remove_dead(const Look& seen) const;
  Status publish(const std::string& name, const std::string& text);
  Status pause();
  std::string find_conflict(const Look& seen) const;
  std::string conflict_text(const RankClaim& one, const RankClaim& other) const;
  bool is_this_rank(const std::string& nonce) const;
  Deadline settled_after(nanoseconds time) const;
  bool awaits_siblings(const Look& seen);
  bool awaits_strangers(const Look& seen);
  Status is_over(const std::vector<std::uint32_t>& missing);
  Status refuse(const std::string& conflict);
  Status find_refusal(const Look& seen);

  Meeting& meeting_;
  const MeetingOptions& options_;
  FileOps& ops_;
  const Deadline deadline_;
  WaitNotice notice_;
  std::map<std::string, RankClaim> known_;  // by nonce: a claim never changes
  std::optional<Deadline> settled_;
  std::optional<Deadline> strangers_until_;
  nanoseconds pause_ = std::chrono::milliseconds(1);
};

}  // namespace stoker
