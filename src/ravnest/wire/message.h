// What nodes say to each other about the training, as plain structs, and its encoding.
//
// A message is a head (its fields, and the type and shape of each tensor) and the tensors' bytes, each at a multiple of
// 64. Encoding copies no tensor: the result refers to the tensors' own memory. Decoding copies none either: the tensors
// are slices of the one buffer that the message was received into. docs/wire.md describes the bytes.
// Decoding trusts nothing. Whatever the bytes, it ends in a message or in kCorrupt, and takes no more memory than a
// small multiple of what it was given.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ravnest/base/dtype.h"
#include "ravnest/base/slice.h"
#include "ravnest/base/status.h"
#include "ravnest/codec/codec.h"
#include "ravnest/wire/call_messages.h"
#include "ravnest/wire/checkpoint_messages.h"
#include "ravnest/wire/meeting_messages.h"

namespace ravnest::wire {

// Contiguous, in C order. `data` holds what `codec` made of the elements; kNone: the elements as they are in memory.
struct Tensor {
  DType dtype = DType::kFloat32;
  codec::CodecKind codec = codec::CodecKind::kNone;
  std::vector<std::int64_t> shape;
  Slice data;
  std::vector<std::uint8_t> order = {};  // the dimensions as they lie in memory, the outermost first; none: C order
};

// The number of elements of the shape.
std::uint64_t element_count(const Tensor& tensor);

// A tensor on an edge of the cut model, or its gradient. `index` is that of the producer's output, or of the model's
// input.
struct EdgeTensor {
  std::uint32_t index = 0;
  bool wants_gradient = false;  // going forward: whether the sender can use one
  Tensor tensor;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Two kinds have no tensors, and go from the root to all others. An averaging pass makes every stage take part in a
// round between clusters, and counts as an update. A snapshot pass makes every stage take a snapshot of its part, for a
// checkpoint.
enum class PassKind : std::uint8_t { kTrain = 0, kValidate = 1, kPredict = 2, kAverage = 3, kSnapshot = 4 };
constexpr PassKind highest(PassKind) { return PassKind::kSnapshot; }

// What is known of a pass before it is computed: the root says it, all stages go by it.
struct PassHead {
  std::uint64_t pass = 0;  // counts passes of all kinds, in the order in which every stage takes them
  PassKind kind = PassKind::kTrain;
  std::uint64_t step = 0;   // the same among the passes that train: random numbers are keyed by it
  std::uint64_t batch = 0;  // the pass is part `part` of `parts` of this batch
  std::uint32_t part = 0;
  std::uint32_t parts = 1;
  double weight = 1;          // the loss is multiplied by it
  bool update = false;        // the weights are updated after its backward
  std::uint64_t updates = 0;  // that no stage may lack when it begins the pass
  std::uint64_t epoch = 0;    // of the batch; of a validation the number of its sweep
  std::uint64_t index = 0;    // of the batch within the epoch
  std::uint64_t digest = 0;   // of the labels that the root has for the batch; 0: it has none
  std::uint64_t round = 0;    // between clusters: the weights after its update take part in it; 0: in none
  // Every stage takes a snapshot for that checkpoint: after the pass's update, or in a snapshot pass; 0: none does.
  std::uint64_t checkpoint = 0;

  bool operator==(const PassHead&) const = default;
};

// Outputs of a stage, to a stage that consumes them.
struct Forward {
  PassHead head;
  std::uint32_t stage = 0;  // the producer
  std::vector<EdgeTensor> tensors;
  std::vector<EdgeTensor> model_inputs;  // from the root, and to it
};

// The answer to every Forward: the gradients of what it brought, as far as there are any.
struct Backward {
  std::uint64_t pass = 0;
  std::uint32_t stage = 0;  // the consumer
  std::vector<EdgeTensor> tensors;
};

// A part of a vector that the members of a ring add up (collective/ring.h), to the next member.
struct RingChunk {
  std::uint64_t round = 0;
  std::uint64_t attempt = 0;
  std::uint32_t vector = 0;  // its number, which no two have that go around at the time
  std::uint32_t segment = 0;
  std::uint32_t chunk = 0;  // of the segment
  std::uint32_t hop = 0;    // members that it has come from or through
  Tensor tensor;
};

// From every root to every other: how its cluster stands.
struct ClusterState {
  std::uint64_t round = 0;    // the one to be held next
  std::uint64_t attempt = 0;  // the last one that it was told of
  std::uint32_t leader = 0;   // the cluster that it follows
  bool entered = false;       // it takes part in the round
  bool finished = false;      // it trains no more, and takes part in every round
  bool newcomer = false;      // its weights are not those of the others
  bool complete = false;      // it has the attempt's result
  double weight = 0;
  std::uint64_t checkpoint = 0;                // the number that it has for one after the round; 0: it can make none
  bool checkpoint_due = false;                 // and whether it wants one
  std::vector<std::uint32_t> missing = {};     // clusters that it needs for the attempt and can't reach
  std::vector<std::uint32_t> companions = {};  // the attempt's participants that it has not lost since

