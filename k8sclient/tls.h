#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "k8sclient/config.h"
#include "k8sclient/io_loop.h"

// Connections as bytes: TCP, through a proxy if there is one, and TLS on it. The only file that
// knows OpenSSL.
namespace muster::k8s {

// One connection. Destroying it closes it, and no callback runs afterwards.
// Threads  That of the loop. At the most one Read and one Write at a time; a callback never runs
// from inside the call.
class Socket {
 public:
  using ReadDone = std::move_only_function<void(Result<std::size_t> bytes)>;  // 0: closed in order
  using WriteDone = std::move_only_function<void(Status)>;

  virtual ~Socket() = default;
  // `into` must stay valid until `done` runs or the socket is destroyed.
  virtual void Read(std::span<char> into, ReadDone done) = 0;
  virtual void Write(std::string bytes, WriteDone done) = 0;
};

class Dialer {
 public:
  using Done = std::move_only_function<void(Result<std::unique_ptr<Socket>>)>;
  class Attempt {  // destroying it gives up
   public:
    virtual ~Attempt() = default;
  };

  virtual ~Dialer() = default;
  // Resolves, connects, greets, and checks who answers; no longer than `limit` in all.
  // Errors   kRetry: nobody answered. kDenied: the certificate is not that of the server that was
  // meant.
  [[nodiscard]] virtual std::unique_ptr<Attempt> Dial(Duration limit, Done done) = 0;
  // For credential plugins that hand out certificates. New connections use it.
  [[nodiscard]] virtual Status SetClientCertificate(const std::string& cert_pem,
                                                    const std::string& key_pem) = 0;
};

// TLS 1.2 at the least; the name (or address) of the server is checked unless the configuration
// says otherwise. Errors   kInvalid: certificates or keys that do not parse or do not belong
// together.
[[nodiscard]] Result<std::unique_ptr<Dialer>> MakeDialer(IoLoop& loop,
                                                         const ConnectionConfig& config);

}  // namespace muster::k8s
