#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "k8sclient/beast_parser.h"
#include "k8sclient/beast_transport.h"
#include "k8sclient/gzip.h"
#include "k8sclient/requests.h"
#include "test/k8sclient/script_server.h"

namespace muster::k8s {
namespace {

using fake::KeyPair;
using fake::MakeCertificate;
using fake::ScriptServer;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using Conn = ScriptServer::Conn;

std::string Gzip(const std::string& text) {
  z_stream stream{};
  ::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + 1000, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

class TransportTest : public ::testing::Test {
 protected:
  ConnectionConfig PlainConfig(const ScriptServer& server) {
    ConnectionConfig config;
    config.server = {.tls = false, .host = "127.0.0.1", .port = server.port(), .base_path = ""};
    return config;
  }
  void Connect(ConnectionConfig config, BeastTransportOptions options = {}) {
    auto made = MakeBeastTransport(loop_, std::move(config), std::move(options));
    ASSERT_TRUE(made) << made.error().message;
    transport_ = std::move(*made);
  }
  bool Until(const std::function<bool()>& done) {
    const TimePoint end = loop_.Now() + seconds(30);
    while (!done() && loop_.Now() < end) {
      loop_.RunFor(milliseconds(20));
    }
    return done();
  }
  Result<Response> Send(Request request) {
    std::optional<Result<Response>> out;
    transport_->Send(std::move(request), [&](Result<Response> r) { out = std::move(r); });
    EXPECT_FALSE(out) << "never from inside";
    EXPECT_TRUE(Until([&] { return out.has_value(); }));
    return out ? std::move(*out)
               : Result<Response>(std::unexpected(Error::Retry("never answered")));
  }
  Result<Response> SendAndDrop(Request request) {
    Result<Response> out = Send(std::move(request));
    return out;
  }

  IoLoop loop_;
  std::unique_ptr<Transport> transport_;
};

TEST_F(TransportTest, ReusesAConnectionAndCarriesWhatIsAsked) {
  std::vector<std::string> seen;
  ScriptServer server([&](Conn& conn, int) {
    for (std::string r = conn.Request(); !r.empty(); r = conn.Request()) {
      seen.push_back(r);
      conn.Answer("{}");
    }
  });
  ConnectionConfig config = PlainConfig(server);
  config.server.base_path = "/prefix";
  config.auth.username = "u";
  config.auth.password = "p";
  config.auth.impersonate_user = "bob";
  Connect(config, {.user_agent = "muster/1"});
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Send(MergePatch("/x?a=b", {{"a", 1}})));
  }
  EXPECT_EQ(server.connections(), 1);
  transport_.reset();
  ASSERT_EQ(seen.size(), 5U);
  for (const char* part : {"PATCH /prefix/x?a=b HTTP/1.1\r\n",
                           "\r\nHost: 127.0.0.1:",
                           "\r\nUser-Agent: muster/1\r\n",
                           "\r\nauthorization: Basic dTpw\r\n",
                           "\r\nimpersonate-user: bob\r\n",
                           "\r\nAccept-Encoding: gzip\r\n",
                           "\r\nContent-Type: application/merge-patch+json\r\n",
                           "\r\n\r\n{\"a\":1}"}) {
    EXPECT_THAT(seen[0], HasSubstr(part));
  }
}

TEST_F(TransportTest, UsesSeveralConnectionsButNoMoreThanAllowed) {
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  ScriptServer server([&](Conn& conn, int) {
    while (!conn.Request().empty()) {
      most = std::max(most.load(), ++at_once);
      std::this_thread::sleep_for(milliseconds(5));
      --at_once;
      conn.Answer("{}");
    }
  });
  Connect(PlainConfig(server), {.max_connections = 4});
  int answered = 0;
  for (int i = 0; i < 100; ++i) {
    transport_->Send(Get("/x"), [&](Result<Response> r) { answered += r ? 1 : 0; });
  }
  EXPECT_TRUE(Until([&] { return answered == 100; }));
  EXPECT_LE(server.connections(), 4);
  EXPECT_GE(most, 2);
  transport_.reset();
}

TEST_F(TransportTest, SendsAgainOnAStaleConnectionOnlyWhatMayBeSentAgain) {
  // Each connection serves one request, reads the next and hangs up on it.
  std::atomic<int> requests{0};
  ScriptServer server([&](Conn& conn, int) {
    if (!conn.Request().empty()) {
      ++requests;
      conn.Answer("{}");
      requests += conn.Request().empty() ? 0 : 1;
    }
  });
  Connect(PlainConfig(server), {.max_connections = 1});
  ASSERT_TRUE(Send(Get("/1")));
  EXPECT_TRUE(Send(Get("/2"))) << "read twice, no harm";
  EXPECT_EQ(requests, 3);
  const auto created = Send(Create("/3", api::Json::object()));
  ASSERT_FALSE(created) << "the server may have acted";
  EXPECT_EQ(created.error().code, ErrorCode::kRetry);
  EXPECT_EQ(requests, 4);
  transport_.reset();
}

TEST_F(TransportTest, NoticesThatAnIdleConnectionWasClosed) {
  ScriptServer server([&](Conn& conn, int) {
    if (!conn.Request().empty()) {
      conn.Answer("{}");
    }
  });
  Connect(PlainConfig(server), {.max_connections = 1});
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(Send(Create("/x", api::Json::object())));
    const TimePoint start = loop_.Now();
    Until([&] { return loop_.Now() > start + milliseconds(50); });
  }
  EXPECT_EQ(server.connections(), 5);
  transport_.reset();
}