  bool operator==(const ClusterState&) const = default;
};

// A cluster that takes part in an attempt, and what its parameters weigh in the mean.
struct Participant {
  std::uint32_t cluster = 0;
  double weight = 0;

  bool operator==(const Participant&) const = default;
};

// From the leader to the roots that take part, and from a root to its stages: a round is tried with these clusters. It
// holds when all of them have the result.
struct Attempt {
  std::uint64_t round = 0;
  std::uint64_t attempt = 0;                   // grows at every cluster
  std::vector<Participant> participants = {};  // by cluster
  bool last = false;                           // all participants train no more
  // The weights themselves are averaged, not what was made of them since the last round: some participant's come from
  // elsewhere, or nobody has trained.
  bool whole = false;
  // All participants make a checkpoint of this number when the round holds; of the last round, when they have done what
  // comes after training. 0: none.
  std::uint64_t checkpoint = 0;
  // A checkpoint is due, and not all participants can make one after this round: the next one follows at once, and is
  // entered so that they can.
  bool checkpoint_next = false;

  bool operator==(const Attempt&) const = default;
};

// The same way: the attempt's result holds.
struct CommitAttempt {
  std::uint64_t round = 0;
  std::uint64_t attempt = 0;

  bool operator==(const CommitAttempt&) const = default;
};

// From the leader: enter the round now, somebody needs it.
struct CallRound {
  std::uint64_t round = 0;

  bool operator==(const CallRound&) const = default;
};

// From the leader: your weights are not those of the others, come in as a newcomer.
struct SendOut {
  std::uint64_t round = 0;    // of the leader
  std::uint64_t attempt = 0;  // the last one that the receiver was told of
  bool alone = false;         // there is no round left to come in at: go on alone

  bool operator==(const SendOut&) const = default;
};

// From a stage to its root: it has the attempt's result.
struct AttemptComplete {
  std::uint64_t attempt = 0;

  bool operator==(const AttemptComplete&) const = default;
};

// The same way: the stage of that cluster, which it needs for the attempt, is lost.
struct ClusterMissing {
  std::uint64_t attempt = 0;
  std::uint32_t cluster = 0;

  bool operator==(const ClusterMissing&) const = default;
};

// How clusters agree on their rounds (average/agreement.h). The order is the numbering on the wire, as in Message.
using Averaging =
    std::variant<ClusterState, Attempt, CommitAttempt, CallRound, SendOut, AttemptComplete, ClusterMissing>;

// What the leaf found, to the root.
struct Report {
  std::uint64_t pass = 0;
  double loss = 0;  // as the criterion gave it, without the pass's weight
  std::uint64_t samples = 0;
  std::uint64_t correct = 0;    // of those, where that can be told
  std::vector<Tensor> outputs;  // of a prediction
};

// Weights that several stages use: gradients go to the stage that keeps them, new values come from it.
struct TiedTensors {
  bool gradients = false;
  std::uint64_t number = 0;  // gradients: of the pass or update; values: how many updates they contain
  std::uint32_t stage = 0;   // the sender
  std::vector<NamedTensor> tensors;
};

// The run has failed; everyone tells everyone once.
struct Failed {
  std::uint32_t stage = 0;  // that the reason is about
  bool lost = false;        // it can't say so itself
  std::string reason;       // a sentence, without the stage's name
};

// The order is the numbering on the wire: new kinds go to the end.
using Message = std::variant<Forward, Backward, RingChunk, Ready, Report, TiedTensors, Failed, Over, Averaging, Account,
                             Closed, Meeting, Checkpointing>;

struct EncodedMessage {
  std::vector<Slice> parts;  // in order; the first is the head
  std::uint64_t size = 0;    // of all parts
};

// kInvalid where a tensor's bytes do not agree with its type and shape, or a list is too long to be sent.
Result<EncodedMessage> encode(const Message& message);

// `received` is one whole message.
Result<Message> decode(const Slice& received);

inline constexpr std::size_t kMaxHeadBytes = 8 << 20;  // of a message: fields, names and shapes

}  // namespace ravnest::wire
