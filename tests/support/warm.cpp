// Preloaded into `graft` by warm.py. LibTorch's libraries need a quarter of a second to be loaded and to register their
// operators, and the tests start the program a thousand times. So one process gets as far as main(), and a copy of it
// (fork) runs each command, with the arguments, environment, folder and files of that command: the same program from
// its first line on.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Main = int (*)(int, char**, char**);
Main graftMain = nullptr;
bool loaded = false;

struct AtEnd {
  void (*function)(void*);
  void* argument;
};

// What LibTorch's libraries have to do at the end, the last one first. Taking their registers apart costs each copy a
// tenth of a second. It has an effect only where they hold what holds a process, as that of a Python module of
// operators.
std::vector<AtEnd>& librariesAtEnd() {
  static auto* all = new std::vector<AtEnd>;
  return *all;
}

void endLibraries() {
  siginfo_t child{};
  if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0) return;  // there is none
  for (auto it = librariesAtEnd().rbegin(); it != librariesAtEnd().rend(); ++it) it->function(it->argument);
}

// A command: the folder, the number of arguments, the arguments and the environment, each ending with a zero.
struct Command {
  std::string text = std::string(1 << 20, '\0');
  std::array<int, 3> files{-1, -1, -1};

  bool receive(int from) {
    std::array<char, CMSG_SPACE(sizeof files)> control{};
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part, message.msg_iovlen = 1;
    message.msg_control = control.data(), message.msg_controllen = control.size();
    const ssize_t size = recvmsg(from, &message, 0);
    const cmsghdr* header = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (!header || header->cmsg_len != CMSG_LEN(sizeof files)) return false;
    std::memcpy(files.data(), CMSG_DATA(header), sizeof files);
    text.resize(static_cast<size_t>(size));
    return true;
  }

  int run() {
    for (int i = 0; i < 3; ++i) {
      dup2(files[i], i);
      close(files[i]);
    }
    std::vector<char*> words;
    for (size_t at = 0; at < text.size(); at += std::strlen(&text[at]) + 1) words.push_back(&text[at]);
    if (chdir(words[0]) != 0) return 126;
    const int count = std::atoi(words[1]);
    std::vector<char*> arguments(words.begin() + 2, words.begin() + 2 + count);
    std::vector<char*> environment(words.begin() + 2 + count, words.end());
    arguments.push_back(nullptr), environment.push_back(nullptr);
    // It lives as long as the process: destructors may read it.
    environ = (new auto(std::move(environment)))->data();
    std::atexit(endLibraries);
    return graftMain(count, arguments.data(), environ);
  }
};

int serve(int, char**, char**) {
  const int socket = std::atoi(std::getenv("GRAFT_WARM"));
  while (true) {
    auto* command = new Command;
    if (!command->receive(socket)) _exit(0);
    const pid_t child = fork();
    if (child == 0) {
      close(socket);
      return command->run();
    }
    for (int file : command->files) close(file);
    delete command;
    int status = 0;
    if (send(socket, &child, sizeof child, MSG_NOSIGNAL) < 0 || waitpid(child, &status, 0) < 0 ||
        send(socket, &status, sizeof status, MSG_NOSIGNAL) < 0)
      _exit(1);
  }
}

}  // namespace

extern "C" int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*end)(),
                                 void* stack) {
  graftMain = main;
  loaded = true;
  auto* next = reinterpret_cast<decltype(&__libc_start_main)>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return next(std::getenv("GRAFT_WARM") ? serve : main, argc, argv, init, fini, end, stack);
}

// What the program itself makes is destroyed as ever.
extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* library) {
  static auto* next = reinterpret_cast<decltype(&__cxa_atexit)>(dlsym(RTLD_NEXT, "__cxa_atexit"));
  if (loaded || !std::getenv("GRAFT_WARM")) return next(function, argument, library);
  librariesAtEnd().push_back({function, argument});
  return 0;
}
