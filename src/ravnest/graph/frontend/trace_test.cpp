#include "ravnest/graph/frontend/trace.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "ravnest/graph/cut/slice.h"
#include "ravnest/graph/ir/archive/archive.h"
#include "ravnest/graph/run/engine.h"

namespace ravnest::graph {
namespace {

namespace nn = torch::nn;

nn::Sequential digits_cnn() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(torch::kSame)), nn::ReLU(),
                        nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)), nn::Dropout(0.25), nn::BatchNorm2d(16),
                        nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)),
                        nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(torch::kSame)), nn::ReLU(),
                        nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)), nn::Dropout(0.25), nn::BatchNorm2d(32),
                        nn::Flatten(), nn::Linear(32, 256), nn::ReLU(), nn::Dropout(0.4), nn::BatchNorm1d(256),
                        nn::Linear(256, 10), nn::Softmax(-1));
}

struct MlpImpl : nn::Module {
  MlpImpl() {
    first = register_module("first", nn::Linear(12, 16));
    second = register_module("second", nn::Linear(16, 4));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(first(x.view({x.size(0), -1})));
    x = torch::dropout(x, 0.5, is_training());
    if (is_training()) x = x + 0.1 * torch::randn({x.size(0), 16});
    return torch::log_softmax(second(x), -1);
  }
  nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Mlp);

struct RecurrentImpl : nn::Module {
  RecurrentImpl() {
    embed = register_module("embed", nn::Embedding(20, 6));
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(6, 8).num_layers(2).batch_first(true).dropout(0.2)));
    head = register_module("head", nn::Linear(8, 5));
  }
  std::tuple<torch::Tensor, std::tuple<torch::Tensor, torch::Tensor>> forward(torch::Tensor tokens) {
    auto [hidden, state] = lstm(embed(tokens));
    return {head(hidden), state};
  }
  nn::Embedding embed{nullptr};
  nn::LSTM lstm{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Recurrent);

// Attention with the library's own module, which wants the sequence first, and a weight under two names.
struct TransformerImpl : nn::Module {
  TransformerImpl() {
    embed = register_module("embed", nn::Embedding(16, 8));
    attention = register_module("attention", nn::MultiheadAttention(nn::MultiheadAttentionOptions(8, 2).dropout(0.1)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({8})));
    wide = register_module("wide", nn::Linear(8, 16));
    narrow = register_module("narrow", nn::Linear(16, 8));
    output = register_parameter("output", embed->weight);
    mask = register_buffer("mask", torch::triu(torch::full({5, 5}, -INFINITY), 1));
  }
  torch::Tensor forward(torch::Tensor tokens) {
    torch::Tensor x = embed(tokens).transpose(0, 1);
    const torch::Tensor normed = norm(x);
    x = x + std::get<0>(attention->forward(normed, normed, normed, {}, true, mask));
    x = x + narrow(torch::gelu(wide(norm(x))));
    return torch::matmul(x.transpose(0, 1), output.t());
  }
  nn::Embedding embed{nullptr};
  nn::MultiheadAttention attention{nullptr};
  nn::LayerNorm norm{nullptr};
  nn::Linear wide{nullptr}, narrow{nullptr};
  torch::Tensor output, mask;
};
TORCH_MODULE(Transformer);

std::vector<at::Tensor> tensors_in(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  std::vector<at::Tensor> result;
  for (const c10::IValue& each : value.toTupleRef().elements())
    for (const at::Tensor& tensor : tensors_in(each)) result.push_back(tensor);
  return result;
}

at::Tensor loss_of(const std::vector<at::Tensor>& outputs) {
  at::Tensor loss = torch::zeros({});
  for (const at::Tensor& output : outputs)
    loss = loss + (output * torch::linspace(-1, 1, output.numel()).view(output.sizes())).sum();
  return loss;
}

template <class Module>
std::vector<at::Tensor> call(Module& module, const at::Tensor& input) {
  return tensors_in(trace_detail::to_ivalue(module.forward(input)));
}

