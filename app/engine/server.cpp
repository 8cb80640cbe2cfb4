#include "app/engine/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "app/engine/session.h"
#include "core/base/framing.h"
#include "core/torch/warnings.h"

namespace graft {
namespace {

using nlohmann::json;

class Server {
 public:
  Server(const Semantics& semantics, int input, int output) : session_(semantics), input_(input), output_(output) {}

  Status run() {
    std::thread worker([this] {
      printWarningsOnce();
      work();
    });
    Status status = read();
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      running_.cancel();
    }
    wake_.notify_all();
    worker.join();
    return status;
  }

 private:
  Status read() {
    FrameReader frames;
    std::string chunk(1 << 16, '\0');
    for (;;) {
      const ssize_t n = ::read(input_, chunk.data(), chunk.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return done();
      frames.feed(std::string_view(chunk).substr(0, static_cast<size_t>(n)));
      while (auto message = frames.next())
        if (!receive(*message)) return done();
      if (!frames.broken().empty()) return badInput("the client's messages cannot be read: " + frames.broken());
    }
  }

  /// False when the client asked to shut down.
  bool receive(const std::string& text) {
    json message = json::parse(text, nullptr, false);
    if (message.is_discarded() || !message.is_object())
      return answerError(nullptr, -32700, "the request is no JSON object");
    const json id = message.value("id", json());
    const json method = message.value("method", json());
    if (!method.is_string()) return answerError(id, -32600, "a request needs a method");
    if (method == "shutdown") {
      if (!id.is_null()) send({{"jsonrpc", "2.0"}, {"id", id}, {"result", nullptr}});
      return false;
    }
    const std::lock_guard lock(mutex_);
    if (method == "$/cancel") {
      const json params = message.value("params", json());
      if (params.is_object()) cancel(params.value("id", json()));
      return true;
    }
    queue_.push_back(std::move(message));
    wake_.notify_one();
    return true;
  }

  // Under the lock.
  void cancel(const json& id) {
    if (id.is_null()) return;
    if (id == runningId_) running_.cancel();
    for (auto it = queue_.begin(); it != queue_.end(); ++it) {
      if (it->value("id", json()) != id) continue;
      queue_.erase(it);
      answerError(id, -32800, "cancelled");
      return;
    }
  }

  void work() {
    for (;;) {
      json request;
      Job job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return ended_ || !queue_.empty(); });
        if (ended_) return;
        request = std::move(queue_.front());
        queue_.pop_front();
        running_ = job.cancel;
        runningId_ = request.value("id", json());
      }
      const json id = request.value("id", json());
      job.onProgress = [this, id](std::string_view what, size_t done, size_t total) {
        send({{"jsonrpc", "2.0"},
              {"method", "$/progress"},
              {"params", {{"id", id}, {"what", what}, {"done", done}, {"total", total}}}});
      };
      size_t parts = 0;
      const Session::SendPart sendPart = [this, &id, &parts](std::string_view part) {
        write(fmt::format(R"({{"jsonrpc":"2.0","method":"$/graph","params":{{"id":{},"part":{},"graph":)", id.dump(),
                          parts++),
              part, "}}");
      };
      answer(request, id, job, sendPart);
      const std::lock_guard lock(mutex_);
      runningId_ = json();
    }
  }

  void answer(const json& request, const json& id, const Job& job, const Session::SendPart& part) {
    RpcError error{};
    try {
      json result =
          session_.call(request["method"].get<std::string>(), request.value("params", json::object()), job, part);
      if (!id.is_null()) send({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
      return;
    } catch (const RpcError& e) {
      error = e;
    } catch (const json::exception& e) {
      error = {-32602, fmt::format("wrong parameters: {}", e.what())};
    } catch (const std::exception& e) {
      error = {2, fmt::format("internal error: {}", e.what())};
    }
    if (!id.is_null()) answerError(id, error.code, error.message);
  }

  bool answerError(const json& id, int code, const std::string& message) {
    send({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}});
    return true;
  }

  void send(const json& message) { write(message.dump(-1, ' ', false, json::error_handler_t::replace), {}, {}); }

  /// One frame whose body is the three one after the other: large ones are not copied together.
  void write(std::string_view front, std::string_view body, std::string_view back) {
    const std::string head = fmt::format("Content-Length: {}\r\n\r\n", front.size() + body.size() + back.size());
    std::array<std::string_view, 4> rest{head, front, body, back};
    const std::lock_guard lock(writing_);
    for (size_t at = 0; at < rest.size();) {
      std::array<iovec, rest.size()> pieces;
      int count = 0;
      for (size_t i = at; i < rest.size(); ++i)
        if (!rest[i].empty())
          pieces[static_cast<size_t>(count++)] = {const_cast<char*>(rest[i].data()), rest[i].size()};
      if (count == 0) return;
      ssize_t n = ::writev(output_, pieces.data(), count);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;  // the client is gone: the end of our input will end the server
      for (; at < rest.size() && n >= static_cast<ssize_t>(rest[at].size()); ++at)
        n -= static_cast<ssize_t>(rest[at].size());
      if (at < rest.size()) rest[at].remove_prefix(static_cast<size_t>(n));
    }
  }

  Session session_;
  int input_, output_;
  std::mutex mutex_, writing_;
  std::condition_variable wake_;
  std::deque<json> queue_;
  CancelToken running_;
  json runningId_;
  bool ended_ = false;
};

}  // namespace

Status serve(const Semantics& semantics, int input, int output) {
#ifdef F_SETPIPE_SZ
  constexpr int room = 1 << 20;
  ::fcntl(output, F_SETPIPE_SZ, room);  // large graphs go out in fewer, longer pieces; it fails where this is no pipe
#endif
  return Server(semantics, input, output).run();
}

}  // namespace graft
