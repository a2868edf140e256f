// The communicator over any transport: a thread that owns a ring of the ranks' endpoints.
//
// Tensors of the CPU take part in place, those of a GPU by way of this host. float32 and float64 are added up; float32
// may be compressed. The transport decides whether a rank is alive: no operation has a time limit of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ravnest/collective/group.h"
#include "ravnest/strategy/communicate/communicator.h"
#include "ravnest/strategy/communicate/host_passage.h"
#include "ravnest/strategy/communicate/operation_queue.h"
#include "ravnest/transport/endpoint.h"

namespace ravnest::strategy {

class RingCommunicator final : public Communicator {
 public:
  // `names` are those of the ranks' endpoints, by rank; this one's is its own and outlives the communicator, which
  // takes what comes on Channel::kAveraging, alone. It has all others as peers, and they should be up by now: of a rank
  // that was never there nobody can say that it was lost.
  RingCommunicator(transport::Endpoint& endpoint, std::vector<std::string> names, int rank);

  int rank() const override { return rank_; }
  int world() const override { return world_; }
  std::shared_ptr<Pending> all_reduce(at::Tensor values, std::shared_ptr<Compression> compression) override;
  std::shared_ptr<Pending> reduce_scatter(at::Tensor values, std::shared_ptr<Compression> compression) override;
  std::shared_ptr<Pending> all_gather(at::Tensor values) override;
  std::shared_ptr<Pending> broadcast(at::Tensor values, int root) override;
  std::shared_ptr<Pending> sum(std::span<double> values) override;
  std::shared_ptr<Pending> sum(std::span<std::int64_t> values) override;
  void abort(const Status& why) override;

 private:
  // What an operation reads of a tensor, and what it makes anew.
  struct Parts {
    collective::Range read;
    collective::Range made;
  };
  // Carries the operation out, with the values on this host.
  using OnHost = std::function<Status(const at::Tensor&)>;

  std::shared_ptr<Pending> begin(at::Tensor values, const Parts& parts, OnHost operation);
  template <class T>
  std::shared_ptr<Pending> begin_sum(std::span<T> values);
  // This rank's segment, and all there is.
  collective::Range own(const at::Tensor& values) const;
  static collective::Range all(const at::Tensor& values);

  const int rank_;
  const int world_;
  collective::Group group_;
  HostPassage passage_;
  OperationQueue queue_;  // its thread uses what stands above
};

}  // namespace ravnest::strategy