std::vector<at::Tensor> call(const Engine& engine, Mode mode, const at::Tensor& input) {
  RunOptions options;
  options.random = std::nullopt;
  std::vector<at::Tensor> outputs;
  for (const c10::IValue& output : engine.run(mode, {input}, options)) outputs.push_back(output.toTensor());
  return outputs;
}

void expect_equal(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_TRUE(torch::equal(ours[i], theirs[i])) << "output " << i;
}

at::Tensor rows(const at::Tensor& example, std::int64_t count) {
  return example.index_select(0, torch::arange(count).remainder(example.size(0)));
}

template <class Module>
ir::Model traced(Module& module, const at::Tensor& example) {
  Result<ir::Model> model = trace(module, {example});
  EXPECT_TRUE(model.ok()) << model.status();
  return std::move(model).value();
}

// Three steps of SGD at three batch sizes, then eval: the same numbers to the last bit.
template <class Module>
void expect_same_training(Module& module, const at::Tensor& example) {
  const Engine engine = *Engine::create(traced(module, example));
  module.train();
  std::map<std::string, at::Tensor> parameters;
  for (const auto& [name, tensor] : engine.parameters()) parameters[name] = tensor;
  ASSERT_EQ(parameters.size(), module.named_parameters().size());
  std::vector<at::Tensor> own;
  for (const at::Tensor& each : module.parameters())
    if (std::none_of(own.begin(), own.end(), [&](const at::Tensor& known) { return known.is_same(each); }))
      own.push_back(each);
  for (const std::int64_t size : {example.size(0), example.size(0) + 3, std::int64_t{2}}) {
    const at::Tensor input = rows(example, size);
    torch::manual_seed(size);
    for (at::Tensor& each : own) each.mutable_grad() = at::Tensor();
    loss_of(call(module, input)).backward();
    torch::manual_seed(size);
    for (auto& [name, tensor] : parameters) tensor.mutable_grad() = at::Tensor();
    loss_of(call(engine, Mode::kTrain, input)).backward();
    for (const auto& item : module.named_parameters())
      EXPECT_TRUE(torch::equal(parameters.at(item.key()).grad(), item.value().grad())) << item.key();
    const torch::NoGradGuard no_grad;
    for (at::Tensor& each : own) each.sub_(0.1 * each.grad());
    std::vector<at::Tensor> updated;
    for (auto& [name, tensor] : parameters) {
      if (std::any_of(updated.begin(), updated.end(),
                      [&, &own = tensor](const auto& known) { return known.is_same(own); }))
        continue;
      tensor.sub_(0.1 * tensor.grad());
      updated.push_back(tensor);
    }
  }
  for (const auto& [name, tensor] : engine.buffers())
    EXPECT_TRUE(torch::equal(tensor, module.named_buffers()[name])) << name;
  module.eval();
  for (const std::int64_t size : {example.size(0), std::int64_t{1}})
    expect_equal(call(engine, Mode::kEval, rows(example, size)), call(module, rows(example, size)));
}

// On one thread: the models are small, and on a busy machine threads would only wait for each other.
struct Trace : testing::Test {
  Trace() { at::set_num_threads(1); }
};

TEST_F(Trace, TheDigitsCnnTrainsLikeItself) {
  torch::manual_seed(0);
  nn::Sequential net = digits_cnn();
  // Sequential's own forward is a template; a function around it is what is traced.
  struct Forward : nn::Module {
    explicit Forward(nn::Sequential given) : net(register_module("net", std::move(given))) {}
    torch::Tensor forward(torch::Tensor x) { return net->forward(std::move(x)); }
    nn::Sequential net;
  } module(net);
  expect_same_training(module, torch::randn({8, 1, 8, 8}));
}