TEST_F(TransportTest, EndsEveryRequestByItsDeadline) {
  ScriptServer silent([](Conn& conn, int) { conn.Hold(); });
  Connect(PlainConfig(silent), {.max_connections = 2});
  std::vector<Duration> took;
  const TimePoint start = loop_.Now();
  // More than there are connections: the last ones wait, and end in time all the same.
  for (int i = 0; i < 5; ++i) {
    Request request = Get("/x");
    request.timeout = milliseconds(200);
    transport_->Send(std::move(request), [&](Result<Response> r) {
      EXPECT_FALSE(r);
      took.push_back(loop_.Now() - start);
    });
  }
  ASSERT_TRUE(Until([&] { return took.size() == 5; }));
  for (const Duration d : took) {
    EXPECT_GE(d, milliseconds(150));
    EXPECT_LE(d, seconds(5));
  }
  transport_.reset();
}

TEST_F(TransportTest, ReadsEveryShapeOfAnswer) {
  const std::string big(300'000, 'x');
  const std::string packed = Gzip(big);
  ScriptServer server([&](Conn& conn, int) {
    for (std::string r = conn.Request(); !r.empty(); r = conn.Request()) {
      if (r.starts_with("GET /chunked")) {
        conn.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        conn.Write("4;x=y\r\ndefg\r\n0\r\nTrailer: t\r\n\r\n");
      } else if (r.starts_with("GET /gzip")) {
        conn.Answer(packed, "200 OK", "Content-Encoding: gzip\r\n");
      } else if (r.starts_with("GET /interim")) {
        conn.Write("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
        conn.Answer("late");
      } else if (r.starts_with("GET /empty")) {
        conn.Write("HTTP/1.1 204 No Content\r\n\r\n");
      } else if (r.starts_with("GET /until-close")) {
        conn.Write("HTTP/1.1 200 OK\r\n\r\nall there is");
        return;
      } else if (r.starts_with("GET /cut")) {
        conn.Write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        return;
      } else if (r.starts_with("GET /no-http")) {
        conn.Write("SSH-2.0-OpenSSH\r\n\r\n");
        return;
      } else if (r.starts_with("GET /header")) {
        conn.Write("HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'h'));
        return;
      } else if (r.starts_with("GET /damaged")) {
        conn.Answer(packed.substr(0, 100) + "garbage" + packed.substr(100),
                    "200 OK",
                    "Content-Encoding: gzip\r\n");
      } else if (r.starts_with("GET /short")) {
        conn.Answer(packed.substr(0, packed.size() - 12), "200 OK", "Content-Encoding: gzip\r\n");
      } else if (r.starts_with("GET /error")) {
        conn.Answer(R"({"kind":"Status"})",
                    "503 Service Unavailable",
                    "Retry-After: 3\r\nConnection: close\r\n");
        return;
      }
    }
  });
  Connect(PlainConfig(server), {.max_response_bytes = 1 << 20});
  EXPECT_EQ(Send(Get("/chunked")).value().body, "abcdefg");
  EXPECT_EQ(Send(Get("/gzip")).value().body, big);
  EXPECT_EQ(Send(Get("/interim")).value().body, "late");
  EXPECT_EQ(Send(Get("/empty")).value().status, 204);
  EXPECT_EQ(Send(Get("/until-close")).value().body, "all there is");
  for (const char* broken : {"/cut", "/short", "/no-http", "/header", "/damaged"}) {
    const auto failed = Send(Get(broken));
    ASSERT_FALSE(failed) << broken;
    EXPECT_EQ(failed.error().code, ErrorCode::kRetry) << broken << failed.error().message;
  }
  const auto error = Send(Get("/error"));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, 503);
  EXPECT_EQ(error->Header("retry-after"), "3");
  transport_.reset();
}

TEST_F(TransportTest, LimitsWhatIsUnpacked) {
  const std::string bomb = Gzip(std::string(8 << 20, '\0'));
  ScriptServer server([&](Conn& conn, int) {
    while (!conn.Request().empty()) {
      conn.Answer(bomb, "200 OK", "Content-Encoding: gzip\r\n");
    }
  });
  Connect(PlainConfig(server), {.max_response_bytes = 1 << 20});
  const auto refused = Send(Get("/x"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("larger than"));
  transport_.reset();
}

TEST_F(TransportTest, RefusesToSendTwoRequestsInOne) {
  ScriptServer server([](Conn& conn, int) { conn.Hold(); });
  Connect(PlainConfig(server));
  for (const char* target : {"/x HTTP/1.1\r\nX: y", "/a b", "x", ""}) {
    EXPECT_EQ(Send(Get(target)).error().code, ErrorCode::kInvalid) << target;
  }
  Request request = Get("/x");
  request.headers.emplace_back("x", "a\r\nb: c");
  EXPECT_EQ(Send(request).error().code, ErrorCode::kInvalid);
  EXPECT_EQ(server.connections(), 0);
  transport_.reset();
}

TEST_F(TransportTest, SaysThatNobodyListens) {
  std::uint16_t port = 0;
  {
    ScriptServer gone([](Conn&, int) {});
    port = gone.port();
  }
  ConnectionConfig config;
  config.server = {.tls = false, .host = "127.0.0.1", .port = port, .base_path = ""};
  Connect(config);
  const auto refused = Send(Get("/x"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kRetry);
  EXPECT_THAT(refused.error().message, HasSubstr("connect"));
}

struct Streamed {
  int status = 0;
  std::string data;
  std::optional<Status> end;
  std::unique_ptr<Transport::Stream> stream;

  Transport::StreamHandlers Handlers() {
    return {.on_response = [this](int s, const Headers&) { status = s; },
            .on_data = [this](std::string_view bytes) { data += bytes; },
            .on_end = [this](Status s) { end = std::move(s); }};
  }
};

TEST_F(TransportTest, StreamsBytesAsTheyComeAndNoticesSilence) {
  ScriptServer server([&](Conn& conn, int) {
    const std::string r = conn.Request();
    conn.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    if (r.starts_with("GET /end")) {
      conn.Write("0\r\n\r\n");
      conn.Hold();
    } else if (r.starts_with("GET /cut")) {
      return;
    } else {
      conn.Hold();
    }
  });
  Connect(PlainConfig(server));
  Streamed ends;
  Streamed cut;
  Streamed silent;
  Streamed dropped;
  Request quick = Get("/silent");
  quick.timeout = milliseconds(300);
  ends.stream = transport_->OpenStream(Get("/end"), ends.Handlers());
  cut.stream = transport_->OpenStream(Get("/cut"), cut.Handlers());
  silent.stream = transport_->OpenStream(quick, silent.Handlers());
  dropped.stream = transport_->OpenStream(Get("/dropped"), dropped.Handlers());
  ASSERT_TRUE(Until([&] { return dropped.data == "ab"; }));
  dropped.stream.reset();
  ASSERT_TRUE(Until([&] { return ends.end && cut.end && silent.end; }));
  EXPECT_TRUE(ends.end->has_value());
  EXPECT_EQ(ends.data, "ab");
  EXPECT_FALSE(cut.end->has_value());
  EXPECT_EQ(silent.data, "ab");
  EXPECT_THAT(silent.end->error().message, HasSubstr("silent"));
  EXPECT_FALSE(dropped.end);
  ends.stream.reset();
  cut.stream.reset();
  silent.stream.reset();
  transport_.reset();
  loop_.RunFor(milliseconds(10));
}

TEST_F(TransportTest, StreamsGiveTheBodyOfARefusal) {
  ScriptServer server([&](Conn& conn, int) {
    static_cast<void>(conn.Request());
    conn.Answer("gone", "410 Gone");
  });
  Connect(PlainConfig(server));
  Streamed refused;
  refused.stream = transport_->OpenStream(Get("/x"), refused.Handlers());
  ASSERT_TRUE(Until([&] { return refused.end.has_value(); }));
  EXPECT_EQ(refused.status, 410);
  EXPECT_EQ(refused.data, "gone");
  EXPECT_TRUE(refused.end->has_value());
  refused.stream.reset();
  transport_.reset();
}

TEST_F(TransportTest, UnpacksAStreamAsItComes) {
  // In several members, as the API server does.
  const std::string packed = Gzip("hello, ") + Gzip("stream");
  ScriptServer server([&](Conn& conn, int) {
    static_cast<void>(conn.Request());
    conn.Write("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + packed);
    conn.Hold();
  });
  Connect(PlainConfig(server));
  Streamed s;
  s.stream = transport_->OpenStream(Get("/x"), s.Handlers());
  EXPECT_TRUE(Until([&] { return s.data == "hello, stream"; }));
  s.stream.reset();
  transport_.reset();
}

TEST_F(TransportTest, ChecksWhoAnswers) {
  const KeyPair pair = MakeCertificate("DNS:api.test,IP:127.0.0.1");
  const KeyPair other = MakeCertificate("DNS:other.test");
  struct Row {
    const char* what;
    const KeyPair* server;
    std::string ca;
    std::string name;
    bool insecure;
    bool good;
  };
  const std::vector<Row> rows{
      {"right name", &pair, pair.cert_pem, "api.test", false, true},
      {"right address", &pair, pair.cert_pem, "", false, true},
      {"wrong name", &pair, pair.cert_pem, "evil.test", false, false},
      {"wrong address", &other, other.cert_pem, "", false, false},
      {"unknown authority", &pair, other.cert_pem, "", false, false},
      {"system authorities", &pair, "", "", false, false},
      {"insecure", &other, "", "", true, true},
  };
  for (const Row& row : rows) {
    ScriptServer server(
        [](Conn& conn, int) {
          while (!conn.Request().empty()) {
            conn.Answer("{}");
          }
        },
        row.server);
    ConnectionConfig config = PlainConfig(server);
    config.server.tls = true;
    config.tls.ca_pem = row.ca;
    config.tls.server_name = row.name;
    config.tls.insecure_skip_verify = row.insecure;
    Connect(config);
    const auto answer = Send(Get("/x"));
    EXPECT_EQ(answer.has_value(), row.good) << row.what << (answer ? "" : answer.error().message);
    if (!answer) {
      EXPECT_EQ(answer.error().code, ErrorCode::kDenied)
          << row.what << ": " << answer.error().message;
    }
    transport_.reset();
    loop_.RunFor(milliseconds(10));
  }
}

TEST_F(TransportTest, RefusesOldTls) {
  const KeyPair pair = MakeCertificate("IP:127.0.0.1");
  ScriptServer server([](Conn& conn, int) { conn.Answer("{}"); }, &pair, TLS1_1_VERSION);
  ConnectionConfig config = PlainConfig(server);
  config.server.tls = true;
  config.tls.ca_pem = pair.cert_pem;
  Connect(config);
  EXPECT_FALSE(Send(Get("/x")));
  transport_.reset();
  loop_.RunFor(milliseconds(10));
}

TEST_F(TransportTest, ShowsItsCertificate) {
  const KeyPair pair = MakeCertificate("IP:127.0.0.1");
  const KeyPair client = MakeCertificate("DNS:client");
  ScriptServer server(
      [](Conn& conn, int) {
        while (!conn.Request().empty()) {
          X509* shown = ::SSL_get1_peer_certificate(conn.ssl());
          conn.Answer(shown != nullptr ? "shown" : "none");
          ::X509_free(shown);
        }
      },
      &pair);
  ConnectionConfig config = PlainConfig(server);
  config.server.tls = true;
  config.tls.ca_pem = pair.cert_pem;
  config.tls.cert_pem = client.cert_pem;
  config.tls.key_pem = client.key_pem;
  Connect(config);
  EXPECT_EQ(Send(Get("/x")).value().body, "shown");
  transport_.reset();
  config.tls.key_pem = pair.key_pem;
  EXPECT_FALSE(MakeBeastTransport(loop_, config)) << "the key of another";
  config.tls.key_pem = "nonsense";
  EXPECT_FALSE(MakeBeastTransport(loop_, config));
  config.tls.cert_pem = config.tls.key_pem = "";
  config.tls.ca_pem = "nonsense";
  EXPECT_FALSE(MakeBeastTransport(loop_, config));
  loop_.RunFor(milliseconds(10));
}

TEST_F(TransportTest, GoesThroughAProxy) {
  std::vector<std::string> asked;
  ScriptServer proxy([&](Conn& conn, int number) {
    asked.push_back(conn.Request());
    if (number > 0) {
      conn.Write("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
      return;
    }
    conn.Write("HTTP/1.1 200 Connection established\r\n\r\n");
    while (!conn.Request().empty()) {
      conn.Answer("through");
    }
  });
  ConnectionConfig config;
  config.server = {.tls = false, .host = "api.invalid", .port = 6443, .base_path = ""};
  config.proxy =
      ProxyConfig{.host = "127.0.0.1", .port = proxy.port(), .authorization = "Basic abc"};
  Connect(config);
  EXPECT_EQ(Send(Get("/x")).value().body, "through");
  EXPECT_THAT(asked[0], HasSubstr("CONNECT api.invalid:6443 HTTP/1.1\r\n"));
  EXPECT_THAT(asked[0], HasSubstr("Proxy-Authorization: Basic abc\r\n"));
  transport_.reset();
  loop_.RunFor(milliseconds(10));
  Connect(config);
  EXPECT_THAT(Send(Get("/x")).error().message, HasSubstr("407"));
  transport_.reset();
  loop_.RunFor(milliseconds(10));
}

class TempFile {
 public:
  explicit TempFile(const std::string& text) {
    char name[] = "/tmp/muster-token-XXXXXX";
    ::close(::mkstemp(name));
    path_ = name;
    Write(text);
  }
  ~TempFile() { std::remove(path_.c_str()); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_F(TransportTest, ReadsARotatedTokenAfter401) {
  ScriptServer server([](Conn& conn, int) {
    for (std::string r = conn.Request(); !r.empty(); r = conn.Request()) {
      if (r.contains("Bearer new\r\n")) {
        conn.Answer("welcome");
      } else {
        conn.Answer("", "401 Unauthorized");
      }
    }
  });
  TempFile token("old\n");
  ConnectionConfig config = PlainConfig(server);
  config.auth.token_file = token.path();
  Connect(config);
  EXPECT_EQ(Send(Get("/x")).value().status, 401) << "nothing newer to try";
  token.Write("new\n");
  EXPECT_EQ(Send(Create("/x", api::Json::object())).value().body, "welcome")
      << "401 means that nothing was done";
  Streamed s;
  s.stream = transport_->OpenStream(Get("/x"), s.Handlers());
  EXPECT_TRUE(Until([&] { return s.data == "welcome"; }));
  s.stream.reset();
  transport_.reset();
}

TEST_F(TransportTest, RunsACredentialPluginOnceAndAgainAfter401) {
  std::atomic<bool> revoked{false};
  ScriptServer server([&](Conn& conn, int) {
    for (std::string r = conn.Request(); !r.empty(); r = conn.Request()) {
      const bool second = r.contains("Bearer t2\r\n");
      conn.Answer(second ? "two" : "one", revoked && !second ? "401 Unauthorized" : "200 OK");
    }
  });
  TempFile count("");
  ConnectionConfig config = PlainConfig(server);
  config.auth.exec = ExecConfig{
      .command = "sh",
      .args =
          {"-c",
           R"(echo x >> "$COUNT"; n=$(wc -l < "$COUNT"); test -n "$KUBERNETES_EXEC_INFO" || exit 9;
                  printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t%d"}}' "$n")"},
      .env = {{"COUNT", count.path()}},
      .api_version = "client.authentication.k8s.io/v1"};
  Connect(config);
  int answered = 0;
  for (int i = 0; i < 10; ++i) {
    transport_->Send(Get("/x"),
                     [&](Result<Response> r) { answered += r && r->body == "one" ? 1 : 0; });
  }
  ASSERT_TRUE(Until([&] { return answered == 10; }));
  revoked = true;
  EXPECT_EQ(Send(Get("/x")).value().body, "two");
  transport_.reset();
  config.auth.exec->args = {"-c", "exit 4"};
  Connect(config);
  const auto failed = Send(Get("/x"));
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("credential plugin sh: ended with status 4"));
  transport_.reset();
}

TEST_F(TransportTest, EndsInTheMiddleOfAnything) {
  ScriptServer server([](Conn& conn, int) { conn.Hold(); });
  for (int i = 0; i < 3; ++i) {
    Connect(PlainConfig(server), {.max_connections = 2});
    int answered = 0;
    Streamed s;
    s.stream = transport_->OpenStream(Get("/stream"), s.Handlers());
    for (int k = 0; k < 5; ++k) {
      transport_->Send(Get("/x"), [&](Result<Response> r) { answered += r ? 100 : 1; });
    }
    for (int k = 0; k < i; ++k) {
      loop_.RunFor(milliseconds(20));
    }
    transport_.reset();
    EXPECT_TRUE(Until([&] { return answered == 5; })) << "each is answered once, also at the end";
    s.stream.reset();
  }
}

TEST(IoLoopTest, TimersFireInOrderAndNotWhenCancelled) {
  IoLoop loop;
  std::string order;
  const TimePoint now = loop.Now();
  auto b = loop.At(now + milliseconds(40), [&] { order += "b"; });
  auto a = loop.At(now + milliseconds(10), [&] { order += "a"; });
  auto never = loop.At(now + milliseconds(20), [&] { order += "x"; });
  never.reset();
  std::unique_ptr<Timers::Timer> self;
  self = loop.At(now + milliseconds(60), [&] {
    self.reset();
    order += "c";
    loop.Stop();
  });
  loop.Post([&] { order += "1"; });
  loop.Post([&] { order += "2"; });
  std::thread other([&] { loop.PostFromAnyThread([&] { order += "3"; }); });
  other.join();
  loop.Run();
  EXPECT_EQ(order, "123abc");
  EXPECT_GE(loop.Now(), now + milliseconds(60));
}

}  // namespace
}  // namespace muster::k8s
