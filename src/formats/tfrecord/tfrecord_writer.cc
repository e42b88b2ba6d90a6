#include <cstring>
#include <utility>

#include "formats/tfrecord/tf_example.h"
#include "formats/tfrecord/tfrecord.h"

namespace stoker {
namespace {

using internal::kTfRecordHeaderBytes;
using internal::masked_crc32c;

class TfRecordWriter final : public ShardWriter {
 public:
  TfRecordWriter(ByteSink& sink, TfRecordWriterOptions options)
      : sink_(&sink), options_(std::move(options)) {}

  Status append(const SampleView& sample) override {
    STOKER_TRY(check_open());
    record_.assign(kTfRecordHeaderBytes, std::byte{0});  // filled in once the length is known
    STOKER_TRY(put_data(sample));
    const std::uint64_t length = record_.size() - kTfRecordHeaderBytes;
    std::memcpy(record_.data(), &length, sizeof length);
    put_crc(masked_crc32c(std::span(record_).first(sizeof length)), sizeof length);
    const std::uint32_t data_crc = masked_crc32c(std::span(record_).subspan(kTfRecordHeaderBytes));
    record_.resize(record_.size() + sizeof data_crc);
    put_crc(data_crc, record_.size() - sizeof data_crc);
    if (Status status = sink_->write(record_); !status.ok()) {
      failure_ = status;  // how much of the record arrived is unknown
      return status;
    }
    last_record_ = {size_bytes_, record_.size()};
    size_bytes_ += record_.size();
    ++sample_count_;
    return {};
  }

  Result<std::vector<Sidecar>> finish() override {
    STOKER_TRY(check_open());
    finished_ = true;
    return std::vector<Sidecar>{};
  }

  std::uint64_t sample_count() const noexcept override { return sample_count_; }
  std::uint64_t size_bytes() const noexcept override { return size_bytes_; }
  ByteRange last_record() const noexcept override { return last_record_; }

 private:
  Status check_open() const {
    if (finished_) return Status(Code::invalid_argument, "the shard is finished");
    return failure_;
  }

  Status put_data(const SampleView& sample) {
    if (!options_.raw) return put_example(sample, options_.key_field, record_);
    if (sample.fields.size() != 1 || sample.fields[0].name != kTfRecordRawField)
      return Status(Code::invalid_argument,
                    "a raw record is one field, 'data'; write Examples (raw = false) for others");
    const auto data = sample.fields[0].bytes;
    record_.insert(record_.end(), data.begin(), data.end());
    return {};
  }

  void put_crc(std::uint32_t crc, std::size_t offset) {
    std::memcpy(record_.data() + offset, &crc, sizeof crc);
  }

  ByteSink* sink_;
  TfRecordWriterOptions options_;
  std::vector<std::byte> record_;  // kept from sample to sample for its memory
  std::uint64_t sample_count_ = 0;
  std::uint64_t size_bytes_ = 0;
  ByteRange last_record_;
  Status failure_;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<ShardWriter> make_tfrecord_writer(ByteSink& sink, TfRecordWriterOptions options) {
  return std::make_unique<TfRecordWriter>(sink, std::move(options));
}

}  // namespace stoker