TEST_F(Trace, ASequentialIsTracedAsItIs) {
  nn::Sequential net = digits_cnn();
  const at::Tensor input = torch::randn({4, 1, 8, 8});
  const Engine engine = *Engine::create(traced(*net, input));
  net->eval();
  expect_equal(call(engine, Mode::kEval, input), {net->forward(input)});
}

TEST_F(Trace, AnMlpWithDropoutAndNoiseTrainsLikeItself) {
  torch::manual_seed(0);
  Mlp net;
  expect_same_training(*net, torch::randn({6, 3, 4}));
}

TEST_F(Trace, AnLstmTrainsLikeItself) {
  torch::manual_seed(0);
  Recurrent net;
  expect_same_training(*net, torch::randint(0, 20, {4, 5}));
}

TEST_F(Trace, ATransformerWithTiedWeightsTrainsLikeItself) {
  torch::manual_seed(0);
  Transformer net;
  expect_same_training(*net, torch::randint(0, 16, {4, 5}));
}

TEST_F(Trace, TheBatchIsASymbolThatOtherSizesAreExpressionsOf) {
  Transformer net;
  const ir::Model model = traced(*net, torch::randint(0, 16, {4, 5}));
  const ir::Value* input = nullptr;
  for (const ir::Input& each : model.train.inputs)
    if (each.kind == ir::InputKind::kUser) input = &model.train.values[each.value];
  ASSERT_NE(input, nullptr);
  EXPECT_EQ(input->tensor.sizes[0].expression, "Symbol('s0', positive=True, integer=True)");
  EXPECT_EQ(input->tensor.sizes[0].hint, 4);
  EXPECT_FALSE(input->tensor.sizes[1].symbolic());
  const auto doubled = [](const ir::Value& value) {
    return std::any_of(value.tensor.sizes.begin(), value.tensor.sizes.end(), [](const ir::Size& size) {
      return size.expression == "Mul(Integer(2), Symbol('s0', positive=True, integer=True))" && size.hint == 8;
    });
  };
  EXPECT_TRUE(std::any_of(model.train.values.begin(), model.train.values.end(), doubled)) << "batch times heads";
}

TEST_F(Trace, TheModelIsLeftAsItWas) {
  torch::manual_seed(0);
  nn::Sequential net = digits_cnn();
  net->train();
  net[4]->eval();
  const at::Tensor input = torch::randn({4, 1, 8, 8});
  net->forward(input).sum().backward();
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : net->buffers()) before.push_back(buffer.clone());
  for (const at::Tensor& parameter : net->parameters()) before.push_back(parameter.grad().clone());
  const at::Tensor state = at::globalContext().defaultGenerator(at::kCPU).get_state();
  traced(*net, input);
  std::vector<at::Tensor> after = net->buffers();
  for (const at::Tensor& parameter : net->parameters()) after.push_back(parameter.grad());
  expect_equal(after, before);
  EXPECT_TRUE(torch::equal(at::globalContext().defaultGenerator(at::kCPU).get_state(), state));
  EXPECT_TRUE(net->is_training());
  EXPECT_FALSE(net[4]->is_training());
  EXPECT_TRUE(net[5]->is_training());
}

struct Peeking : nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x.sum().item<float>() > 0 ? x * 2 : x * 3; }
};

TEST_F(Trace, AForwardThatReadsDataIsRefused) {
  Peeking module;
  const Result<ir::Model> model = trace(module, {torch::randn({2, 2})});
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), Code::kUnsupported);
  EXPECT_NE(model.status().message().find("aten::item"), std::string::npos) << model.status();
}

struct Forgetful : nn::Module {
  torch::Tensor forward(torch::Tensor x) { return x * static_cast<double>(++calls); }
  int calls = 0;
};

TEST_F(Trace, AForwardWithStateOutsideOfItsBuffersIsRefused) {
  Forgetful module;
  const Result<ir::Model> model = trace(module, {torch::randn({2, 2})});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("output 0"), std::string::npos) << model.status();
}

