// gRPC as one uses it first: a bidirectional stream, one gRPC message per tensor, its own settings.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstring>
#include <string>
#include <vector>

#include "pair.h"
#include "ravnest/base/mutex.h"
#include "ravnest/identity/identity.h"

namespace ravnest::benchmark {
namespace {

using grpc::ByteBuffer;
using grpc::Slice;

// Receives into its own memory; answers a message of one byte more than the wanted ones, or each one in kind.
class Far final : public grpc::ServerGenericBidiReactor {
 public:
  Far() { StartRead(&in_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    std::vector<Slice> slices;
    (void)in_.Dump(&slices);
    data_.resize(in_.Length());
    std::size_t filled = 0;
    for (const Slice& slice : slices) {
      std::memcpy(data_.data() + filled, slice.begin(), slice.size());
      filled += slice.size();
    }
    in_.Clear();
    // The first byte says what is wanted: 1 an answer in kind, 2 a sign of life, 0 nothing.
    if (data_.empty() || data_[0] == 0) return StartRead(&in_);
    const Slice answer(data_.data(), data_[0] == 1 ? data_.size() : 1);
    out_ = ByteBuffer(&answer, 1);
    StartWrite(&out_);
  }
  void OnWriteDone(bool) override { StartRead(&in_); }
  void OnDone() override { delete this; }

 private:
  ByteBuffer in_;
  ByteBuffer out_;
  std::vector<char> data_;
};

class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override { return new Far; }
};

class Near final : public grpc::ClientBidiReactor<ByteBuffer, ByteBuffer> {
 public:
  void OnReadDone(bool) override { count(reads_); }
  void OnWriteDone(bool) override { count(writes_); }
  void OnDone(const grpc::Status&) override { count(ends_); }

  void write(const std::vector<char>& data) {
    const Slice slice(data.data(), data.size(), Slice::STATIC_SLICE);
    out_ = ByteBuffer(&slice, 1);
    StartWrite(&out_);
    wait(writes_, ++written_);
  }
  void read() {
    StartRead(&in_);
    wait(reads_, ++read_);
  }
  void wait_for_end() { wait(ends_, 1); }

 private:
  void count(int& counter) {
    const MutexLock lock(mutex_);
    ++counter;
    changed_.notify_all();
  }
  void wait(const int& counter, int until) {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [&] { return counter >= until; });
  }

  // Guards reads_, writes_ and ends_, which go to functions by reference; that is beyond what clang checks.
  Mutex mutex_;
  ConditionVariable changed_;
  int reads_ = 0;
  int writes_ = 0;
  int ends_ = 0;
  int written_ = 0;
  int read_ = 0;
  ByteBuffer in_;
  ByteBuffer out_;
};

class GrpcPair final : public Pair {
 public:
  explicit GrpcPair(bool tls) {
    auto server_credentials = grpc::InsecureServerCredentials();
    auto credentials = grpc::InsecureChannelCredentials();
    if (tls) {
      const auto authority = identity::Authority::create("bench");
      const identity::Identity near = authority->issue("near").value();
      const identity::Identity far = authority->issue("far").value();
      grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
      options.pem_root_certs = authority->certificate();
      options.pem_key_cert_pairs.push_back({far.key, far.certificate});
      server_credentials = grpc::SslServerCredentials(options);
      credentials = grpc::SslCredentials({authority->certificate(), near.key, near.certificate});
    }
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", server_credentials, &port);
    builder.RegisterCallbackGenericService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    if (tls) arguments.SetSslTargetNameOverride("far");
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), credentials, arguments));
    stub_->PrepareBidiStreamingCall(&context_, "/bench/stream", grpc::StubOptions(), &near_);
    near_.StartCall();
  }
  ~GrpcPair() override {
    near_.StartWritesDone();
    near_.wait_for_end();
    server_->Shutdown();
  }

  void stream(std::size_t size, int count) override {
    std::vector<char> data(size, 0);
    for (int i = 0; i < count; ++i) near_.write(data);
    near_.write({2});
    near_.read();
  }
  void round_trip(std::size_t size) override {
    data_.assign(size, 1);
    near_.write(data_);
    near_.read();
  }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  Near near_;
  std::vector<char> data_;
};

}  // namespace

std::unique_ptr<Pair> grpc_stream() { return std::make_unique<GrpcPair>(false); }
std::unique_ptr<Pair> grpc_tls() { return std::make_unique<GrpcPair>(true); }

}  // namespace ravnest::benchmark
