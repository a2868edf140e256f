// What the sockets can do: blocking calls, one thread on each side, nothing else.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

#include "pair.h"
#include "ravnest/identity/identity.h"
#include "ravnest/transport/tcp/tls.h"

namespace ravnest::benchmark {
namespace {

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(1);
}

// A blocking connection, with TLS if asked for.
class Wire {
 public:
  Wire(int descriptor, const transport::tcp::TlsContext* tls) : descriptor_(descriptor) {
    const int on = 1;
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (tls == nullptr) return;
    session_.reset(SSL_new(tls->handle()));
    SSL_set_fd(session_.get(), descriptor_);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire() { ::close(descriptor_); }

  void shake_hands(bool dialled) {
    if (session_ == nullptr) return;
    if ((dialled ? SSL_connect(session_.get()) : SSL_accept(session_.get())) != 1) give_up("TLS");
  }
  void send(const char* data, std::size_t size) {
    while (size > 0) {
      const auto sent = session_ == nullptr ? ::send(descriptor_, data, size, MSG_NOSIGNAL)
                                            : SSL_write(session_.get(), data, static_cast<int>(size));
      if (sent <= 0) give_up("send");
      data += sent;
      size -= static_cast<std::size_t>(sent);
    }
  }
  void receive(char* data, std::size_t size) {
    while (size > 0) {
      const auto got = session_ == nullptr ? ::recv(descriptor_, data, size, 0)
                                           : SSL_read(session_.get(), data, static_cast<int>(size));
      if (got <= 0) give_up("receive");
      data += got;
      size -= static_cast<std::size_t>(got);
    }
  }

 private:
  int descriptor_;
  transport::tcp::TlsSession session_;
};

class RawPair final : public Pair {
 public:
  explicit RawPair(bool tls) {
    std::optional<transport::tcp::TlsContext> near_context;
    std::optional<transport::tcp::TlsContext> far_context;
    if (tls) {
      const auto authority = identity::Authority::create("bench");
      const auto context = [&](const char* name) {
        return transport::tcp::TlsContext::create({authority->issue(name).value(), authority->certificate()}).value();
      };
      near_context = context("near");
      far_context = context("far");
    }
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener, 1) != 0 ||
        ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      give_up("listen");
    }
    const int near = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(near, reinterpret_cast<sockaddr*>(&address), size) != 0) give_up("connect");
    far_.emplace(::accept(listener, nullptr, nullptr), tls ? &*far_context : nullptr);
    near_.emplace(near, tls ? &*near_context : nullptr);
    ::close(listener);
    std::thread other([&] { far_->shake_hands(false); });
    near_->shake_hands(true);
    other.join();
  }

  void stream(std::size_t size, int count) override {
    grow(size);
    std::thread receiver([&] {
      for (int i = 0; i < count; ++i) far_->receive(far_data_.data(), size);
      far_->send(far_data_.data(), 1);
    });
    for (int i = 0; i < count; ++i) near_->send(near_data_.data(), size);
    near_->receive(near_data_.data(), 1);
    receiver.join();
  }

  void round_trip(std::size_t size) override {
    grow(size);
    if (!echo_.joinable()) {
      echo_ = std::thread([this, size] {
        do {
          far_->receive(far_data_.data(), size);
          far_->send(far_data_.data(), size);
        } while (far_data_[0] != kEnd);
      });
    }
    near_->send(near_data_.data(), size);
    near_->receive(near_data_.data(), size);
  }

  ~RawPair() override {
    if (!echo_.joinable()) return;
    near_data_[0] = kEnd;
    near_->send(near_data_.data(), near_data_.size());
    near_->receive(near_data_.data(), near_data_.size());
    echo_.join();
  }

 private:
  static constexpr char kEnd = 9;  // in front of the last message

  void grow(std::size_t size) {
    if (near_data_.size() == size) return;
    near_data_.assign(size, 1);
    far_data_.assign(size, 2);
  }

  std::optional<Wire> near_;
  std::optional<Wire> far_;
  std::vector<char> near_data_;
  std::vector<char> far_data_;
  std::thread echo_;
};

}  // namespace

std::unique_ptr<Pair> raw_tcp() { return std::make_unique<RawPair>(false); }
std::unique_ptr<Pair> raw_tls() { return std::make_unique<RawPair>(true); }

}  // namespace ravnest::benchmark