// Calls are counted outside of its buffers, but a call more changes next to nothing.
struct Drifting : nn::Module {
  explicit Drifting(double drift) : by(drift) {}
  torch::Tensor forward(torch::Tensor x) { return x * (1 + by * ++calls); }
  double by;
  int calls = 0;
};

TEST_F(Trace, ADifferenceOfRoundingIsCapturedWithANote) {
  std::ostringstream said;
  Drifting module(4e-7);
  EXPECT_TRUE(trace(module, {torch::randn({2, 2})}, {}, Logger("test", Level::kInfo, said)).ok());
  EXPECT_NE(said.str().find("within rounding: output 0"), std::string::npos) << said.str();
  EXPECT_NE(said.str().find("Two runs of the model itself differ too"), std::string::npos) << said.str();
  EXPECT_EQ(said.str().find("order"), std::string::npos) << "nobody has looked for that: " << said.str();
}

TEST_F(Trace, RoundingIsMeasuredByTheTypeOfTheNumbers) {
  std::ostringstream said;
  const Logger log("test", Level::kInfo, said);
  Drifting module(1e-4);
  EXPECT_FALSE(trace(module, {torch::randn({2, 2})}, {}, log).ok());
  EXPECT_TRUE(trace(module, {torch::randn({2, 2}, at::kBFloat16)}, {}, log).ok());
  Drifting finer(1e-9);
  EXPECT_FALSE(trace(finer, {torch::randn({2, 2}, at::kDouble)}, {}, log).ok());
}

struct Quintuple : torch::autograd::Function<Quintuple> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 5};
  }
};

struct OwnBackward : nn::Module {
  OwnBackward() { register_module("fc", fc); }
  torch::Tensor forward(const torch::Tensor& x) { return Quintuple::apply(fc(x)); }
  nn::Linear fc = nn::Linear(2, 2);
};

TEST_F(Trace, ABackwardOfTheModelsOwnIsRefusedByName) {
  OwnBackward module;
  const Result<ir::Model> model = trace(module, {torch::randn({2, 2})});
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("the gradient of fc."), std::string::npos) << model.status();
  EXPECT_NE(model.status().message().find("Quintuple"), std::string::npos) << model.status();
}

struct Picky : nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    for (std::int64_t i = 0; i < x.size(0); ++i) x = x + 1;
    return x;
  }
};

TEST_F(Trace, AModelWithOtherOperatorsPerBatchHasItFixed) {
  Picky module;
  const ir::Model model = traced(module, torch::randn({3, 2}));
  EXPECT_EQ(model.train.operators.size(), 3);
  EXPECT_FALSE(model.train.values[model.train.inputs.back().value].tensor.sizes[0].symbolic());
}

TEST_F(Trace, AnArchiveOfItReadsBackAndIsCut) {
  torch::manual_seed(0);
  Transformer net;
  const at::Tensor input = torch::randint(0, 16, {4, 5});
  const ir::Model model = traced(*net, input);
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "traced.pt2";
  ASSERT_TRUE(ir::write_archive(model, path).ok());
  const Result<Engine> engine = Engine::load(path);
  ASSERT_TRUE(engine.ok()) << engine.status();
  net->eval();
  expect_equal(call(*engine, Mode::kEval, rows(input, 7)), call(*net, rows(input, 7)));
  const auto cuts = possible_cuts(model);
  ASSERT_TRUE(cuts.ok()) << cuts.status();
  const auto legal = [](const Cut& cut) { return cut.refusal.empty(); };
  const auto cut = std::find_if(cuts->begin() + static_cast<std::ptrdiff_t>(cuts->size() / 2), cuts->end(), legal);
  ASSERT_NE(cut, cuts->end());
  const auto stages = slice(model, std::vector<int>{cut->position});
  ASSERT_TRUE(stages.ok()) << stages.status();
  EXPECT_EQ(stages->size(), 2);
}

}  // namespace
}  // namespace ravnest::graph
