/// \file
/// A training with libtorch that may be killed at any moment: train_torch CHECKPOINTS LOSSES.
///
/// A small network learns a sum. Run it again after a kill: it continues from the last committed
/// checkpoint with the losses of an unbroken run. Tensors are saved as views of torch's memory, and
/// restored in place; Python's `stoker.load()` reads them by the same names.
#include <stoker/checkpoint.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

stoker::Result<stoker::TensorType> type_of(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32: return stoker::TensorType::f32;
    case torch::kFloat64: return stoker::TensorType::f64;
    case torch::kFloat16: return stoker::TensorType::f16;
    case torch::kBFloat16: return stoker::TensorType::bf16;
    case torch::kInt64: return stoker::TensorType::i64;
    case torch::kUInt8: return stoker::TensorType::u8;
    case torch::kBool: return stoker::TensorType::boolean;
    default: break;
  }
  return stoker::Status(stoker::Code::unsupported, "a type that this example does not save");
}

/// A view of a contiguous tensor, in host memory or on a CUDA device. The tensor must outlive it.
stoker::Result<stoker::TensorView> view_of(const torch::Tensor& tensor) {
  STOKER_ASSIGN(const stoker::TensorType type, type_of(tensor.scalar_type()));
  const auto sizes = tensor.sizes();
  stoker::TensorView view{.type = type, .shape = {sizes.begin(), sizes.end()}, .is_torch = true};
  view.memory = {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
  if (tensor.is_cuda()) view.device = tensor.device().index();
  return view;
}

/// The parameters and buffers of a module, by the names that torch gives them.
stoker::Result<stoker::Tree> tree_of(const torch::nn::Module& module) {
  stoker::Tree tree = stoker::Tree::map();
  for (const auto& named : {module.named_parameters(), module.named_buffers()})
    for (const auto& item : named) {
      STOKER_ASSIGN(tree[item.key()], view_of(item.value()));
    }
  return tree;
}

struct Net : torch::nn::Module {
  Net() {
    register_module("hidden", hidden);
    register_module("out", out);
  }
  torch::Tensor forward(const torch::Tensor& x) { return out(torch::relu(hidden(x))); }

  torch::nn::Linear hidden{8, 16};
  torch::nn::Linear out{16, 1};
};

/// The momentum of plain SGD: one tensor for each parameter, saved under its name.
struct Momentum {
  explicit Momentum(const Net& net) {
    for (const auto& item : net.named_parameters())
      moments.emplace_back(item.key(), torch::zeros_like(item.value()));
  }
  void step(Net& net) {
    const torch::NoGradGuard guard;
    const auto parameters = net.named_parameters();
    for (auto& [name, moment] : moments) {
      moment.mul_(0.9).add_(parameters[name].grad());
      parameters[name].sub_(moment, 0.01);
    }
  }
  stoker::Result<stoker::Tree> tree() const {
    stoker::Tree tree = stoker::Tree::map();
    for (const auto& [name, moment] : moments) {
      STOKER_ASSIGN(tree[name], view_of(moment));
    }
    return tree;
  }

  std::vector<std::pair<std::string, torch::Tensor>> moments;
};

/// The samples of a step follow from its number alone.
torch::Tensor samples(std::uint64_t step) {
  torch::manual_seed(step);
  return torch::rand({32, 8});
}

stoker::Status train(const std::string& checkpoints, const std::string& path,
                     std::uint64_t die_at) {
  torch::set_num_threads(1);
  torch::manual_seed(7);
  Net net;
  Momentum momentum(net);
  STOKER_ASSIGN(const auto saver,
                stoker::Checkpointer::open({.directory = checkpoints, .keep_last = 2}));
  STOKER_ASSIGN(stoker::Tree model, tree_of(net));
  STOKER_ASSIGN(stoker::Tree optimizer, momentum.tree());
  stoker::Tree trees = {
      {"model", model}, {"optimizer", optimizer}, {"losses", stoker::Tree::list({})}};
  STOKER_ASSIGN(const auto done, saver->restore(trees));
  for (std::uint64_t step = done ? done->step + 1 : 1; step <= 40; ++step) {
    const torch::Tensor x = samples(step);
    net.zero_grad();
    torch::Tensor loss = torch::mse_loss(net.forward(x), x.sum(1, /*keepdim=*/true));
    loss.backward();
    momentum.step(net);
    trees["losses"].append(loss.item<double>());
    if (saver->due(step, {.every_steps = 5})) STOKER_TRY(saver->save(step, trees).status());
    if (step == die_at) ::kill(::getpid(), SIGKILL);
  }
  std::FILE* const out = std::fopen(path.c_str(), "w");
  if (out == nullptr) return stoker::Status::from_errno(errno, "open", path);
  for (const stoker::Tree& loss : trees["losses"].items())
    std::fprintf(out, "%.13a\n", loss.real().value_or(0));
  std::fclose(out);
  return saver->close();
}

}  // namespace

int main(int argc, char** argv) {
  const bool may_die = argc == 5 && std::string_view(argv[3]) == "--die-at";
  if (argc != 3 && !may_die) {
    std::fputs("usage: train_torch CHECKPOINTS LOSSES [--die-at N]\n", stderr);
    return 2;
  }
  const stoker::Status status =
      train(argv[1], argv[2], may_die ? std::strtoull(argv[4], nullptr, 10) : 0);
  if (status.ok()) return 0;
  std::fprintf(stderr, "train_torch: %.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return 1;
}
