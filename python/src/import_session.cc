#include "import_session.h"

#include <span>
#include <utility>

namespace stoker::python {
namespace {

/// The rows for the planner. Samples are never read through it: Python reads them.
class RowList final : public PackInput {
 public:
  RowList(const ImportedRows& rows, const IngestedSample& first)
      : rows_(rows), first_(std::span(&first, 1), 0), field_count_(first.fields.size()) {}

  std::uint64_t sample_count() const noexcept override { return rows_.count; }
  Result<Extent> extent(std::uint64_t sample) const override {
    const bool is_known = sample < rows_.sizes_bytes.size();
    return Extent{.size_bytes = is_known ? rows_.sizes_bytes[sample] : rows_.mean_bytes,
                  .field_count = field_count_};
  }
  Status read(std::uint64_t /*sample*/, InputSample& /*out*/) const override {
    return Status(Code::unsupported, "rows are read by Python");
  }
  std::string describe(std::uint64_t sample) const override {
    return "row " + std::to_string(sample);
  }
  Digest128 fingerprint() const override {
    return xxh3_128(std::as_bytes(std::span(rows_.fingerprint)));
  }
  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override {
    return first_.mds_columns();
  }
  std::optional<Dtype> token_dtype() const override { return first_.token_dtype(); }

 private:
  const ImportedRows& rows_;
  const MemoryInput first_;
  const std::uint64_t field_count_;
};

}  // namespace

Status ImportShard::append(const std::vector<IngestedSample>& samples) {
  if (packer_ == nullptr) return Status(Code::invalid_argument, "the shard is finished already");
  SampleView view;
  for (const IngestedSample& sample : samples) {
    sample.view(view);
    if (Status status = packer_->append(view); !status.ok())
      return status.code() == Code::invalid_argument ? status.with_context(sample.describe(next_))
                                                     : status;
    ++next_;
  }
  return {};
}

Status ImportShard::finish() {
  if (packer_ == nullptr) return Status(Code::invalid_argument, "the shard is finished already");
  STOKER_TRY(packer_->finish());
  packer_.reset();
  return {};
}

void ImportShard::abandon() {
  // The staging file belongs to the parent: a child that exits must not remove it.
  if (!guard_.is_here()) static_cast<void>(packer_.release());
  packer_.reset();
}

Result<std::unique_ptr<ImportSession>> ImportSession::open(FileOps& ops,
                                                           const std::string& directory,
                                                           const PackOptions& options,
                                                           const ImportedRows& rows,
                                                           const IngestedSample& first) {
  const RowList list(rows, first);
  STOKER_ASSIGN(std::unique_ptr<PackSession> session,
                PackSession::open(ops, list, directory, options, TaskShare::adjacent));
  return std::unique_ptr<ImportSession>(new ImportSession(ops, std::move(session)));
}

Result<std::vector<std::uint64_t>> ImportSession::find_pending() {
  std::vector<std::uint64_t> pending;
  const PackJob& job = session_->plan().job;
  for (const std::uint64_t shard : session_->shards()) {
    STOKER_ASSIGN(const bool is_finished,
                  is_shard_finished(ops_, session_->directory(), job.shard_name(shard), job.hash));
    if (!is_finished) pending.push_back(shard);
  }
  found_ = session_->shards().size() - pending.size();
  return pending;
}

Result<std::unique_ptr<ImportShard>> ImportSession::begin_shard(std::uint64_t shard) {
  const PackJob& job = session_->plan().job;
  if (shard >= job.shard_count) return Status(Code::invalid_argument, "no such shard");
  STOKER_ASSIGN(std::unique_ptr<ShardPacker> packer,
                ShardPacker::make(ops_, session_->writer(),
                                  {.directory = session_->directory(),
                                   .name = job.shard_name(shard),
                                   .plan_hash = job.hash}));
  return std::make_unique<ImportShard>(std::move(packer), session_->plan().cuts[shard]);
}

Result<PackReport> ImportSession::close() {
  return session_->close(found_);
}

}  // namespace stoker::python
